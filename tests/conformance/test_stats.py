"""The stats commands: names against the table of stats_names.py, and the arithmetic of the counters."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from harness.server import PATIENCE_S, Server
from harness.wire import Stream, sentinel

from conformance.compare import transcripts
from conformance.conftest import NO_BACKGROUND, Pair, start_pair
from conformance.corpus import groups
from conformance.stats_names import COUNTERS, MAY_LACK, OWN_PREFIX, SAME_SETTINGS, SHARED

INTEGER = re.compile(r"-?\d+\Z")
DECIMAL = re.compile(r"-?\d+\.\d+\Z")
PER_CLASS = re.compile(r"(?:items:)?\d+:(\w+)\Z")


@pytest.fixture(scope="module")
def fresh_pair() -> Iterator[Pair]:
    """Servers that hold no more than SETUP stores."""
    with ExitStack() as stack:
        yield start_pair(stack, "-t", "2")


@pytest.fixture(scope="module")
def quiet_pair() -> Iterator[Pair]:
    """Without memcached's background threads, which hold items and drop expired ones when they like."""
    with ExitStack() as stack:
        yield start_pair(stack, "-t", "2", *NO_BACKGROUND)


@pytest.fixture
def zeroed_pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield start_pair(stack, "-t", "2", *NO_BACKGROUND)


def parse(reply: bytes) -> dict[str, str]:
    lines = reply.split(b"\r\n")
    assert lines[-2:] == [b"END", b""], reply[-100:]
    result = {}
    for line in lines[:-2]:
        word, name, *value = line.decode().split(" ", 2)
        assert word == "STAT" and name not in result, line
        result[name] = value[0] if value else ""
    return result


def stats(stream: Stream, what: str = "") -> dict[str, str]:
    return parse(stream.exchange(b"stats" + (b" " + what.encode() if what else b"") + b"\r\n").data)


def both(pair: Pair, *requests: bytes) -> tuple[Stream, Stream]:
    """Connects to both and sends requests to each; the replies must be equal."""
    streams = Stream(pair.reference.connect()), Stream(pair.candidate.connect())
    for request in requests:
        replies = [stream.exchange(request).data for stream in streams]
        assert replies[0] == replies[1]
    return streams


def names_of(values: dict[str, str]) -> set[str]:
    """Names without the number of a size class or a connection."""
    return {match[1] if (match := PER_CLASS.match(name)) else name for name in values}


def shape(value: str) -> str:
    return "integer" if INTEGER.match(value) else "decimal" if DECIMAL.match(value) else "text"


SETUP = b"set a 0 0 1\r\n1\r\nset big 0 0 3000\r\n%s\r\nget a b\r\n" % (b"x" * 3000)


@pytest.mark.parametrize("what", SHARED)
def test_names(what: str, fresh_pair: Pair) -> None:
    for stream in both(fresh_pair, SETUP):
        with stream:
            values = stats(stream, what)
            if stream.socket.getpeername()[1] == fresh_pair.reference.port:
                reference = values
            else:
                candidate = values
    known = SHARED[what] | set(MAY_LACK[what])
    unknown = names_of(reference) - known
    assert not unknown, f"memcached has names that the table does not classify: {unknown}"
    missing = SHARED[what] - names_of(candidate)
    assert not missing, f"names that the candidate lacks: {missing}"
    own = {name for name in names_of(candidate) - known if not name.startswith(OWN_PREFIX)}
    assert not own, f"names that neither memcached nor the table has: {own}"


@pytest.mark.parametrize("what", ["", "settings"])
def test_values_are_of_the_same_kind(what: str, fresh_pair: Pair) -> None:
    streams = both(fresh_pair, SETUP)
    reference, candidate = (stats(stream, what) for stream in streams)
    for stream in streams:
        stream.close()
    different = {
        name: (reference[name], candidate[name])
        for name in reference.keys() & candidate.keys()
        if name != "version" and shape(reference[name]) != shape(candidate[name])
    }
    assert not different


def test_settings(fresh_pair: Pair) -> None:
    streams = both(fresh_pair)
    reference, candidate = (stats(stream, "settings") for stream in streams)
    for stream in streams:
        stream.close()
    different = {n: (reference[n], candidate.get(n)) for n in SAME_SETTINGS if reference[n] != candidate.get(n)}
    assert not different


FLUSH = b"flush_all\r\n"
KNOWN_SEQUENCE = [
    (b"set a 0 0 1\r\n1\r\n", {"cmd_set": 1, "total_items": 1, "curr_items": 1}),
    (b"get a\r\n", {"cmd_get": 1, "get_hits": 1}),
    (b"get a b c\r\n", {"cmd_get": 3, "get_hits": 1, "get_misses": 2}),
    (b"gets a\r\n", {"cmd_get": 1, "get_hits": 1}),
    (b"add a 0 0 1\r\n2\r\n", {"cmd_set": 1}),
    (b"add b 0 0 1\r\n2\r\n", {"cmd_set": 1, "total_items": 1, "curr_items": 1}),
    (b"replace c 0 0 1\r\n2\r\n", {"cmd_set": 1}),
    (b"append b 0 0 1\r\n3\r\n", {"cmd_set": 1, "total_items": 1}),
    (b"set b 0 0 2 noreply\r\n45\r\n", {"cmd_set": 1, "total_items": 1}),
    (b"cas b 0 0 1 999999999\r\n4\r\n", {"cmd_set": 1, "cas_badval": 1}),
    (b"cas c 0 0 1 999999999\r\n4\r\n", {"cmd_set": 1, "cas_misses": 1}),
    (b"incr a 1\r\n", {"incr_hits": 1}),
    (b"incr c 1\r\n", {"incr_misses": 1}),
    (b"decr a 1\r\n", {"decr_hits": 1}),
    (b"decr c 1 noreply\r\n", {"decr_misses": 1}),
    (b"incr a x\r\n", {}),
    (b"touch a 100\r\n", {"cmd_touch": 1, "touch_hits": 1}),
    (b"touch c 100\r\n", {"cmd_touch": 1, "touch_misses": 1}),
    (b"gat 0 a\r\n", {"cmd_touch": 1, "touch_hits": 1, "get_hits": 0}),
    (b"gat 0 a c\r\n", {"cmd_touch": 2, "touch_hits": 1, "touch_misses": 1}),
    (b"delete c\r\n", {"delete_misses": 1}),
    (b"delete b\r\n", {"delete_hits": 1, "curr_items": -1}),
    (b"mg a v\r\n", {"cmd_get": 1, "get_hits": 1}),
    (b"mg c v\r\n", {"cmd_get": 1, "get_misses": 1}),
    (b"mg a T50\r\n", {"cmd_touch": 1, "touch_hits": 1}),
    (b"mg f N50\r\n", {"cmd_get": 1, "get_hits": 1, "total_items": 1, "curr_items": 1}),
    (b"ms g 1\r\n1\r\n", {"cmd_set": 1, "total_items": 1, "curr_items": 1}),
    (b"ms g 1 C999999999\r\n1\r\n", {"cmd_set": 1, "cas_badval": 1}),
    (b"ma g\r\n", {"incr_hits": 1}),
    (b"ma c\r\n", {"incr_misses": 1}),
    (b"ma g MD\r\n", {"decr_hits": 1}),
    (b"ma c MD\r\n", {"decr_misses": 1}),
    (b"md g I\r\n", {}),
    (b"md g\r\n", {"delete_hits": 1, "curr_items": -1}),
    (b"md g\r\n", {"delete_misses": 1}),
    (b"md a C999999999\r\n", {"delete_misses": 1}),
    (b"set big 0 0 2000000\r\n" + b"b" * 2000000 + b"\r\n", {"store_too_large": 1}),
    (b"set a 0 0 1\r\nxx\r\n", {"cmd_set": 1}),
    (b"bogus\r\n", {}),
    (FLUSH, {"cmd_flush": 1}),
]
WATCHED = [*COUNTERS, "total_items", "curr_items"]


def test_counters_of_each_command(quiet_pair: Pair) -> None:
    """What each command adds, on memcached too, so that the expectations themselves are proven."""
    for server in (quiet_pair.reference, quiet_pair.candidate):
        wrong = []
        with Stream(server.connect()) as stream:
            for request, expected in KNOWN_SEQUENCE:
                before = stats(stream)
                stream.exchange(request)
                after = stats(stream)
                added = {name: int(after[name]) - int(before[name]) for name in WATCHED if name != "bytes_read"}
                for name in ("cmd_get", "get_misses"):
                    added[name] -= 2  # the sentinels of two exchanges are meta gets that miss
                if request == FLUSH:
                    del added["curr_items"]  # flushed items go when they are looked up, or before
                got = {name: value for name, value in added.items() if value}
                want = {name: value for name, value in expected.items() if value}
                if got != want:
                    wrong.append(f"{request[:40]!r} added {got}, not {want}")
        assert not wrong, f"{server.command[0]}: " + "\n".join(wrong)


# Not "retrieval": memcached counts the keys of a line that stand before a bad one; Tandem refuses the line first.
COUNTED_GROUPS = ("storage", "delete", "arithmetic", "touch", "mg", "recache", "ms", "md", "ma", "random")


@pytest.mark.parametrize("group", COUNTED_GROUPS)
def test_counters_after_a_group_of_the_corpus(group: str, pair: Pair) -> None:
    with Stream(pair.reference.connect()) as ours, Stream(pair.candidate.connect()) as theirs:
        before = stats(ours), stats(theirs)
        for _ in transcripts(list(groups()[group])[::3], pair.connects()):
            pass
        after = stats(ours), stats(theirs)
    added = [{name: int(a[name]) - int(b[name]) for name in COUNTERS} for b, a in zip(before, after, strict=True)]
    # CAS numbers that the cases send back have as many digits as the server gives them.
    tolerated = {"bytes_read"} if any(case.uses_cas_values for case in groups()[group]) else set()
    different = {n: (added[0][n], added[1][n]) for n in COUNTERS if n not in tolerated and added[0][n] != added[1][n]}
    assert not different
    assert sum(added[0].values()) > 100


def test_expired_and_flushed_items_are_counted(zeroed_pair: Pair) -> None:
    for server in (zeroed_pair.reference, zeroed_pair.candidate):
        with Stream(server.connect()) as stream:
            before = stats(stream)
            for _ in range(20):
                assert stream.exchange(b"set e 0 -1 1\r\n1\r\nget e\r\n").data == b"STORED\r\nEND\r\n"
                assert stream.exchange(b"set f 0 0 1\r\n1\r\nflush_all\r\nget f\r\n").data == b"STORED\r\nOK\r\nEND\r\n"
            after = stats(stream)
        added = {name: int(after[name]) - int(before[name]) for name in ("get_expired", "get_flushed", "curr_items")}
        assert added == {"get_expired": 20, "get_flushed": 20, "curr_items": 0}


def settled_stats(stream: Stream) -> bytes:
    """Statistics, once what earlier connections were sent is counted: a worker counts it at the end of a pass."""
    _, answer = sentinel()
    last = stream.exchange(b"stats\r\n").data
    for _ in range(1000):
        now = stream.exchange(b"stats\r\n").data
        if int(parse(now)["bytes_written"]) - int(parse(last)["bytes_written"]) == len(last) + len(answer):
            return now
        last = now
    pytest.fail("the bytes that are counted are not those that were sent")


def test_bytes_counters(quiet_pair: Pair) -> None:
    """bytes_read counts what was sent to the server, bytes_written what it sent."""
    requests = b"set a 0 0 5\r\nhello\r\nget a\r\nbogus\r\nget a b\r\nmn\r\n"
    for server in (quiet_pair.reference, quiet_pair.candidate):
        with Stream(server.connect()) as stream:
            first = settled_stats(stream)
            replies = stream.exchange(requests).data
            second = stream.exchange(b"stats\r\n").data
        before, after = parse(first), parse(second)
        ask, answer = sentinel()
        sent = len(requests) + len(b"stats\r\n") + 2 * len(ask)
        assert int(after["bytes_read"]) - int(before["bytes_read"]) == sent
        written = len(first) + len(replies) + 2 * len(answer)
        assert int(after["bytes_written"]) - int(before["bytes_written"]) == written


def test_connection_counters(fresh_pair: Pair) -> None:
    for server in (fresh_pair.reference, fresh_pair.candidate):
        with Stream(server.connect()) as observer:
            before = stats(observer)
            streams = [Stream(server.connect()) for _ in range(7)]
            for stream in streams:
                stream.exchange(b"mn\r\n")
            during = stats(observer)
            for stream in streams:
                stream.finish(b"")
                stream.close()
            deadline = time.monotonic() + PATIENCE_S
            while stats(observer)["curr_connections"] != before["curr_connections"]:
                assert time.monotonic() < deadline, "closed connections are still counted"
                time.sleep(0.01)
            assert int(during["curr_connections"]) - int(before["curr_connections"]) == 7
            assert int(during["total_connections"]) - int(before["total_connections"]) == 7
            assert int(before["max_connections"]) == 1024


CLASS_COUNTERS = ("cmd_set", "delete_hits", "incr_hits", "decr_hits", "cas_hits", "cas_badval", "touch_hits")
IN_CLASSES = [
    *(request for request, _ in KNOWN_SEQUENCE if request != FLUSH),
    b"set n 0 0 1\r\n5\r\ngat 0 n\r\nmg n T30\r\ndecr n 1\r\nmd n\r\n",
    b"set long 0 0 2000\r\n%s\r\nappend long 0 0 2\r\nxx\r\ntouch long 0\r\ndelete long\r\n" % (b"l" * 2000),
    b"set replaced 0 0 900\r\n%s\r\nset replaced 7 0 4000\r\n%s\r\n" % (b"r" * 900, b"r" * 4000),
    b"".join(b"set same%d 0 0 1\r\n1\r\n" % (i % 5) for i in range(100)),  # of one size
    b"".join(b"set mixed%d 0 0 %d\r\n%s\r\nget mixed0\r\n" % (i, 40 * i, b"m" * (40 * i)) for i in range(64)),
]


def by_class(stream: Stream) -> list[tuple[int, ...]]:
    """The counters of each class that has some, by rising size; the sizes are the server's own."""
    slabs = stats(stream, "slabs")
    numbers = sorted({int(name.split(":")[0]) for name in slabs if ":" in name})
    for number in numbers:
        missing = [name for name in CLASS_COUNTERS if f"{number}:{name}" not in slabs]
        assert not missing, f"memcached_exporter says memcached_up 0: class {number} lacks {missing}"
    return [tuple(int(slabs[f"{number}:{name}"]) for name in CLASS_COUNTERS) for number in numbers]


def test_commands_of_each_class(zeroed_pair: Pair) -> None:
    """The sums are memcached's, of sets that are pipelined, too; the classes are the server's own."""
    sums = []
    for server in (zeroed_pair.reference, zeroed_pair.candidate):
        with Stream(server.connect()) as stream:
            stream.exchange(b"set cas 0 0 1\r\n1\r\n")
            unique = stream.exchange(b"gets cas\r\n").data.split()[4]
            stream.exchange(b"cas cas 0 0 1 %s\r\n1\r\ncas cas 0 0 1 %s\r\n1\r\n" % (unique, unique))
            for request in IN_CLASSES:
                stream.exchange(request)
            sums.append([sum(column) for column in zip(*by_class(stream), strict=True)])
            general = stats(stream)
            assert sums[-1] == [int(general[name]) for name in CLASS_COUNTERS], server.command[0]
            stream.exchange(b"stats reset\r\n")
            assert not any(map(any, by_class(stream)))
    assert sums[0] == sums[1]


def test_commands_are_counted_in_their_item_s_class(tandem: Callable[..., Server]) -> None:
    with Stream(tandem("-t", "1").connect()) as stream:
        for _ in range(3):  # beside an old item, and in its place
            stream.exchange(b"set small 0 0 1\r\n1\r\n" * 24 + b"set large 0 0 3000\r\n%s\r\n" % (b"l" * 3000))
        stream.exchange(b"touch large 0\r\nincr small 1\r\ndelete small\r\n")
        rows = [dict(zip(CLASS_COUNTERS, row, strict=True)) for row in by_class(stream)]
        small, *between, large = [{n: v for n, v in row.items() if v} for row in rows]
        assert (small, [row for row in between if row]) == ({"cmd_set": 72, "incr_hits": 1, "delete_hits": 1}, [])
        assert large == {"cmd_set": 3, "touch_hits": 1}


def test_sizes_are_not_counted_without_cas(memcached: Callable[..., Server], tandem: Callable[..., Server]) -> None:
    for start in (memcached, tandem):
        with Stream(start("-C").connect()) as stream:
            refused = stream.exchange(b"stats sizes_enable\r\nmn\r\n").data
            assert refused == b"STAT sizes_status error\r\nSTAT sizes_error cas_support_disabled\r\nMN\r\n"
            assert stream.exchange(b"stats sizes\r\n").data == b"STAT sizes_status disabled\r\nEND\r\n"


def test_reset(zeroed_pair: Pair) -> None:
    """stats reset zeroes what counts events and leaves what describes the state."""
    some = b"get b\r\nincr a 1\r\ndecr a 1\r\ntouch a 0\r\ndelete x\r\ncas z 0 0 1 1\r\n1\r\n"
    streams = both(zeroed_pair, SETUP, some, b"stats reset\r\n")
    reference, candidate = (stats(stream) for stream in streams)
    for stream in streams:
        stream.close()
    names = [name for name in (*COUNTERS, "total_items", "curr_items") if name != "bytes_read"]
    assert {n: reference[n] for n in names} == {n: candidate[n] for n in names}
    assert candidate["curr_items"] == "2" and candidate["cmd_set"] == "0"


def test_state_numbers(fresh_pair: Pair) -> None:
    streams = both(fresh_pair, SETUP)
    for stream, server in zip(streams, (fresh_pair.reference, fresh_pair.candidate), strict=True):
        with stream:
            general, slabs, items = stats(stream), stats(stream, "slabs"), stats(stream, "items")
            assert int(general["pid"]) == server.pid
            assert general["curr_items"] == "2" and general["limit_maxbytes"] == str(64 << 20)
            assert abs(int(general["time"]) - time.time()) <= 2
            assert general["threads"] == "2" and general["pointer_size"] == "64" and general["accepting_conns"] == "1"
            assert 3000 < int(general["bytes"]) < 4500
            assert sum(int(v) for n, v in items.items() if n.endswith(":number")) == 2
            assert sum(int(v) for n, v in slabs.items() if n.endswith(":used_chunks")) == 2
            classes = {n.split(":")[0] for n in slabs if ":" in n}
            assert int(slabs["active_slabs"]) == len(classes) == len({n.split(":")[1] for n in items})
            for number in classes:
                free, used = (int(slabs[f"{number}:{name}_chunks"]) for name in ("free", "used"))
                assert free + used == int(slabs[f"{number}:total_chunks"])
            assert int(slabs["total_malloced"]) >= 3000


def test_conns(fresh_pair: Pair) -> None:
    """One listening socket for TCP, and this connection with both its addresses."""
    for server in (fresh_pair.reference, fresh_pair.candidate):
        with Stream(server.connect()) as stream:
            host, port = stream.socket.getsockname()
            conns = stats(stream, "conns")
            states = {name.split(":")[0]: value for name, value in conns.items() if name.endswith(":state")}
            assert "conn_listening" in states.values()
            mine = [name.split(":")[0] for name, value in conns.items() if value == f"tcp:{host}:{port}"]
            assert len(mine) == 1
            assert conns[f"{mine[0]}:listen_addr"] == f"tcp:{host}:{server.port}"
            assert INTEGER.match(conns[f"{mine[0]}:secs_since_last_cmd"])


def test_sizes(memcached: Callable[..., Server], tandem: Callable[..., Server]) -> None:
    """With -o track_sizes each item is counted in a step of 32 bytes; the sizes are the server's own."""
    for start in (memcached, tandem):
        with Stream(start("-o", "track_sizes").connect()) as stream:
            for number, size in enumerate((1, 1, 1, 400, 400, 5000)):
                stream.exchange(b"set k%d 0 0 %d\r\n%s\r\n" % (number, size, b"s" * size))
            sizes = {int(name): int(count) for name, count in stats(stream, "sizes").items()}
            assert sorted(sizes.values()) == [1, 2, 3]
            assert all(size % 32 == 0 for size in sizes)
            by_size = [sizes[size] for size in sorted(sizes)]
            assert by_size == [3, 2, 1]
            stream.exchange(b"delete k5\r\n")
            assert sum(int(count) for count in stats(stream, "sizes").values()) == 5
