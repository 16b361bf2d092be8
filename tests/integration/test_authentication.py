"""Passwords over the wire: SASL PLAIN beside memcached's own (with a stand-in for saslauthd), the auth file beside
memcached -Y, and what neither protocol may let through."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.binary import OPCODES, BinaryStream, Packet, answers, request
from harness.server import PATIENCE_S, Server

USER, PASSWORD = b"user", b"pass"


def plain(user: bytes = USER, password: bytes = PASSWORD, identity: bytes = b"") -> bytes:
    return identity + b"\0" + user + b"\0" + password


def auth(message: bytes, mechanism: bytes = b"PLAIN") -> Packet:
    return request("sasl_auth", mechanism, b"", message)


def step(message: bytes, mechanism: bytes = b"PLAIN") -> Packet:
    return request("sasl_step", mechanism, b"", message)


class Saslauthd:
    """Answers libsasl's saslauthd protocol: four strings with 16-bit lengths, then OK or NO."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen(64)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file, contextlib.suppress(OSError, struct.error):
                words = [file.read(struct.unpack(">H", file.read(2))[0]) for _ in range(4)]
                answer = b"OK" if words[:2] == [USER, PASSWORD] else b"NO"
                connection.sendall(struct.pack(">H", len(answer)) + answer)

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.fixture
def sasl_servers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tandem: Callable[..., Server],
    memcached: Callable[..., Server],
) -> Iterator[tuple[Server, Server]]:
    (tmp_path / "memcached.conf").write_text(
        f"mech_list: plain\npwcheck_method: saslauthd\nsaslauthd_path: {tmp_path}/mux\n"
    )
    (tmp_path / "pwdb").write_bytes(b"other:word:::\n" + USER + b":" + PASSWORD + b"\n")
    monkeypatch.setenv("SASL_CONF_PATH", str(tmp_path))
    monkeypatch.setenv("MEMCACHED_SASL_PWDB", str(tmp_path / "pwdb"))
    daemon = Saslauthd(tmp_path / "mux")
    servers = [start("-S", unix_path=tmp_path / name) for start, name in ((memcached, "ref"), (tandem, "cand"))]
    yield servers[0], servers[1]
    daemon.close()


NOOP, LIST = request("noop"), request("sasl_list")
SASL_CONVERSATIONS = {
    "list": [LIST, NOOP],
    "version": [request("version"), NOOP],
    "good": [auth(plain()), NOOP, request("set", b"k", b"\0" * 8, b"v"), request("touch", b"k", b"\0" * 4)],
    "identity": [auth(plain(identity=USER)), NOOP],
    "other identity": [auth(plain(identity=b"other")), NOOP],
    "bad, then good": [auth(plain(password=b"no")), LIST, auth(plain()), NOOP],
    "good, then bad": [auth(plain()), NOOP, auth(plain(password=b"no")), NOOP],
    "good, then list": [auth(plain()), LIST, NOOP],
    "no such user": [auth(plain(user=b"nobody")), LIST, NOOP],
    "lower case": [auth(plain(), b"plain"), NOOP],
    "another mechanism": [auth(plain(), b"DIGEST-MD5"), LIST],
    "mechanism of 32": [auth(plain(), b"P" * 32), LIST],
    "mechanism of 33": [auth(plain(), b"P" * 33), LIST],
    "good, then mechanism of 33": [auth(plain()), auth(plain(), b"P" * 33), NOOP],
    "mechanism of 251": [auth(plain(), b"P" * 251), LIST],
    "no mechanism": [auth(plain(), b""), LIST],
    "two steps": [auth(b""), step(plain()), NOOP, step(plain()), NOOP],
    "two steps, first bad": [auth(b""), step(plain(password=b"no")), step(b""), step(plain()), NOOP],
    "two steps, another mechanism": [auth(b""), step(plain(), b"ANY"), NOOP],
    "step first": [step(plain()), LIST, NOOP],
    "good, then step": [auth(plain()), step(plain()), NOOP],
    "begun, then bad": [auth(b""), auth(plain(password=b"no")), step(plain()), NOOP],
    "no NUL": [auth(b"user pass"), LIST],
    "one NUL": [auth(b"\0user"), LIST],
    "three NULs": [auth(plain() + b"\0"), LIST],
    "empty password": [auth(plain(password=b"")), LIST],
    "long password": [auth(plain(password=b"p" * 5000)), LIST],
    "extras": [request("sasl_auth", b"PLAIN", b"1234", plain()), LIST],
    "list with a key": [request("sasl_list", b"k"), LIST],
    "body too short": [Packet(OPCODES["set"], b"k", body_bytes=0)],
    "quit": [request("quit")],
    "quitq": [request("quitq")],
    "unknown": [Packet(0x55)],
    **{f"opcode {name}": [request(name, b"key", b"", b"")] for name in OPCODES if not name.startswith("sasl")},
}


def converse(server: Server, steps: list[Packet]) -> list[object]:
    """One packet at a time: a noop would ask for authentication itself, so the end of an answer is a version's."""
    said = []
    with server.connect() as connection, connection.makefile("rb") as file:
        for packet in steps:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(packet.pack() + request("version", opaque=0xFEFE).pack())
            while True:
                try:
                    head = file.read(24)
                    body = file.read(struct.unpack(">I", head[8:12])[0]) if head else b""
                except ConnectionResetError:
                    head = b""
                if not head:
                    return [*said, "closed"]
                (answer,) = answers(head + body)
                if answer.opaque == 0xFEFE:
                    break
                said.append((answer.opcode, answer.status, answer.key, answer.extras, answer.value, answer.cas != 0))
    return said


@pytest.mark.parametrize("name", SASL_CONVERSATIONS)
def test_sasl_beside_memcached(name: str, sasl_servers: tuple[Server, Server]) -> None:
    reference, candidate = sasl_servers
    assert converse(candidate, SASL_CONVERSATIONS[name]) == converse(reference, SASL_CONVERSATIONS[name])


def test_sasl_rights_end_within_a_pipeline(sasl_servers: tuple[Server, Server]) -> None:
    """In one send: what follows a request that takes the rights is not answered as if they were still there."""
    said = []
    for server in sasl_servers:
        with server.connect() as connection, connection.makefile("rb") as file:
            connection.sendall(auth(plain()).pack() + NOOP.pack())
            for _ in range(2):
                head = file.read(24)
                file.read(struct.unpack(">I", head[8:12])[0])
            connection.sendall(NOOP.pack() + LIST.pack() + request("get", b"none").pack() + NOOP.pack())
            said.append([(a.opcode, a.status, a.value) for a in answers(file.read())])
    assert said[0] == said[1]


def stats_over_binary(server: Server) -> dict[bytes, bytes]:
    with BinaryStream(server.connect()) as stream:
        stream.send(auth(plain()).pack())
        found = answers(stream.exchange(request("stat").pack() + request("stat", b"settings").pack()).data)
    return {answer.key: answer.value for answer in found}


def test_sasl_statistics(sasl_servers: tuple[Server, Server]) -> None:
    shown = []
    for server in sasl_servers:
        for conversation in ("good", "bad, then good", "two steps", "list", "mechanism of 33"):
            converse(server, SASL_CONVERSATIONS[conversation])
        found = stats_over_binary(server)
        shown.append({
            name: found[name] for name in (b"auth_cmds", b"auth_errors", b"auth_enabled_sasl", b"auth_enabled_ascii",
                                           b"binding_protocol")
        })  # fmt: skip
    assert shown[0] == shown[1]
    assert shown[1][b"auth_enabled_sasl"] == b"yes" and shown[1][b"binding_protocol"] == b"binary"


def test_text_is_refused_beside_sasl(sasl_servers: tuple[Server, Server]) -> None:
    for text in (b"version\r\n", b"get k\r\n", b"set k 0 0 9\r\nuser pass\r\n", b"stats\r\n", b"mg k v\r\n"):
        with sasl_servers[1].connect() as connection:
            connection.sendall(text)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b"", text


# --- the auth file


@pytest.fixture
def auth_file(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_bytes(b"user:pass\nother:two words\nlast:line")
    return path


TEXT_STEPS = [
    b"get k\r\n", b"version\r\n", b"quit\r\n", b"mn\r\n", b"mg k v\r\n", b"stats\r\n", b"shutdown\r\n", b"  \r\n",
    b"\r\n", b"set k 0 0 9\r\nuser pasx\r\n", b"set k 0 0 9\r\nuser passXX", b"set k 0 0 4\r\nuser\r\n",
    b"set k 0 0 0\r\n\r\n", b"set k 0 0 9\r\nuser\tpass\r\n", b"set k 0 9\r\n", b"set k 0 0 -9\r\n",
    b"set k 0 0 9a\r\n", b"SET k 0 0 9\r\n", b"set k 0 0 10\r\nother two\n\r\n", b"GET / HTTP/1.0\r\n",
    b"x" * 1500 + b"\r\n", b"set " + b"k" * 300 + b" 0 0 4\r\nuser\r\n",
]  # fmt: skip
GOOD = [
    b"set k 0 0 9\r\nuser pass\r\n", b"set k a b 9\r\nuser pass\r\n", b"set k 0 0 9 noreply\r\nuser pass\r\n",
    b"set k 0 0 9\nuser pass\r\n", b"  set  k 0 0 9\r\nuser pass\r\n", b"set k 0 0 14\r\n  user  pass  \r\n",
    b"set k 0 0 11\r\nuser pass x\r\n", b"set k 0 0 14\r\nuser pass\0junk\r\n", b"set k 0 0 9\r\nlast line\r\n",
]  # fmt: skip


def say(connection: socket.socket, data: bytes) -> bytes:
    """Before authentication every step has one answer of one line."""
    connection.sendall(data)
    received = b""
    while not received.endswith(b"\r\n"):
        chunk = connection.recv(4096)
        if not chunk:
            return received + b"<closed>"
        received += chunk
    return received


def test_auth_file_beside_memcached(
    auth_file: Path, tandem: Callable[..., Server], memcached: Callable[..., Server]
) -> None:
    said = []
    for start in (memcached, tandem):
        server = start("-Y", str(auth_file), unix_path=auth_file.parent / f"socket{len(said)}")
        said.append([])
        for good in GOOD:
            with server.connect() as connection:
                said[-1] += [say(connection, line) for line in TEXT_STEPS]
                said[-1] += [say(connection, good), say(connection, b"get k\r\n"), say(connection, b"mn\r\n")]
    assert said[1] == said[0]


def test_every_line_of_a_pipeline_is_answered(auth_file: Path, tandem: Callable[..., Server]) -> None:
    """memcached answers the last one only."""
    with (
        tandem("-Y", str(auth_file), unix_path=auth_file.parent / "socket").connect() as connection,
        connection.makefile("rb") as file,
    ):
        connection.sendall(b"get k\r\nset k 0 0 3\r\nx y\r\n" + GOOD[0] + b"mn\r\n")
        assert [file.readline() for _ in range(4)] == [
            b"CLIENT_ERROR unauthenticated\r\n", b"CLIENT_ERROR authentication failure\r\n", b"STORED\r\n", b"MN\r\n",
        ]  # fmt: skip


def test_binary_is_refused_beside_an_auth_file(auth_file: Path, tandem: Callable[..., Server]) -> None:
    server = tandem("-Y", str(auth_file), unix_path=auth_file.parent / "socket")
    with server.connect() as connection:
        assert say(connection, request("version").pack() + b"\n") == b"CLIENT_ERROR unauthenticated\r\n"


def test_statistics_of_the_auth_file(auth_file: Path, tandem: Callable[..., Server]) -> None:
    server = tandem("-Y", str(auth_file), unix_path=auth_file.parent / "socket")
    with server.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(b"set k 0 0 3\r\nx y\r\nget k\r\n" + GOOD[0] + b"stats\r\nstats settings\r\nmn\r\n")
        lines = []
        while (line := file.readline().strip()) != b"MN":
            lines.append(line)
    for wanted in (
        b"auth_cmds 2",
        b"auth_errors 1",
        b"auth_enabled_sasl no",
        b"binding_protocol ascii",
        b"auth_enabled_ascii " + str(auth_file).encode(),
    ):
        assert b"STAT " + wanted in lines


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def listens(path: Path) -> bool:
    """The socket's file is there a moment before it listens."""
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


def test_hangup_reads_the_file_again(auth_file: Path, tandem: Callable[..., Server]) -> None:
    """A new password counts, the old one does not; a broken file changes nothing; clients that are in stay."""
    server = tandem("-Y", str(auth_file), "-v", unix_path=auth_file.parent / "socket")

    def lets_in(password: bytes) -> bool:
        with server.connect() as connection:
            return say(connection, b"set k 0 0 %d\r\nuser %s\r\n" % (5 + len(password), password)) == b"STORED\r\n"

    with server.connect() as old:
        assert say(old, GOOD[0]) == b"STORED\r\n"
        auth_file.write_bytes(b"user:fresh\n")
        assert lets_in(b"pass")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: lets_in(b"fresh"))
        assert not lets_in(b"pass")
        auth_file.write_bytes(b"no colon\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "malformed" in server.output())
        assert lets_in(b"fresh")
        assert say(old, b"mn\r\n") == b"MN\r\n"


@pytest.mark.footprint
def test_failed_attempts_cost_little(auth_file: Path, tandem: Callable[..., Server]) -> None:
    server = tandem("-Y", str(auth_file), unix_path=auth_file.parent / "socket")
    with server.connect() as connection:
        say(connection, b"get k\r\n")
        before = server.resident_bytes()
        for _ in range(300):
            connection.sendall(b"set k 0 0 9\r\nuser nope\r\n" * 50)
            received = 0
            while received < 50 * len(b"CLIENT_ERROR authentication failure\r\n"):
                received += len(connection.recv(1 << 16))
        idle = []
        for _ in range(50):
            idle.append(server.connect())
            idle[-1].sendall(b"set k 0 0 2000\r\nuser ")
        say(connection, b"get k\r\n")
        assert server.resident_bytes() - before < 4 << 20
        for other in idle:
            other.close()


def test_announced_bodies_are_not_waited_for(sasl_servers: tuple[Server, Server]) -> None:
    """The header alone is answered; nothing of the 4 GiB it speaks of is kept."""
    for opcode in (OPCODES["set"], OPCODES["get"], 0x55):
        with sasl_servers[1].connect() as connection:
            connection.sendall(Packet(opcode, key_bytes=3, extras_bytes=8, body_bytes=(1 << 32) - 1).pack())
            received = b""
            while chunk := connection.recv(100):
                received += chunk
            assert [answer.status for answer in answers(received)] == [0x20]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-S"], "MEMCACHED_SASL_PWDB must name a file"),
        (["-Y", "/nonexistent"], "Could not open authfile [/nonexistent] for reading, error No such file or directory"),
        (["-Y", "/etc/os-release"], "has a malformed entry. Should be 'user:password'"),
    ],
)
def test_refused_at_the_start(options: list[str], message: str, tmp_path: Path) -> None:
    command = [tandem_binary(), "memcached", "-u", "root", "-s", tmp_path / "socket", *options]
    result = subprocess.run(command, capture_output=True, timeout=10, check=False, text=True)
    assert result.returncode != 0 and message in result.stderr


def test_serve_options(tmp_path: Path, auth_file: Path) -> None:
    """--sasl and --auth-file together: each protocol asks for its own."""
    (tmp_path / "pwdb").write_bytes(b"bin:one\n")
    path = tmp_path / "socket"
    command = [
        tandem_binary(),
        "serve",
        "--unix",
        path,
        "--sasl",
        "--sasl-file",
        tmp_path / "pwdb",
        "--auth-file",
        auth_file,
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: listens(path))
        with socket.socket(socket.AF_UNIX) as text, socket.socket(socket.AF_UNIX) as binary:
            text.connect(str(path))
            binary.connect(str(path))
            assert say(text, b"set k 0 0 7\r\nbin one\r\n") == b"CLIENT_ERROR authentication failure\r\n"
            assert say(text, GOOD[0]) == b"STORED\r\n"
            binary.sendall(auth(plain(b"bin", b"one")).pack())
            assert answers(binary.recv(100))[0].value == b"Authenticated"
    finally:
        process.terminate()
        assert process.wait(10) == 0
    refused = subprocess.run([tandem_binary(), "serve", "--auth-file", auth_file, "--udp-port", "11311"],
                             capture_output=True, timeout=10, check=False, text=True)  # fmt: skip
    assert refused.returncode == 64 and "--udp-port: UDP cannot be authenticated" in refused.stderr
