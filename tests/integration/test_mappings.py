"""Address space, pages and threads that the system refuses: the server lives, answers are right, and what was refused
is had when there is memory again.

TANDEM_FAULTS (default 1) multiplies how many faults there are: `make soak-faults` has 20 times as many.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.conversations import Ended
from harness.faults import (
    ALWAYS,
    BYTES_MIN,
    FAIL_FROM,
    FAILED,
    MAP_FAILED,
    MAP_FROM,
    NEVER,
    Faults,
    wait_started,
)
from harness.server import PATIENCE_S, TIME_FACTOR, Server, free_port
from harness.wire import Stream

from integration.conftest import stats
from integration.test_allocations import SUBJECTS
from integration.test_faults import KEPT, MULTIPLE, SANITIZED, check_kept, store_kept

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer maps memory of its own, which nothing can be put before")

OUT_OF_MEMORY = b"SERVER_ERROR out of memory storing object\r\n"
MIB = 1 << 20


@pytest.fixture
def small_index() -> Iterator[Callable[[], Server]]:
    """Starts servers with an index of a few cells at first."""
    script = f'exec {tandem_binary()} serve --item-expected 1MiB --memory 64MiB --threads 2 --port "$4"'
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(["sh", "-c", script, "sh"]))
        return started[-1]

    yield start
    for server in started:
        server.close()


def wait_for(server: Server, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
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
    assert injected >= 6


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [kind for kind in SUBJECTS if kind != "metrics"])  # its pages map nothing
def test_mappings_may_fail_in_every_kind_of_conversation(kind: str, tmp_path: Path) -> None:
    """Of servers that have just begun: heap, index and buffers still grow; afterwards each conversation is as if
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
                    try:
                        run()
                    except Ended:
                        pass
                    except AssertionError:
                        # In the place of memory that was refused, what the conversation had stored may have gone.
                        if int(stats(subject.server)["evictions"]) == 0:
                            raise
                    subject.server.check_alive()
                injected += subject.faults.get(MAP_FAILED)
                subject.faults.set(MAP_FROM, NEVER)
                quiet.say(b"mn\r\n", b"MN\r\n")
            # A crawler that could not get a thread is off until it is wanted again.
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


def check_not_evicted(server: Server, stream: Stream) -> None:
    """As check_kept(), but for what the server says that it has evicted."""
    lost = 0
    for key, value in KEPT.items():
        reply = stream.exchange(b"get %s\r\n" % key)
        assert not reply.closed
        assert reply.data in (b"END\r\n", b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value))
        lost += reply.data == b"END\r\n"
    assert lost <= min(int(stats(server)["evictions"]), len(KEPT) // 2), f"{lost} items lost"


@pytest.mark.parametrize(
    ("what", "field"), [(resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")], ids=["as", "data"]
)
def test_a_limit_set_while_it_serves(what: int, field: str, small_index: Callable[[], Server]) -> None:
    """It may have no more than it has: what it keeps for this is all there is. The index may be refused its growth, and
    then evicts what it has no cells for."""
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
        check_not_evicted(server, quiet)
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
    """An unread connection is closed; the process and the rest go on."""
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
        wait_for(server, lambda: faults.get(FAILED) > 0, "nothing was kept")
        assert stream.exchange(b"\r\nget a\r\n").data.endswith(b"END\r\nVALUE a 0 1\r\n1\r\nEND\r\n")
        for _ in range(100):  # of some passes a sample of the keys is kept
            assert stream.exchange(b"get" + b" r" * 5000 + b"\r\n").data == b"END\r\n"
        failed = faults.get(FAILED)
        faults.set(FAIL_FROM, NEVER)
    assert failed > 0
