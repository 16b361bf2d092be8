"""Address space, pages and threads that the system refuses, and memory files without blocks: the server lives, answers
are right, and what was refused is had when there is memory again.

TANDEM_FAULTS (default 1) multiplies how many faults there are: `make soak-faults` has 20 times as many.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.conversations import Ended
from harness.faults import (
    ALWAYS,
    BLOCKS_ERROR,
    BYTES_MIN,
    DISK_FAILED,
    FAIL_FROM,
    FAILED,
    FSYNC_ERROR,
    MAP_FAILED,
    MAP_FROM,
    NEVER,
    PUNCH_ERROR,
    WRITE_ERROR,
    Faults,
    wait_started,
)
from harness.server import TIME_FACTOR, Server, free_port
from harness.wire import Stream

from integration.conftest import stats
from integration.test_allocations import SUBJECTS
from integration.test_faults import MULTIPLE, SANITIZED, check_kept, store_kept

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer maps memory of its own, which nothing can be put before")

OUT_OF_MEMORY = b"SERVER_ERROR out of memory storing object\r\n"
MIB = 1 << 20


@pytest.fixture
def small_index() -> Iterator[Callable[[], Server]]:
    """Starts servers whose index begins with a few cells."""
    script = f'exec {tandem_binary()} serve --item-expected 1MiB --memory 64MiB --threads 2 --port "$4"'
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(["sh", "-c", script, "sh"]))
        return started[-1]

    yield start
    for server in started:
        server.close()


def wait_for(server: Server, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30 * TIME_FACTOR
    while not condition():
        server.check_alive()
        assert time.monotonic() < deadline, server.describe(what)
        time.sleep(0.02)


def small_sets(first: int, end: int) -> bytes:
    return b"".join(b"set s%d 0 0 8 noreply\r\n%08d\r\n" % (i, i) for i in range(first, end))


def check_small(stream: Stream, first: int, end: int) -> int:
    """How many of them are there; what is there is right."""
    reply = stream.exchange(b"".join(b"get s%d\r\n" % i for i in range(first, end)), 60)
    assert not reply.closed
    hits = 0
    lines = iter(reply.data.split(b"\r\n"))
    for i in range(first, end):
        head = next(lines)
        if head == b"END":
            continue
        assert head == b"VALUE s%d 0 8" % i and next(lines) == b"%08d" % i and next(lines) == b"END"
        hits += 1
    return hits


def exercise(server: Server, turn: int) -> None:
    """Asks for all that maps memory or starts threads: large values, growth, a smaller and a larger limit, pages moved,
    the crawler, the log. Any answer but a wrong one will do; the connections stay."""
    large = bytes([turn % 256]) * 900_000
    with Stream(server.connect()) as stream:
        for _ in range(2):
            for key in (b"x", b"y"):
                assert stream.exchange(b"set %s 0 0 900000\r\n%s\r\n" % (key, large)).data in (
                    b"STORED\r\n",
                    OUT_OF_MEMORY,
                    b"SERVER_ERROR out of memory\r\n",
                )
                assert stream.exchange(b"get %s\r\n" % key).data in (
                    b"END\r\n",
                    b"VALUE %s 0 900000\r\n%s\r\nEND\r\n" % (key, large),
                )
            stream.exchange(b"delete x\r\n")
        assert stream.exchange(small_sets(0, 20_000), 60).data == b""
        check_small(stream, 0, 20_000)
        for request in (
            b"lru_crawler disable\r\n",
            b"lru_crawler enable\r\n",
            b"cache_memlimit 20\r\n",
            b"cache_memlimit 64\r\n",
            b"slabs reassign 1 5\r\n",
            b"stats\r\nstats slabs\r\n",
        ):
            assert not stream.exchange(request).closed
    with Stream(server.connect()) as stream:
        stream.send(b"watch evictions\r\n")
        # The first evictions may be there already.
        said = stream.socket.recv(100).partition(b"\r\n")[0]
        assert said in (b"OK", b"WATCHER_FAILED failed to add log watcher")


def serves_fully(server: Server) -> None:
    """What was refused is had again."""
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"lru_crawler disable\r\nlru_crawler enable\r\n").data == b"OK\r\n" * 2

        def all_stored() -> bool:  # an index that is full evicts until it has grown
            stream.exchange(small_sets(0, 20_000), 60)
            return check_small(stream, 0, 20_000) == 20_000

        wait_for(server, all_stored, "the index did not grow")
        large = b"z" * 900_000
        assert stream.exchange(b"set z 0 0 900000\r\n%s\r\n" % large).data == b"STORED\r\n"
        assert stream.exchange(b"get z\r\n").data == b"VALUE z 0 900000\r\n%s\r\nEND\r\n" % large
    with Stream(server.connect()) as stream:
        stream.send(b"watch evictions\r\n")
        assert stream.socket.recv(100).startswith(b"OK\r\n")  # and, perhaps, evictions


@pytest.mark.parametrize("count", [1, 4])
def test_each_mapping_while_serving_may_fail(count: int, small_index: Callable[[], Server], tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    injected = n = servers = 0
    while True:
        with faults.preloaded():
            server = small_index()
        store_kept(server)
        wait_started(server.pid)
        with Stream(server.connect()) as quiet:
            check_kept(quiet)
            faults.fail_mappings(n, count)
            exercise(server, n)
            failed = faults.get(MAP_FAILED)
            faults.set(MAP_FROM, NEVER)
            server.check_alive()
            assert quiet.exchange(b"mn\r\n").data == b"MN\r\n"
        serves_fully(server)
        assert server.stop() == 0
        servers += 1
        if failed == 0:
            break
        injected += failed
        n += count if n < 6 * MULTIPLE else 5
    print(f"{injected} mappings failed, {count} at a time, in {servers} servers")
    assert servers > 3


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [kind for kind in SUBJECTS if kind != "metrics"])  # its pages map nothing
def test_mappings_may_fail_in_every_kind_of_conversation(kind: str, tmp_path: Path) -> None:
    """Of servers that have just begun, whose heap, index and buffers still grow; afterwards each conversation is as if
    nothing had been."""
    injected = 0
    for n in range(5 * MULTIPLE):
        folder = tmp_path / str(n)
        folder.mkdir()
        with SUBJECTS[kind](folder) as subject:
            with subject.plain.talk() as quiet:
                quiet.say(b"mn\r\n", b"MN\r\n")
                wait_started(subject.server.pid)
                subject.faults.fail_mappings(n, 1 + n % 4)
                for run in subject.runs.values():
                    with suppress(Ended):
                        run()
                    subject.server.check_alive()
                injected += subject.faults.get(MAP_FAILED)
                subject.faults.set(MAP_FROM, NEVER)
                quiet.say(b"mn\r\n", b"MN\r\n")
            # A crawler whose thread could not be had is off until it is wanted again.
            for name in sorted(subject.runs, key=lambda name: name != "crawler"):
                subject.runs[name]()
    print(f"{kind}: {injected} mappings failed")
    assert injected > 0


def test_each_mapping_of_the_start_may_fail(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    command = [str(tandem_binary()), "serve", "--port", str(free_port()), "--memory", "64MiB", "--threads", "2"]
    command += ["--memory-file", str(tmp_path / "memory"), "--metrics", f"127.0.0.1:{free_port()}"]
    n = served = ended = 0
    while True:
        faults.fail_mappings(n)
        process = subprocess.Popen(
            command, env={**os.environ, **faults.environment()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        said = b""
        while line := process.stderr.readline():
            said += line
            if b"serving on" in line:
                process.terminate()
                break
        said += process.communicate(timeout=30 * TIME_FACTOR)[1]
        text = said.decode(errors="replace")
        assert process.returncode >= 0, (n, process.returncode, text)
        if process.returncode == 0:
            served += 1
            assert b"serving on" in said
        else:
            ended += 1
            assert b"serving on" not in said
            assert "memory" in text.replace(str(tmp_path / "memory"), ""), (n, process.returncode, text)
        if faults.get(MAP_FAILED) == 0:
            break
        n += 1
    print(f"{served} starts served, {ended} said why not")
    assert served > 1 and ended > 3


def test_a_table_that_cannot_be_mapped_costs_no_items(small_index: Callable[[], Server], tmp_path: Path) -> None:
    """Growth is tried again and again, evicts nothing meanwhile, and is done when there is memory."""
    faults = Faults(tmp_path)
    with faults.preloaded():
        server = small_index()
    wait_started(server.pid)
    with Stream(server.connect()) as stream:
        stream.exchange(small_sets(0, 100))
        before = stats(server)
        faults.fail_mappings(0, ALWAYS)
        stream.exchange(small_sets(100, 4050), 60)
        cells = int(before["hash_bytes"])
        wait_for(server, lambda: faults.get(MAP_FAILED) >= 4, "growth was not tried again")
        now = stats(server)
        assert int(now["hash_bytes"]) == cells
        # Those evicted are what the full table had no cells for; items in pages that were taken would be far more.
        assert check_small(stream, 0, 4050) == 4050 - int(now["evictions"]) > 0.8 * cells // 8
        faults.set(MAP_FROM, NEVER)
        wait_for(server, lambda: int(stats(server)["hash_bytes"]) > cells, "the index did not grow")
        assert check_small(stream, 0, 4050) == 4050 - int(now["evictions"])


def status_bytes(server: Server, field: str) -> int:
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


@pytest.mark.parametrize(
    ("what", "field"), [(resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")], ids=["as", "data"]
)
def test_a_limit_set_while_it_serves(what: int, field: str, small_index: Callable[[], Server]) -> None:
    """It may have no more than it has: what it keeps for this is all there is."""
    server = small_index()
    store_kept(server)
    wait_started(server.pid)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with Stream(server.connect()) as quiet:
        check_kept(quiet)
        resource.prlimit(server.pid, what, (status_bytes(server, field), resource.RLIM_INFINITY))
        for turn in range(3):
            exercise_what_may_be_refused(server, turn)
            assert quiet.exchange(b"mn\r\n").data == b"MN\r\n"
        resource.prlimit(server.pid, what, unlimited)
        check_kept(quiet)
    serves_fully(server)
    wait_for(server, lambda: int(stats(server)["hash_bytes"]) > 8 * 20_000, "the index did not grow")


def exercise_what_may_be_refused(server: Server, turn: int) -> None:
    """A connection may end here, since its input or output cannot be kept."""
    requests = [
        b"set huge%d 0 0 700000\r\n%s\r\n" % (turn, b"h" * 700_000),
        small_sets(0, 20_000),
        b"get " + b"k" * 240 + (b" " + b"q" * 240) * 600 + b"\r\n",
        b"watch evictions\r\n",
        b"lru_crawler disable\r\nlru_crawler enable\r\n",
    ]
    for request in requests:
        server.check_alive()
        with Stream(server.connect()) as stream:
            stream.send(request) if request.startswith(b"watch") else stream.finish(request, 60)
    server.check_alive()


@pytest.mark.parametrize("mib", [8, 24, 48, 96, 200])
def test_a_start_with_little_address_space(mib: int) -> None:
    process = subprocess.Popen(
        [str(tandem_binary()), "serve", "--port", str(free_port()), "--memory", "64MiB", "--threads", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB)),
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    if b"serving on" in said:
        process.terminate()
    said += process.communicate(timeout=30 * TIME_FACTOR)[1]
    if b"serving on" in said:
        assert process.returncode == 0, said
    else:  # the loader of shared libraries says it in other words
        assert process.returncode > 0, said
        assert any(word in said for word in (b"memory", b"address space", b"failed to map")), said


def test_output_that_nobody_reads_and_no_memory(tandem: Callable[..., Server], tmp_path: Path) -> None:
    """Who does not read is closed; the process and the others go on."""
    faults = Faults(tmp_path)
    with faults.preloaded():
        server = tandem("-t", "1")
    store_kept(server)

    def blocked() -> int:
        return int(stats(server, b"tandem")["blocked"])

    with ExitStack() as stack:
        quiet = stack.enter_context(Stream(server.connect()))
        # How much is left of an answer when a socket is full is the kernel's choice and may need little memory: one of
        # many sizes needs much.
        for value_bytes in range(15_000, 7_000, -400):
            value = b"v" * value_bytes
            assert quiet.exchange(b"set v 0 0 %d\r\n%s\r\n" % (value_bytes, value)).data == b"STORED\r\n"
            want = b"VALUE v 0 %d\r\n%s\r\nEND\r\n" % (value_bytes, value)
            assert quiet.exchange(b"get v\r\n" * 40, 30).data == want * 40  # the worker's own buffer is large now
            faults.set(BYTES_MIN, 64 << 10)
            faults.fail(0, ALWAYS)
            before = blocked()
            lazy = stack.enter_context(Stream(server.connect()))
            lazy.send(b"get v\r\n" * 5000)
            wait_for(server, lambda n=before: faults.get(FAILED) > 0 or blocked() > n, "no socket is full")
            assert quiet.exchange(b"get v\r\n").data == want
            check_kept(quiet)
            faults.set(FAIL_FROM, NEVER)
            if faults.get(FAILED) > 0:
                break
        else:
            pytest.fail(server.describe("nothing failed"))
        assert len(lazy.finish(b"", 30).data) < 5000 * len(want)
        check_kept(quiet)
    assert int(stats(server)["curr_connections"]) >= 1


def test_kept_input_that_cannot_get_smaller_stays(tandem: Callable[..., Server], tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    with faults.preloaded():
        server = tandem("-t", "1")
    with Stream(server.connect()) as stream:
        stream.exchange(b"set a 0 0 1\r\n1\r\n")
        stream.send(b"get" + b" q" * 150_000)
        wait_for(server, lambda: int(stats(server)["bytes_read"]) >= 300_000, "it was not received")
        faults.set(BYTES_MIN, 8 << 10)
        faults.fail(0, ALWAYS)
        stream.send(b"\r\nget" + b" r" * 5000)
        assert stream.exchange(b"\r\nget a\r\n").data.endswith(b"END\r\nVALUE a 0 1\r\n1\r\nEND\r\n")
        failed = faults.get(FAILED)
        faults.set(FAIL_FROM, NEVER)
    assert failed > 0


@contextmanager
def on_small_disk(
    tmp_path: Path, mib: int, *options: str, faults: Faults | None = None
) -> Iterator[tuple[Server, Path]]:
    """A server whose memory file is on a tmpfs of its own, and that one's folder as seen from here."""
    disk = tmp_path / "disk"
    disk.mkdir(exist_ok=True)
    mount = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(disk)]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mounts in a user's name space here")
    preload = "" if faults is None else " ".join(f"{k}={v}" for k, v in faults.environment().items())
    script = f'mount -t tmpfs -o size={mib}m tmpfs {disk} && exec env {preload} {tandem_binary()} memcached "$@"'
    server = Server(
        ["unshare", "-Urm", "sh", "-c", script, "sh"],
        "-e",
        str(disk / "memory"),
        *options,
        unix_path=tmp_path.parent / f"{tmp_path.name}.sock",
        run_as="root",
    )
    try:
        yield server, Path(f"/proc/{server.pid}/root{disk}")
    finally:
        server.close()


def fill_up(disk: Path) -> Path:
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("ab") as file:
        try:
            while True:
                os.write(file.fileno(), b"b" * 65536)
        except OSError as error:
            assert error.errno == errno.ENOSPC
    return ballast


def store(stream: Stream, first: int, end: int, bytes_each: int = 50_000) -> list[bytes]:
    value = b"v" * bytes_each
    return [stream.exchange(b"set k%d 0 0 %d\r\n%s\r\n" % (n, bytes_each, value)).data for n in range(first, end)]


@pytest.mark.parametrize("evicts", [False, True], ids=["errors", "evicts"])
def test_a_disk_that_fills_up_and_has_room_again(evicts: bool, tmp_path: Path) -> None:
    options = () if evicts else ("-M",)
    with on_small_disk(tmp_path, 40, *options) as (server, disk), Stream(server.connect()) as stream:
        assert set(store(stream, 0, 100)) == {b"STORED\r\n"}
        ballast = fill_up(disk)
        replies = store(stream, 100, 500)
        if evicts:
            assert set(replies) == {b"STORED\r\n"}
            assert int(stats(server)["evictions"]) > 100
            assert stream.exchange(b"set other 0 0 2000\r\n%s\r\n" % (b"o" * 2000)).data == b"STORED\r\n"
        else:
            assert set(replies[100:]) == {OUT_OF_MEMORY}
            assert stream.exchange(b"get k0\r\n").data == b"VALUE k0 0 50000\r\n%s\r\nEND\r\n" % (b"v" * 50_000)
        held = int(stats(server)["curr_items"])
        ballast.unlink()
        store(stream, 500, 1000)
        assert int(stats(server)["curr_items"]) > held + 200, "the room that came back was not used"


@pytest.mark.parametrize("error", [errno.EIO, errno.EOPNOTSUPP, errno.ENOSPC])
def test_blocks_that_cannot_be_given_back_and_are_gone(error: int, tmp_path: Path) -> None:
    """A file system that takes blocks and says that it did not: no page is touched before they are asked for again."""
    faults = Faults(tmp_path)
    with on_small_disk(tmp_path, 40, "-I", "4m", faults=faults) as (server, disk), Stream(server.connect()) as stream:
        large = b"L" * 3_000_000
        for n in range(6):
            assert stream.exchange(b"set l%d 0 0 3000000\r\n%s\r\n" % (n, large), 30).data == b"STORED\r\n"
        faults.set(PUNCH_ERROR, error)
        for n in range(6):
            assert stream.exchange(b"delete l%d\r\n" % n).data == b"DELETED\r\n"
        wait_for(server, lambda: bool(store(stream, 0, 2)) and faults.get(DISK_FAILED) >= 3, "nothing was given back")
        ballast = fill_up(disk)
        store(stream, 0, 400)
        server.check_alive()
        assert stream.exchange(b"set a 0 0 1\r\n1\r\nget a\r\n").data.endswith(b"VALUE a 0 1\r\n1\r\nEND\r\n")
        faults.set(PUNCH_ERROR, 0)
        ballast.unlink()
        assert set(store(stream, 400, 600)) == {b"STORED\r\n"}


def with_failing_disk(tandem: Callable[..., Server], tmp_path: Path, *options: str) -> tuple[Server, Faults]:
    """A server with a memory file; its calls for that fail when told to."""
    faults = Faults(tmp_path)
    with faults.preloaded():
        return tandem("-t", "1", "-e", str(tmp_path / "memory"), *options), faults


@pytest.mark.parametrize("error", [errno.EIO, errno.EOPNOTSUPP, errno.ENOSPC])
def test_blocks_that_cannot_be_had(error: int, tandem: Callable[..., Server], tmp_path: Path) -> None:
    server, faults = with_failing_disk(tandem, tmp_path, "-M")
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
        faults.set(BLOCKS_ERROR, error)
        replies = store(stream, 40, 340)
        assert set(replies[100:]) == {OUT_OF_MEMORY}
        faults.set(BLOCKS_ERROR, 0)
        store(stream, 340, 500)
        assert set(store(stream, 500, 600)) == {b"STORED\r\n"}
        assert stream.exchange(b"get k0\r\n").data == b"VALUE k0 0 50000\r\n%s\r\nEND\r\n" % (b"v" * 50_000)


def starts_empty(tandem: Callable[..., Server], tmp_path: Path) -> None:
    """The next process does not take over what a disk did not take."""
    again = tandem("-t", "1", "-e", str(tmp_path / "memory"))
    with Stream(again.connect()) as stream:
        assert stream.exchange(b"get k39\r\n").data == b"END\r\n"
        assert "could not all be written to its disk; starting empty" in again.output()


# A medium's error is ENODATA.
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.ENODATA])
def test_a_disk_that_does_not_take_what_is_written(error: int, tandem: Callable[..., Server], tmp_path: Path) -> None:
    """What it did not take may be read back as what was there before: nobody gets it, now or after a restart."""
    server, faults = with_failing_disk(tandem, tmp_path)
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
        faults.set(WRITE_ERROR, error)
        wait_for(
            server, lambda: stream.exchange(b"get k0\r\n").data == b"END\r\n", "what was not written is still there"
        )
        faults.set(WRITE_ERROR, 0)
        assert f"cannot be written: {os.strerror(error)}; all items are dropped" in server.output()

        def stays() -> bool:
            assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
            time.sleep(0.6)
            return stream.exchange(b"get k39\r\n").data.startswith(b"VALUE k39 ")

        wait_for(server, stays, "what the disk took is dropped, too")
    assert server.stop() == 0
    starts_empty(tandem, tmp_path)


def test_a_disk_that_does_not_take_the_end(tandem: Callable[..., Server], tmp_path: Path) -> None:
    server, faults = with_failing_disk(tandem, tmp_path)
    with Stream(server.connect()) as stream:
        assert set(store(stream, 0, 40)) == {b"STORED\r\n"}
    faults.set(FSYNC_ERROR, errno.EIO)
    assert server.stop() == 0
    starts_empty(tandem, tmp_path)


def test_a_block_device_that_does_not_take_what_is_written(tmp_path: Path) -> None:
    """An ext4 on a loop device whose own file gets no room: the file system promised blocks that it cannot write."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounts = f"""mount -t tmpfs -o size=24m tmpfs {disk} && truncate -s 200M {disk}/image &&
        PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=1 -O ^has_journal {disk}/image &&
        mkdir {disk}/ext4 &&
        mount -o loop,noinit_itable {disk}/image {disk}/ext4"""
    namespace = ["unshare", "-m", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, mounts], capture_output=True).returncode != 0:
        pytest.skip("no loop devices here")
    server = Server(
        [*namespace, f'{mounts} && exec {tandem_binary()} memcached "$@"', "sh"],
        *("-e", str(disk / "ext4/memory")),
        unix_path=tmp_path.parent / f"{tmp_path.name}.sock",
    )
    try:
        with Stream(server.connect()) as stream:
            assert set(store(stream, 0, 1000)) == {b"STORED\r\n"}
            folder = os.open(f"/proc/{server.pid}/root{disk}/ext4", os.O_RDONLY)
            assert ctypes.CDLL(None).syncfs(folder) == -1, "the disk took it all"
            os.close(folder)
            wait_for(server, lambda: stream.exchange(b"get k999\r\n").data == b"END\r\n", "it is still there")
            assert "cannot be written" in server.output()
    finally:
        server.close()
