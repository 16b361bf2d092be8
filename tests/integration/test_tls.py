"""TLS with stock clients, certificates that are replaced while it serves, and options that cannot work."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import memcached_binary, tandem_binary
from harness.server import HOST, PATIENCE_S, Server, free_port
from harness.tls import Identity, client_context, make_identity
from pymemcache.client.base import Client

EX_USAGE = 64
Start = Callable[..., Server]


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return make_identity(tmp_path_factory.mktemp("certificates"), "server")


def connect(server: Server, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(server.connect(), server_hostname=HOST)


def ask(server: Server, context: ssl.SSLContext, request: bytes, until: bytes = b"\r\n") -> bytes:
    with connect(server, context) as connection:
        connection.sendall(request)
        reply = b""
        while not reply.endswith(until):
            data = connection.recv(65536)
            if not data:
                break
            reply += data
        return reply


def served_name(server: Server) -> str:
    """The name in the certificate that a new client is shown."""
    with (
        socket.create_connection((HOST, server.port), timeout=10) as plain,
        ssl._create_unverified_context().wrap_socket(plain) as connection,
    ):
        der = connection.getpeercert(binary_form=True)
    shown = subprocess.run(
        ["openssl", "x509", "-inform", "der", "-noout", "-subject"], input=der, capture_output=True, check=True
    )
    return shown.stdout.decode().strip().rpartition("=")[2].strip()


def test_pymemcache(tandem: Start, identity: Identity) -> None:
    server = tandem("-U", "0", *identity.options())
    context = client_context(identity)
    with closing(Client((HOST, server.port), tls_context=context, timeout=10, connect_timeout=10)) as client:
        assert client.set("key", b"value", noreply=False)
        assert client.get("key") == b"value"
        values = {f"k{i}": bytes([i]) * (i * 1500) for i in range(200)}
        assert client.set_many(values, noreply=False) == []
        assert client.get_many(values.keys()) == values
        large = bytes(range(256)) * 3900
        assert client.set("large", large, noreply=False)
        assert client.get("large") == large


def test_openssl_s_client(tandem: Start, identity: Identity) -> None:
    server = tandem("-U", "0", *identity.options())
    command = ["openssl", "s_client", "-quiet", "-verify_return_error", "-CAfile", identity.certificate]
    for version in ("-tls1_2", "-tls1_3"):
        result = subprocess.run(
            [*command, "-connect", f"{HOST}:{server.port}", version],
            input=b"set a 0 0 1\r\nx\r\nget a\r\nquit\r\n",
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert result.stdout == b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n", result.stderr


def test_a_certificate_is_replaced_while_clients_are_connected(tandem: Start, tmp_path: Path) -> None:
    first, second = (make_identity(tmp_path, name) for name in ("first", "second"))
    served = Identity(tmp_path / "served.pem", tmp_path / "served.key")

    def install(identity: Identity) -> None:
        served.certificate.write_bytes(identity.certificate.read_bytes())
        served.key.write_bytes(identity.key.read_bytes())

    install(first)
    server = tandem("-U", "0", *served.options())
    with connect(server, client_context(first)) as before:
        install(second)
        assert served_name(server) == "first"
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE_S
        while served_name(server) != "second":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        install(first)
        assert ask(server, client_context(second), b"refresh_certs\r\n") == b"OK\r\n"
        assert served_name(server) == "first"

        served.key.write_text("no key")
        reply = ask(server, client_context(first), b"refresh_certs\r\n")
        assert reply.startswith(f"Error loading the key: {served.key} : error:".encode())
        server.process.send_signal(signal.SIGHUP)
        while "Error loading the key" not in server.output():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert served_name(server) == "first"
        before.sendall(b"version\r\n")
        assert before.recv(100).startswith(b"VERSION ")


def test_hup_without_tls_changes_nothing(tandem: Start) -> None:
    server = tandem()
    server.process.send_signal(signal.SIGHUP)
    with server.connect() as connection:
        connection.sendall(b"mn\r\n")
        assert connection.recv(100) == b"MN\r\n"
    log = server.output()
    assert log == "" or log.endswith(" info: nothing to reload: settings need a restart\n")  # it may not be written yet


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_clients_certificates(tandem: Start, tmp_path: Path, mode: int) -> None:
    authority = make_identity(tmp_path, "authority")
    identity, known = (make_identity(tmp_path, name, authority) for name in ("server", "known"))
    strange = make_identity(tmp_path, "strange")
    options = identity.options(f"ssl_verify_mode={mode},ssl_ca_cert={authority.certificate}")
    server = tandem("-U", "0", *options)

    def is_served(client: Identity | None) -> bool:
        try:
            return ask(server, client_context(authority, client), b"mn\r\n") == b"MN\r\n"
        except (ssl.SSLError, ConnectionError):
            return False

    assert is_served(known)
    assert is_served(None) == (mode < 2)
    assert is_served(strange) == (mode < 1)


def test_notls_listener(tandem: Start, identity: Identity) -> None:
    plain_port = free_port()
    server = tandem("-U", "0", "-l", f"notls:{HOST}:{plain_port}", *identity.options())
    with socket.create_connection((HOST, plain_port), timeout=10) as plain:
        plain.sendall(b"mn\r\n")
        assert plain.recv(100) == b"MN\r\n"
    assert ask(server, client_context(identity), b"mn\r\n") == b"MN\r\n"


def test_plain_clients_on_a_tls_port_learn_nothing(tandem: Start, identity: Identity) -> None:
    """And leave nothing in the log, whatever they send."""
    server = tandem("-U", "0", *identity.options())

    def handshake_errors() -> int:
        reply = ask(server, client_context(identity), b"stats\r\n", b"END\r\n")
        return int(reply.partition(b"STAT ssl_handshake_errors ")[2].partition(b"\r")[0])

    # One from the check that the port is open, as soon as its worker has seen it close.
    deadline = time.monotonic() + PATIENCE_S
    while (before := handshake_errors()) != 1:
        assert time.monotonic() < deadline, before
        time.sleep(0.01)
    for request in (b"stats\r\n", b"get a\r\n" * 1000, b"\x80\x0b" + bytes(22), b"\x16\x03\x01\x00\x05hello"):
        for _ in range(20):
            with server.connect() as plain:
                received = b""
                try:
                    plain.sendall(request)
                    with contextlib.suppress(OSError):  # closed by the server meanwhile
                        plain.shutdown(socket.SHUT_WR)
                    while data := plain.recv(4096):
                        received += data
                except (ConnectionResetError, BrokenPipeError):
                    pass
                assert len(received) <= 7 and received[:1] in (b"", b"\x15"), received  # an alert
    assert handshake_errors() == before + 80
    assert server.output() == ""


OPTIONS_THAT_CANNOT_WORK = [
    "ssl_chain_cert=missing.pem,ssl_key=server.key",
    "ssl_chain_cert=text,ssl_key=server.key",
    "ssl_chain_cert=server.pem,ssl_key=missing.key",
    "ssl_chain_cert=server.pem,ssl_key=other.key",
    "ssl_chain_cert=server.pem,ssl_key=server.key,ssl_keyformat=2",
    "ssl_chain_cert=server.pem,ssl_key=server.key,ssl_ca_cert=missing.pem",
    "ssl_chain_cert=server.pem,ssl_key=server.key,ssl_ciphers=nonsense",
    "ssl_chain_cert",
    "ssl_key",
    "ssl_ca_cert",
    "ssl_ciphers",
    "ssl_verify_mode",
    "ssl_verify_mode=4",
    "ssl_verify_mode=x",
    "ssl_keyformat",
    "ssl_keyformat=pem",
    "ssl_min_version",
    "ssl_min_version=4",
    "ssl_min_version=tlsv1.2",
]


@pytest.mark.parametrize("options", OPTIONS_THAT_CANNOT_WORK)
def test_refused_in_memcacheds_words(tmp_path: Path, options: str) -> None:
    """memcached prints OpenSSL's further errors before its own."""
    make_identity(tmp_path, "server")
    make_identity(tmp_path, "other")
    (tmp_path / "text").write_text("no certificate")
    alias = tmp_path / "memcached"
    alias.symlink_to(tandem_binary().resolve())
    results = [
        subprocess.run(
            [program, "-u", "root", "-l", HOST, "-p", str(free_port()), "-Z", "-o", options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        for program in (memcached_binary(), alias)
    ]
    reference, ours = results
    assert ours.returncode == reference.returncode != 0
    assert ours.stderr.splitlines() == reference.stderr.splitlines()[-1:]


def test_serve_has_tls_by_its_own_names(tmp_path: Path, identity: Identity) -> None:
    port = free_port()
    command = [tandem_binary(), "serve", "--port", str(port), "--memory", "16MiB"]
    command += ["--tls-cert", identity.certificate, "--tls-key", identity.key, "--tls-min-version", "1.3"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert f"serving on {HOST}:{port} (TLS)," in process.stderr.readline()
            with (
                socket.create_connection((HOST, port), timeout=10) as plain,
                client_context(identity).wrap_socket(plain, server_hostname=HOST) as connection,
            ):
                assert connection.version() == "TLSv1.3"
                connection.sendall(b"mn\r\n")
                assert connection.recv(100) == b"MN\r\n"
        finally:
            process.terminate()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tls"], "--tls: TLS needs a certificate (tls-cert)"),
        (["--no-tls", "--tls-cert", "c.pem"], "--tls-cert: has no effect without TLS (tls is false)"),
        (["--tls-key", "k.pem"], "--tls-key: has no effect without TLS (tls is false, tls-cert is not given)"),
        (["--tls-verify", "required"], "--tls-verify: has no effect without TLS (tls is false"),
        (["--tls-min-version", "1.3"], "--tls-min-version: has no effect without TLS (tls is false"),
        (
            ["--tls-cert", "c.pem", "--tls-verify", "once"],
            "--tls-verify: needs the CAs of clients' certificates (tls-ca)",
        ),
        (["--tls-cert", "c.pem", "--port", "0"], "--port: there is no TLS without TCP"),
        (["--tls-min-version", "2"], '--tls-min-version: expected one of 1.0, 1.1, 1.2, 1.3, got "2"'),
        (["--listen", "notls:127.0.0.1"], '--listen: "notls:127.0.0.1": there is no TLS to leave out'),
        (
            ["--tls-cert", "/nonexistent/c.pem"],
            "Error loading the certificate chain: /nonexistent/c.pem : error:80000002",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_serve_refuses_what_would_not_protect(options: list[str], message: str) -> None:
    result = subprocess.run(
        [tandem_binary(), "serve", *options], capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode == EX_USAGE
    assert f"tandem: {message}" in result.stderr
