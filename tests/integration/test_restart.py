"""Warm restart: a server on a memory file is stopped or killed, and the next one on the file serves what it held."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import start_tandem, tandem_binary
from harness.faults import WALL_AHEAD_MS, Faults
from harness.server import PATIENCE_S, TIME_FACTOR, Server, ServerError
from harness.wire import Stream

from integration.conftest import ask, stats

pytestmark = pytest.mark.beyond_memcached("its memory file is good for an orderly stop only")


@pytest.fixture
def memory_file(tmp_path: Path) -> Iterator[Path]:
    """A name on tmpfs where there is one, as in use."""
    shm = Path("/dev/shm")
    if not shm.is_dir():
        yield tmp_path / "memory"
        return
    folder = shm / f"tandem-{tmp_path.name}-{threading.get_native_id()}"
    folder.mkdir()
    yield folder / "memory"
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def killed_at_the_end(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.kill()
        server.log.close()


def value_of(key: str, sequence: int) -> bytes:
    size = (40, 300, 9_000, 70_000)[sequence % 4] if sequence % 29 else 900_000
    head = f"{key}:{sequence}:".encode()
    return head + bytes([65 + sequence % 26]) * (size - len(head))


class Writer(threading.Thread):
    """Sets its own keys over and over, each to the next sequence number, until the server goes."""

    def __init__(self, server: Server, number: int, start_at: int) -> None:
        super().__init__(daemon=True)
        self.stream = Stream(server.connect())
        self.keys = [f"w{number}k{i}" for i in range(12)]
        self.acknowledged: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.sequence = start_at
        self.cas_max = 0

    def run(self) -> None:
        with contextlib.suppress(OSError, EOFError, AssertionError):
            while True:
                for key in self.keys:
                    self.sequence += 1
                    value = value_of(key, self.sequence)
                    self.sent[key] = self.sequence
                    reply = self.stream.exchange(b"ms %s %d c\r\n%s\r\n" % (key.encode(), len(value), value)).data
                    assert reply.startswith(b"HD c"), reply
                    self.acknowledged[key] = self.sequence
                    self.cas_max = max(self.cas_max, int(reply[4:]))


def sequence_held(server: Server, key: str) -> int | None:
    with Stream(server.connect()) as stream:
        data = stream.exchange(b"get %s\r\n" % key.encode()).data
    if data == b"END\r\n":
        return None
    body = data.split(b"\r\n", 1)[1][: -len(b"\r\nEND\r\n")]
    name, sequence, _ = body.split(b":", 2)
    assert name.decode() == key
    assert body == value_of(key, int(sequence)), f"the value of {key} is not whole"
    return int(sequence)


def test_killed_under_load(memory_file: Path) -> None:
    options = ("-e", str(memory_file), "-t", "2", "-M")
    sequence = cas_max = 0
    expected: dict[str, tuple[int, int]] = {}
    for round_number in range(5):
        with killed_at_the_end(start_tandem(*options, memory_mib=256)) as server:
            for key, (done, sent) in expected.items():
                assert sequence_held(server, key) in ((done, sent) if done else (None, sent)), key
            if round_number:
                assert stats(server)["restart"] == "killed"
                assert int(stats(server)["restart_items"]) >= len([d for d, _ in expected.values() if d])
                assert int(stats(server)["restart_damaged"]) == 0
                first = ask(server, b"ms first 1 c\r\n1\r\n")
                assert int(first[4:]) > cas_max
            writers = [Writer(server, n, sequence) for n in range(3)]
            for writer in writers:
                writer.start()
            deadline = time.monotonic() + PATIENCE_S
            while not all(writer.acknowledged for writer in writers):  # soon; a busy machine takes its time
                assert time.monotonic() < deadline and all(writer.is_alive() for writer in writers)
                time.sleep(0.01)
            time.sleep(0.15 + 0.07 * round_number)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        for writer in writers:
            writer.join(60)
            assert not writer.is_alive()
            writer.stream.close()
            sequence = max(sequence, writer.sequence)
            cas_max = max(cas_max, writer.cas_max)
            for key in writer.sent:
                before = expected.get(key, (0, 0))[1]
                expected[key] = (writer.acknowledged.get(key, before), writer.sent[key])


starting = threading.Lock()  # what a child is started with is the whole process' environment


def lives_as_long(folder: Path, ahead_ms: int, how: signal.Signals) -> None:
    """An item with a time to live of n seconds is there until n - 1 and gone after n + 1, while a server is ended by
    `how` once a second. What is asked is judged by when it was sent and answered: a busy machine asks less often."""
    ttl_s = 7
    folder.mkdir()
    faults = Faults(folder)
    faults.set(WALL_AHEAD_MS, ahead_ms)
    stored_after = stored_before = 0.0
    found = 0
    for turn in range(1000):
        with starting, faults.preloaded():
            server = start_tandem("-e", str(folder / "memory"), "-t", "1")
        with killed_at_the_end(server), Stream(server.connect()) as stream:
            if turn == 0:
                stored_after = time.monotonic()
                stream.exchange(b"set key 0 %d 1\r\n1\r\n" % ttl_s)
                stored_before = time.monotonic()
            while time.monotonic() < stored_after + turn + 0.93:
                asked = time.monotonic()
                data = stream.exchange(b"get key\r\n").data
                answered = time.monotonic()
                if data == b"END\r\n":
                    assert answered - stored_after >= ttl_s - 1, f"gone after {answered - stored_after:.2f} s"
                    assert found > 0
                    return
                found += 1
                # The thread that has the clock may wait for a processor.
                assert asked - stored_before <= ttl_s + 1 + 2 * TIME_FACTOR, "stays too long"
                time.sleep(0.01)
            server.process.send_signal(how)
            server.process.wait()
    raise AssertionError("never gone")


@pytest.mark.slow
@pytest.mark.skipif(TIME_FACTOR > 1, reason="what is preloaded comes before a sanitizer's own")
def test_restarts_neither_shorten_nor_prolong_lives(memory_file: Path) -> None:
    """By phase of the wall clock's second, as the monotonic clock's is what it is."""
    memory_file.parent.mkdir(exist_ok=True)
    kinds = [(ahead_ms, how) for ahead_ms in (0, 250, 500, 750) for how in (signal.SIGKILL, signal.SIGTERM)]
    with ThreadPoolExecutor(len(kinds)) as pool:
        runs = [
            pool.submit(lives_as_long, memory_file.parent / f"{how.name}-{ahead_ms}", ahead_ms, how)
            for ahead_ms, how in kinds
        ]
    for run in runs:
        run.result()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_stopped_in_order(how: signal.Signals, tandem: Callable[..., Server], memory_file: Path) -> None:
    large = b"L" * 900_000
    server = tandem("-e", str(memory_file))
    ask(server, b"set a 5 0 3\r\nabc\r\nset n 0 1000 1\r\n7\r\nincr n 1\r\nset large 0 0 900000\r\n" + large + b"\r\n")
    assert server.stop(how) == 0
    server = tandem("-e", str(memory_file))
    assert ask(server, b"gets a n\r\n") == b"VALUE a 5 3 1\r\nabc\r\nVALUE n 0 1 3\r\n8\r\nEND\r\n"
    assert ask(server, b"get large\r\n") == b"VALUE large 0 900000\r\n" + large + b"\r\nEND\r\n"
    assert 990 <= int(ask(server, b"mg n t\r\n").split(b"t")[1]) <= 1000
    now = stats(server)
    assert now["restart"] == "closed"
    assert now["restart_items"] == now["curr_items"] == "3"
    assert int(now["uptime"]) < 60
    assert stats(server, b"settings")["memory_file"] == str(memory_file)
    assert "3 items in" in server.output()


def test_without_a_file_there_is_nothing_to_say(tandem: Callable[..., Server]) -> None:
    server = tandem()
    assert not [name for name in stats(server) if name.startswith("restart")]
    assert stats(server, b"settings")["memory_file"] == "(null)"


def test_other_layout_starts_empty(tandem: Callable[..., Server], memory_file: Path) -> None:
    server = tandem("-e", str(memory_file))
    ask(server, b"set a 0 0 1\r\n1\r\n")
    server.stop()
    server = tandem("-e", str(memory_file), "-f", "1.7")
    assert ask(server, b"get a\r\n") == b"END\r\n"
    assert stats(server)["restart"] == "none"
    assert "has other size classes (options -f, -n, -I); starting empty" in server.output()


def fails_with(*options: str) -> str:
    with pytest.raises(ServerError) as failed:
        start_tandem(*options)
    return str(failed.value)


def test_a_file_in_use_is_refused(tandem: Callable[..., Server], memory_file: Path) -> None:
    server = tandem("-e", str(memory_file))
    ask(server, b"set a 0 0 1\r\n1\r\n")
    said = fails_with("-e", str(memory_file))
    assert f"memory file {memory_file}: is in use by another process" in said
    assert ask(server, b"get a\r\n") == b"VALUE a 0 1\r\n1\r\nEND\r\n"


def test_somebody_elses_file_is_refused(memory_file: Path) -> None:
    memory_file.write_bytes(b"precious\n" * 1000)
    memory_file.chmod(0o644)
    said = fails_with("-e", str(memory_file))
    assert "is not a memory file of Tandem's; choose another name" in said
    assert "remove" not in said
    assert memory_file.read_bytes() == b"precious\n" * 1000
    assert memory_file.stat().st_mode & 0o777 == 0o644
    assert "cannot be opened: No such file" in fails_with("-e", "/nowhere/memory")
    assert "failed to open file for mmap" in fails_with("-e", "")


def test_a_file_that_cannot_be_served_stays_good(tandem: Callable[..., Server], memory_file: Path) -> None:
    server = tandem("-e", str(memory_file))
    ask(server, b"set a 0 0 1\r\n1\r\n")
    server.stop()
    other = tandem()
    fails_with("-e", str(memory_file), "-l", f"127.0.0.1:{other.port}")
    server = tandem("-e", str(memory_file))
    assert ask(server, b"get a\r\n") == b"VALUE a 0 1\r\n1\r\nEND\r\n"


def test_locked_memory_and_a_daemon(tandem: Callable[..., Server], memory_file: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    server = start_tandem("-e", str(memory_file), "-d", "-k", "-P", str(pid_file), wait=False)
    assert server.process.wait(20) == 0
    daemon = int(pid_file.read_text())
    try:
        assert ask(server, b"set a 0 0 1\r\n1\r\n") == b"STORED\r\n"
    finally:
        subprocess.run(["kill", "-9", str(daemon)], check=True)
        server.log.close()
    server = tandem("-e", str(memory_file), "-k")
    assert ask(server, b"get a\r\n") == b"VALUE a 0 1\r\n1\r\nEND\r\n"
    assert memory_file.stat().st_mode & 0o777 == 0o600


def test_a_full_file_system_is_out_of_memory(tmp_path: Path) -> None:
    """No store to a page without blocks, which would end the process."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("no unshare")
    probe = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(tmp_path)]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mounts in a user's name space here")
    socket_path = tmp_path.parent / f"{tmp_path.name}.sock"
    script = f'mount -t tmpfs -o size=12m tmpfs {tmp_path} && exec {tandem_binary()} memcached "$@"'
    server = Server(
        ["unshare", "-Urm", "sh", "-c", script, "sh"],
        "-e",
        str(tmp_path / "memory"),
        "-M",
        unix_path=socket_path,
        run_as="root",
    )
    try:
        with Stream(server.connect()) as stream:
            replies = [
                stream.exchange(b"set k%d 0 0 50000\r\n%s\r\n" % (n, b"v" * 50_000)).data.split(b"\r\n")[0]
                for n in range(1000)
            ]
        stored = replies.count(b"STORED")
        assert 100 < stored < 250
        assert set(replies[stored + 20 :]) == {b"SERVER_ERROR out of memory storing object"}
        assert ask(server, b"get k0\r\n").startswith(b"VALUE k0 0 50000\r\n")
    finally:
        server.close()
