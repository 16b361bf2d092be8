"""What the program finds out before it serves, what it says when it reads files again, and how `top` gets in."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import HOST, free_port
from harness.tls import Identity, client_context, make_identity

from cli.programs import (
    AS_ROOT,
    DEADLINE_S,
    EX_CONFIG,
    EX_NOINPUT,
    EX_OSERR,
    EX_USAGE,
    IS_ROOT,
    Start,
    answers,
    ask,
    call,
    said,
    settings_of,
    stop,
    tandem,
    wait_serving,
    wait_until,
)

EX_UNAVAILABLE = 69
# Root may raise hard limits, unless it gives that up.
LIMITED = ["setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"] if IS_ROOT else []


def below(hard: int) -> dict[str, object]:
    """Keywords of a program that gets a hard limit of open files."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))}


def stat(address: tuple[str, int], name: str) -> int:
    return int(re.search(rb"STAT %s (\d+)" % name.encode(), ask(address, b"stats\r\n", b"END\r\n"))[1])


# --- descriptors ------------------------------------------------------------------------------------------------------


def test_connections_beyond_the_descriptors_are_refused_not_forgotten(start: Start) -> None:
    port, metrics = free_port(), free_port()
    process = start(*LIMITED, tandem_binary(), "serve", "--port", port, "--threads", 1, "--metrics",
                    f"{HOST}:{metrics}", **below(256))  # fmt: skip
    address = (HOST, port)
    wait_serving(process, address)
    most = stat(address, "max_connections")
    assert 100 <= most < 256 - 64
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address, DEADLINE_S)) for _ in range(most)]
        for client in clients:
            client.sendall(b"version\r\n")
        assert all(client.recv(100).startswith(b"VERSION") for client in clients)
        for _ in range(20):
            with socket.create_connection(address, DEADLINE_S) as refused:
                assert refused.recv(100) == b"ERROR Too many open connections\r\n"
        with urllib.request.urlopen(f"http://{HOST}:{metrics}/metrics", timeout=DEADLINE_S) as reply:
            text = reply.read().decode()
        assert f"tandem_connections_max {most}\n" in text and "tandem_accept_failures_total 0\n" in text
    code, errors = stop(process)
    assert code == 0
    assert f"warning: connections lowered from 1024 to {most}: " in errors and "LimitNOFILE" in errors


def test_memcached_style_lowers_where_memcached_starts_and_fails_where_it_fails(start: Start, alias: Path) -> None:
    port = free_port()
    options = [*LIMITED, alias, *AS_ROOT, "-l", HOST, "-p", port]
    process = start(*options, "-c", 256, **below(256))
    wait_serving(process, (HOST, port))
    most = stat((HOST, port), "max_connections")
    assert 100 <= most < 256
    assert f"connections lowered from 256 to {most}" in stop(process)[1]
    result = call(*options, "-c", 257, **below(256))
    assert (result.returncode, "failed to set rlimit for open files" in result.stderr) == (EX_OSERR, True)


def test_no_room_for_the_servers_own_files() -> None:
    result = call(*LIMITED, tandem_binary(), "serve", "--port", free_port(), "--threads", 8, **below(40))
    assert result.returncode == EX_OSERR
    assert re.search(
        r"connections = 1024 needs 1\d\d\d open files, the hard limit is 40: raise LimitNOFILE", result.stderr
    )


@pytest.mark.parametrize("mode", ["serve", "memcached"])
def test_more_memory_than_the_machine_has(mode: str, start: Start) -> None:
    mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") // 2**20 + 1024
    if mib > 128 * 1024:
        pytest.skip("the machine has more than a server takes")
    port = free_port()
    more = ["--threads", 1] if mode == "serve" else [*AS_ROOT, "-l", HOST]
    process = start(tandem_binary(), mode, "-p", port, "-m", mib, *more)
    wait_serving(process, (HOST, port))
    code, errors = stop(process)
    assert code == 0
    assert re.search(r"Z warning: memory \S+ GiB (is more than|leaves)", errors, re.MULTILINE), errors


# --- settings and files -----------------------------------------------------------------------------------------------


def test_check_reads_all_and_serves_nothing(tmp_path: Path) -> None:
    file, users = tmp_path / "t.toml", tmp_path / "users"
    users.write_text("user:word\n")
    users.chmod(0o600)
    memory = tmp_path / "memory"
    port = free_port()
    file.write_text(f'port = {port}\nauth-file = "{users}"\nmemory-file = "{memory}"\nmemory = "64MiB"\n')
    result = tandem("serve", "--config", file, "--check")
    assert (result.returncode, result.stdout, result.stderr) == (0, "settings and files can be used\n", "")
    assert not memory.exists()
    with socket.create_server((HOST, port)):  # a server that serves is no mistake in the settings
        assert tandem("serve", "--config", file, "--check").returncode == 0
    users.chmod(0o644)
    result = tandem("serve", "--config", file, "--check")
    assert result.returncode == 0 and "can be read by every user" in result.stderr
    users.write_text("no colon\n")
    result = tandem("serve", "--config", file, "--check", "--pid-file", "/nonexistent/pid")
    assert (result.returncode, result.stdout) == (EX_CONFIG, "")
    assert "malformed entry" in result.stderr and "/nonexistent/pid" in result.stderr
    file.write_text("prot = 1\n")
    assert tandem("serve", "--config", file, "--check").returncode == EX_CONFIG


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--preset", "mega-kv", "--gpu", "sim", "--gpu-steal"], EX_USAGE, "preset is mega-kv"),
        (
            [
                "--preset",
                "mega-kv",
                "--gpu",
                "sim",
                "--gpu-latency-target",
                "1000",
                "--gpu-calibration",
                "/nonexistent",
            ],
            EX_CONFIG,
            "gpu-calibration",
        ),
        (["--memory-file", "/"], EX_OSERR, "not a regular file"),
        (["--metrics", f"{HOST}:0", "--metrics-token-file", "/nonexistent"], EX_NOINPUT, "metrics token /nonexistent"),
        (["--metrics", f"{HOST}:0", "--metrics-token-file", "/dev/null"], EX_CONFIG, "the first line must be"),
    ],
)
def test_check_finds_what_would_end_the_start(options: list[str], code: int, said: str) -> None:
    result = tandem("serve", "--check", *options)
    assert (result.returncode, result.stdout) == (code, "") and said in result.stderr, result


def test_check_of_a_certificate(tmp_path: Path) -> None:
    one, other = (make_identity(tmp_path, name) for name in ("one", "other"))
    assert tandem("serve", "--check", "--tls-cert", one.certificate, "--tls-key", one.key).returncode == 0
    result = tandem("serve", "--check", "--tls-cert", one.certificate, "--tls-key", other.key)
    assert (result.returncode, "key values mismatch" in result.stderr) == (EX_USAGE, True)


@pytest.mark.parametrize(
    "option", [["--auth-file", "FILE"], ["--sasl", "--sasl-file", "FILE"]], ids=lambda option: option[0]
)
def test_a_password_file_that_cannot_be_used(option: list[str], tmp_path: Path, alias: Path) -> None:
    missing = tmp_path / "none"
    arguments = [str(missing) if word == "FILE" else word for word in option]
    result = tandem("serve", "--port", free_port(), *arguments)
    assert (result.returncode, "Could not open authfile" in result.stderr) == (EX_NOINPUT, True)
    bad = tmp_path / "bad"
    bad.write_text("x" * 300 + ":y\n")
    arguments = [str(bad) if word == "FILE" else word for word in option]
    assert tandem("serve", "--port", free_port(), *arguments).returncode == EX_CONFIG
    assert call(alias, *AS_ROOT, "-l", HOST, "-p", free_port(), "-Y", bad).returncode == 1, "as memcached's"


def test_suboptions_that_memcached_does_not_know(alias: Path) -> None:
    for text, hint in (("ssl_verify_mod=2", "; did you mean ssl_verify_mode?"), ("foo=1", "")):
        result = call(alias, *AS_ROOT, "-l", HOST, "-p", free_port(), "-o", text)
        assert (result.returncode, result.stderr) == (1, f'Illegal suboption "{text}"{hint}\n')


# --- signals ----------------------------------------------------------------------------------------------------------


def lines_until(process: subprocess.Popen, wanted: str) -> list[str]:
    """What the program says, up to a line with the text; but for what it says to root."""
    lines = []
    while not lines or wanted not in lines[-1]:
        line = process.stderr.readline()
        assert line, f"{wanted!r} was not said: {lines}"
        if "running as root" not in line:
            lines.append(line)
    return lines


def test_serve_with_a_memory_file_ignores_usr1(start: Start, tmp_path: Path) -> None:
    port = free_port()
    process = start(tandem_binary(), "serve", "--port", port, "--memory-file", tmp_path / "memory", "--memory", "64MiB")
    wait_serving(process, (HOST, port))
    process.send_signal(signal.SIGUSR1)
    pending = re.compile(r"^(SigPnd|ShdPnd):\s*0+$", re.MULTILINE)
    wait_until(lambda: len(pending.findall(Path(f"/proc/{process.pid}/status").read_text())) == 2, "it is taken")
    process.send_signal(signal.SIGHUP)  # one after the other
    assert "Gracefully" not in "".join(lines_until(process, "nothing to reload: settings need a restart"))
    assert answers((HOST, port))
    assert stop(process)[0] == 0


def test_a_reload_says_what_it_did(start: Start, tmp_path: Path) -> None:
    identity = make_identity(tmp_path, "served")
    users = tmp_path / "users"
    users.write_text("one:word\n")
    users.chmod(0o600)
    port = free_port()
    process = start(tandem_binary(), "serve", "--port", port, "--auth-file", users, "--tls-cert", identity.certificate,
                    "--tls-key", identity.key)  # fmt: skip
    assert not [line for line in lines_until(process, "serving on") if "expired" in line or "every user" in line]
    users.write_text("one:word\ntwo:word\n")
    process.send_signal(signal.SIGHUP)
    (certificate, passwords) = lines_until(process, "reloaded 2 users from")
    valid = r"info: reloaded certificate, valid until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\n"
    assert re.fullmatch(valid, said(certificate))
    assert said(passwords) == f"info: reloaded 2 users from {users}\n"
    users.write_text("one\n")
    users.chmod(0o644)
    identity.certificate.write_text("no certificate\n")
    process.send_signal(signal.SIGHUP)
    (certificate, passwords, warning) = lines_until(process, "can be read by every user")
    assert certificate.endswith("; the certificate stays as it was\n")
    assert passwords.endswith("; the passwords stay as they were\n") and said(warning).startswith("warning: ")
    assert stop(process)[0] == 0


def test_a_reload_says_which_settings_it_did_not_apply(start: Start, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "t.toml"
    file.write_text(f'port = {port}\nmemory = "64MiB"\n')
    command = [tandem_binary(), "serve", "--config", file.name, "--threads", 1]  # the command line still wins
    process = start(*command, cwd=tmp_path)
    lines_until(process, "serving on")

    def reload(text: str, last: str) -> list[str]:
        file.write_text(text)
        process.send_signal(signal.SIGHUP)
        return [said(line) for line in lines_until(process, last)]

    settings = f'port = {port}\nmemory = "128MiB"\nlisten = ["127.0.0.1", "::1"]\nthreads = 2\n'
    assert reload(settings, "reload: memory") == [
        "info: reload: listen stays 127.0.0.1 until a restart: the file says 127.0.0.1,::1\n",
        "info: reload: memory stays 64MiB until a restart: the file says 128MiB\n",
    ]
    assert settings_of((HOST, port))["maxbytes"] == str(64 << 20)
    bad = reload("memory = 1\n", "settings stay as they were")
    assert bad[0].startswith("warning: reload: ") and ":1: memory: expected a size" in bad[0], bad
    unchanged = reload(f'port = {port}\nmemory = "64MiB"\n', "nothing to reload")
    assert unchanged == ["info: nothing to reload: settings need a restart\n"]
    assert stop(process)[0] == 0


def expired(folder: Path) -> Identity:
    """An identity with a certificate that was good for a moment."""
    made = make_identity(folder, "expired")
    request = ["openssl", "req", "-new", "-key", made.key, "-subj", "/CN=expired", "-out", folder / "request"]
    subprocess.run(request, check=True, capture_output=True, timeout=60)
    (folder / "index").touch()
    (folder / "serial").write_text("01\n")
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca = own\n[own]\ndatabase = {folder}/index\nserial = {folder}/serial\n"
        f"new_certs_dir = {folder}\n"
        "default_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n"
    )
    sign = ["openssl", "ca", "-batch", "-selfsign", "-config", folder / "ca.cnf", "-keyfile", made.key, "-in",
            folder / "request", "-out", made.certificate, "-notext", "-startdate", "20200101000000Z",
            "-enddate", "20210101000000Z"]  # fmt: skip
    subprocess.run(sign, check=True, capture_output=True, timeout=60)
    return made


def test_a_certificate_that_has_expired_is_said(start: Start, tmp_path: Path) -> None:
    made = expired(tmp_path)
    options = ["--tls-cert", made.certificate, "--tls-key", made.key]
    process = start(tandem_binary(), "serve", "--port", free_port(), *options)
    wanted = f"warning: the certificate {made.certificate} expired on 2021-01-01 00:00:00 UTC"
    lines_until(process, wanted)
    lines_until(process, "serving on")
    process.send_signal(signal.SIGHUP)
    assert len(lines_until(process, wanted)) == 2
    assert stop(process)[0] == 0
    result = tandem("serve", "--check", *options)
    assert (result.returncode, wanted in result.stderr) == (0, True)


def test_what_the_monitor_tells_of_passwords_certificate_and_memory_file(start: Start, tmp_path: Path) -> None:
    identity = make_identity(tmp_path, "served")
    users = tmp_path / "users"
    users.write_text("one:word\n")
    port, metrics = free_port(), free_port()
    command = [tandem_binary(), "serve", "--port", port, "--auth-file", users, "--tls-cert", identity.certificate,
               "--tls-key", identity.key, "--memory-file", tmp_path / "memory", "--memory", "64MiB", "--metrics",
               f"{HOST}:{metrics}"]  # fmt: skip

    def numbers() -> dict[str, float]:
        with urllib.request.urlopen(f"http://{HOST}:{metrics}/metrics", timeout=DEADLINE_S) as reply:
            text = reply.read().decode()
        return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}

    process = start(*command)
    lines_until(process, "serving on")
    with socket.create_connection((HOST, port)) as plain:  # no TLS: a handshake that fails
        plain.sendall(b"version\r\n")
        with contextlib.suppress(OSError):
            while plain.recv(100):
                pass
    with client_context(identity).wrap_socket(socket.create_connection((HOST, port)), server_hostname=HOST) as client:
        for word, wanted in ((b"bad!", b"CLIENT_ERROR"), (b"word", b"STORED")):
            client.sendall(b"set a 0 0 8\r\none " + word + b"\r\n")
            assert client.recv(100).startswith(wanted)
        client.sendall(b"flush_all\r\nset a 0 0 1\r\n1\r\n")
        assert client.recv(100).startswith(b"OK\r\n")
        client.sendall(b"get a\r\n")
        reply = b""
        while not reply.endswith(b"END\r\n"):
            reply += client.recv(100)
    found = numbers()
    assert (found["tandem_auth_errors_total"], found["tandem_flushes_total"]) == (1, 1)
    assert found["tandem_tls_handshake_errors_total"] >= 1
    assert 0 < found["tandem_tls_certificate_not_after_seconds"] - time.time() < 3 * 86400
    assert found["tandem_restart_items"] == found["tandem_memory_file_failed"] == 0
    assert found["tandem_memory_file_refusals_total"] == 0
    assert stop(process)[0] == 0
    process = start(*command)
    lines_until(process, "serving on")
    assert numbers()["tandem_restart_items"] == 1
    assert stop(process)[0] == 0


# --- top --------------------------------------------------------------------------------------------------------------


def test_top_of_a_unix_socket(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "t.sock"
    process = start(tandem_binary(), "serve", "--unix", path)
    wait_serving(process, str(path))
    result = tandem("top", "--once", "--interval", "0.1", "--connect", f"unix:{path}")
    assert (result.returncode, result.stderr) == (0, "")
    assert re.match(r"Tandem \S+ at unix:/", result.stdout)
    result = tandem("top", "--once", "--connect", f"unix:{tmp_path}/none")
    assert (result.returncode, "No such file or directory" in result.stderr) == (EX_UNAVAILABLE, True)


def test_top_says_what_it_lacks(start: Start, tmp_path: Path) -> None:
    identity = make_identity(tmp_path, "served")
    users = tmp_path / "users"
    users.write_text("one:word\n")
    for options, wanted in (
        (["--tls-cert", identity.certificate, "--tls-key", identity.key], "for TLS there is --tls"),
        (["--sasl", "--sasl-file", users], "SASL alone has its metrics page"),
        (["--auth-file", users], "asks for a password: --auth-file FILE"),
    ):
        port = free_port()
        process = start(tandem_binary(), "serve", "--port", port, *options)
        lines_until(process, "serving on")
        result = tandem("top", "--once", "--connect", f"{HOST}:{port}")
        assert (result.returncode, wanted in result.stderr) == (EX_UNAVAILABLE, True), result.stderr
        assert stop(process)[0] == 0


def test_top_with_password_and_tls(start: Start, tmp_path: Path) -> None:
    """Also with a client's certificate. A certificate of another authority, of another host, a wrong password and a
    file without one are refused with the reason, before anything else is sent."""
    authority = make_identity(tmp_path, "authority")
    served, known = (make_identity(tmp_path, name, authority) for name in ("served", "known"))
    strange = make_identity(tmp_path, "strange")
    files = {name: tmp_path / name for name in ("right", "wrong", "empty")}
    for name, text in (("right", "one:word\n"), ("wrong", "one:no\n"), ("empty", "one\n")):
        files[name].write_text(text)
    port = free_port()
    process = start(tandem_binary(), "serve", "--port", port, "--auth-file", files["right"], "--tls-cert",
                    served.certificate, "--tls-key", served.key, "--tls-ca", authority.certificate, "--tls-verify",
                    "required")  # fmt: skip
    lines_until(process, "serving on")

    def top(*options: object, host: str = HOST) -> subprocess.CompletedProcess[str]:
        return tandem("top", "--once", "--interval", "0.1", "--connect", f"{host}:{port}", *options)

    client = ["--tls-cert", known.certificate, "--tls-key", known.key]
    password = ["--auth-file", files["right"]]
    for trust in (["--tls-ca", authority.certificate], ["--tls-insecure"]):
        result = top(*trust, *client, *password)
        assert (result.returncode, result.stderr) == (0, ""), trust
        assert f"at {HOST}:{port}" in result.stdout and "requests/s" in result.stdout
    trust = ["--tls-ca", authority.certificate]
    for options, code, wanted in (
        ([*client, *password], EX_UNAVAILABLE, "has a certificate that cannot be trusted"),
        (["--tls-ca", strange.certificate, *client, *password], EX_UNAVAILABLE, "cannot be trusted"),
        ([*trust, *password], EX_UNAVAILABLE, "--tls-cert"),
        ([*trust, *client], EX_UNAVAILABLE, "asks for a password: --auth-file FILE"),
        ([*trust, *client, "--auth-file", files["wrong"]], EX_UNAVAILABLE, "refuses user and password"),
        ([*trust, *client, "--auth-file", files["empty"]], EX_CONFIG, "is not user:password"),
        ([*trust, *client, "--auth-file", tmp_path / "none"], EX_NOINPUT, "No such file"),
        (["--tls-ca", tmp_path / "none"], EX_UNAVAILABLE, "--tls-ca"),
        (["--tls-key", known.key], EX_USAGE, "--tls-key: has no effect without --tls-cert"),
    ):
        result = top(*options)
        assert (result.returncode, result.stdout) == (code, "") and wanted in result.stderr, result
    assert stop(process)[0] == 0
