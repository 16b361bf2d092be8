"""The filter of system calls inside the process (`--seccomp`, -o drop_privileges): a server lives its whole life under
it, and every thread has it. What it refuses is in src/process/system_call_filter_test.cpp."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.binary import BinaryStream, request
from harness.server import HOST, PATIENCE_S, Server, free_port
from harness.tls import Identity, client_context, make_identity
from harness.wire import Stream, UdpClient

from integration.conftest import ask, stats

pytestmark = pytest.mark.beyond_memcached("Debian's is built without it")
Start = Callable[..., Server]
FILTERED = ("-o", "drop_privileges")
# At its end LeakSanitizer looks at the process from another one.
NO_LEAK_CHECK = {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"}


@pytest.fixture(autouse=True)
def no_leak_check(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NO_LEAK_CHECK.items():
        monkeypatch.setenv(name, value)


def of_threads(pid: int, name: str) -> dict[str, int]:
    """A number from each thread's status, by the thread's id and name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has ended
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            found[f"{task.name} {status['Name']}"] = int(status[name])
    return found


def check_filtered(pid: int, threads_min: int) -> None:
    modes = of_threads(pid, "Seccomp")
    assert len(modes) >= threads_min and set(modes.values()) == {2}, modes
    assert set(of_threads(pid, "NoNewPrivs").values()) == {1}


def wait_filtered(pid: int) -> None:
    """A server takes clients some milliseconds before it filters."""
    deadline = time.monotonic() + PATIENCE_S
    while set(of_threads(pid, "Seccomp").values()) != {2}:
        assert time.monotonic() < deadline, of_threads(pid, "Seccomp")
        time.sleep(0.005)


def filters(pid: int) -> int:
    return max(of_threads(pid, "Seccomp_filters").values())


def wait_for(server: Server, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in server.output():
        assert time.monotonic() < deadline, server.output()[-2000:]
        time.sleep(0.01)


def read_until(connection: socket.socket, end: bytes) -> bytes:
    connection.settimeout(PATIENCE_S)
    received = b""
    while not received.endswith(end):
        data = connection.recv(1 << 16)
        assert data, f"closed after {received[-200:]!r}"
        received += data
    return received


def test_without_the_option_there_is_none(tandem: Start) -> None:
    """A container may have one of its own."""
    plain = tandem()
    assert filters(plain.pid) == filters(os.getpid())
    filtered = tandem(*FILTERED)
    wait_filtered(filtered.pid)
    assert filters(filtered.pid) == filters(os.getpid()) + 1
    # The last word counts, as memcached takes it.
    assert filters(tandem("-o", "drop_privileges,no_drop_privileges").pid) == filters(os.getpid())


@pytest.mark.parametrize("plan", ["cpu", "gpu"])
def test_a_whole_life(plan: str, tandem: Start, tmp_path: Path) -> None:
    pid_file, metrics = tmp_path / "t.pid", free_port()
    options = [*FILTERED, "-t", "2", "-A", "-vv", "-P", str(pid_file), "-o", f"metrics={HOST}:{metrics},track_sizes"]
    if plan == "gpu":
        options += ["-o", "gpu=sim,preset=2,gpu_values=16MiB"]
    server = tandem(*options, memory_mib=32)
    wait_filtered(server.pid)
    assert pid_file.read_text() == f"{server.pid}\n"

    # Memory to its limit: evictions, an index that grows, pages that change their class.
    with Stream(server.connect()) as stream:
        for size, count in ((10, 30_000), (20_000, 4_000)):
            for first in range(0, count, 1000):
                sets = b"".join(
                    b"set k%d_%d 0 0 %d noreply\r\n%s\r\n" % (size, n, size, b"v" * size)
                    for n in range(first, first + 1000)
                )
                assert stream.exchange(sets, PATIENCE_S).data == b""
        assert stream.exchange(b"get k20000_3999\r\n").data.startswith(b"VALUE k20000_3999 0 20000\r\n")
        assert stream.exchange(b"ms meta 2 T60\r\nhi\r\nmg meta v t\r\n").data.startswith(b"HD\r\nVA 2 t")
        assert stream.exchange(b"set n 0 1 1\r\n5\r\nincr n 2\r\ntouch n 100\r\n").data == b"STORED\r\n7\r\nTOUCHED\r\n"
    assert int(stats(server)["evictions"]) > 0
    with BinaryStream(server.connect()) as binary:
        assert binary.ask(request("set", b"b", b"\0" * 8, b"value"))[0].status == 0
        assert binary.ask(request("get", b"b"))[0].value == b"value"
    with UdpClient((HOST, server.port)) as datagrams:
        assert datagrams.exchange(b"get b\r\n")[0].payload == b"VALUE b 0 5\r\nvalue\r\nEND\r\n"

    # The operator's commands: some start threads.
    groups = (
        b"",
        b"settings",
        b"items",
        b"slabs",
        b"sizes",
        b"conns",
        b"latency",
        b"hotkeys",
        b"bigkeys",
        b"detail on",
    )
    for group in groups:
        assert ask(server, b"stats " + group + b"\r\n", PATIENCE_S).endswith((b"END\r\n", b"OK\r\n")), group
    with server.connect() as watcher:
        watcher.sendall(b"watch fetchers mutations\r\n")
        assert read_until(watcher, b"\r\n") == b"OK\r\n"
        ask(server, b"get b\r\n")
        assert b"key=b" in read_until(watcher, b"\n")
        names = {name.split(" ", 1)[1] for name in of_threads(server.pid, "Seccomp")}
        assert "tandem-log" in names, names
        check_filtered(server.pid, 4)
    with server.connect() as dump:
        dump.sendall(b"lru_crawler metadump all\r\n")
        assert b"key=" in read_until(dump, b"END\r\n")
    assert ask(server, b"lru_crawler disable\r\nlru_crawler enable\r\nlru_crawler crawl all\r\n") == b"OK\r\n" * 3
    assert ask(server, b"cache_memlimit 24\r\nflush_all\r\nverbosity 1\r\n") == b"OK\r\n" * 3
    with urllib.request.urlopen(f"http://{HOST}:{metrics}/metrics", timeout=PATIENCE_S) as reply:
        assert re.search(rb"^process_resident_memory_bytes [1-9]", reply.read(), re.MULTILINE)
    server.process.send_signal(signal.SIGHUP)

    check_filtered(server.pid, 4)
    with server.connect() as last:
        last.sendall(b"shutdown\r\n")
        assert server.process.wait(PATIENCE_S) == 0
    assert not pid_file.exists()


def test_tls_and_passwords_are_read_again(tandem: Start, tmp_path: Path) -> None:
    served = Identity(tmp_path / "served.pem", tmp_path / "served.key")
    passwords = tmp_path / "passwords"

    def install(identity: Identity, word: str) -> None:
        shutil.copy(identity.certificate, served.certificate)
        shutil.copy(identity.key, served.key)
        passwords.write_text(f"user:{word}\n")

    def says(identity: Identity, word: bytes) -> bytes:
        with (
            server.connect() as plain,
            client_context(identity).wrap_socket(plain, server_hostname=HOST) as connection,
        ):
            connection.sendall(b"set auth 0 0 %d\r\nuser %s\r\n" % (5 + len(word), word))
            return read_until(connection, b"\r\n")

    first, second = (make_identity(tmp_path, name) for name in ("first", "second"))
    install(first, "one")
    options = [*FILTERED, "-v", "-U", "0", "-Y", str(passwords), *served.options()]
    server = tandem(*options)
    wait_filtered(server.pid)
    assert says(first, b"one") == b"STORED\r\n"
    install(second, "two")
    server.process.send_signal(signal.SIGHUP)
    wait_for(server, f"reloaded 1 user from {passwords}")
    assert says(second, b"two") == b"STORED\r\n"
    assert says(second, b"one").startswith(b"CLIENT_ERROR")
    check_filtered(server.pid, 4)


@pytest.fixture
def memory_file(tmp_path: Path) -> Iterator[Path]:
    folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    path = folder / f"tandem-seccomp-{os.getpid()}-{tmp_path.name}"
    yield path
    path.unlink(missing_ok=True)


def test_a_memory_file_is_filled_closed_and_taken_over(tandem: Start, memory_file: Path) -> None:
    options = [*FILTERED, "-e", str(memory_file)]
    before = tandem(*options)
    wait_filtered(before.pid)
    value = b"v" * 100_000
    with Stream(before.connect()) as stream:
        for n in range(300):
            assert stream.exchange(b"set k%d 0 0 %d\r\n%s\r\n" % (n, len(value), value)).data == b"STORED\r\n"
        assert stream.exchange(b"delete k0\r\n").data == b"DELETED\r\n"
    check_filtered(before.pid, 4)
    assert before.stop() == 0
    after = tandem(*options)
    wait_filtered(after.pid)
    with Stream(after.connect()) as stream:
        assert stream.exchange(b"get k0\r\n").data == b"END\r\n"
        for n in range(1, 300):
            assert stream.exchange(b"get k%d\r\n" % n).data == b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (
                n,
                len(value),
                value,
            )


def test_a_unix_socket_is_removed(tandem: Start, tmp_path: Path) -> None:
    server = tandem(*FILTERED, unix_path=tmp_path / "t.sock")
    wait_filtered(server.pid)
    assert ask(server, b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
    assert server.stop() == 0
    assert not (tmp_path / "t.sock").exists()


def test_a_daemon_told_by_a_file_of_settings(tmp_path: Path) -> None:
    """And the service manager hears of its stop, for which no socket may be made any more."""
    port, settings, pid_file = free_port(), tmp_path / "t.toml", tmp_path / "t.pid"
    settings.write_text(f'port = {port}\nmemory = "64MiB"\nseccomp = true\ndaemon = true\npid-file = "{pid_file}"\n')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        command = [tandem_binary(), "serve", "--config", settings]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        pid = int(pid_file.read_text())
        try:
            check_filtered(pid, 4)  # from the moment when the start is over
            assert manager.recv(100) == b"READY=1"
            assert all(os.readlink(f"/proc/{pid}/fd/{fd}") == "/dev/null" for fd in range(3))
            with socket.create_connection((HOST, port), timeout=PATIENCE_S) as connection:
                connection.sendall(b"version\r\n")
                assert read_until(connection, b"\r\n").startswith(b"VERSION ")
            os.kill(pid, signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            deadline = time.monotonic() + PATIENCE_S
            while pid_file.exists():
                assert time.monotonic() < deadline, "the daemon does not end"
                time.sleep(0.01)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
