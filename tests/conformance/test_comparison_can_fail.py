"""The comparison itself is tested: memcached agrees with memcached, and with no memcached behind a lying proxy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from conftest import start_memcached
from harness.proxy import Proxy
from harness.replies import CasMap, difference, pieces
from harness.server import Server
from harness.wire import Stream

from conformance.compare import Transcript, compare, differing, report
from conformance.conftest import NO_BACKGROUND
from conformance.corpus import all_cases

SOME_CASES = [case for case in all_cases()[::23] if max(map(len, case.steps)) < 100_000]


@pytest.fixture(scope="module")
def two_memcacheds() -> Iterator[tuple[Server, Server]]:
    with ExitStack() as stack:
        servers = []
        for _ in range(2):
            servers.append(start_memcached("-t", "2", *NO_BACKGROUND))
            stack.callback(servers[-1].discard)
        yield tuple(servers)


def nth(count: int, lie: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes | None]:
    """A lie told in one of `count` replies."""
    turns = itertools.count(1)
    return lambda data: lie(data) if next(turns) % count == 0 else data


def replace(pattern: bytes, by: bytes | Callable[[re.Match[bytes]], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: re.sub(pattern, by, data)


def reorder(data: bytes) -> bytes:
    """Swaps the first two flags of a meta reply (but not of the sentinel's)."""
    return re.sub(rb"\b(HD|VA \d+) ([^O]\S*) (\S+)", rb"\1 \3 \2", data)


numbers = itertools.count(5_000_000, 7)
LIES: dict[str, Callable[[bytes], bytes | None]] = {
    "drops a byte of one reply in 40": nth(40, lambda data: data[1:]),
    "drops a byte of a value": replace(rb"(VALUE \S+ \d+ \d+\r\n)[^\r]", rb"\1"),
    "changes END": replace(rb"^END\r\n", b"EMD\r\n"),
    "changes one END in 50": nth(50, replace(rb"END\r\n", b"End\r\n")),
    "changes a byte of a value": replace(rb"(VALUE \S+ \d+ \d+\r\n)v", rb"\1w"),
    "leaves a line end out": replace(rb"\r\nEND", b"\nEND"),
    "adds a space": replace(rb"STORED\r\n", b"STORED \r\n"),
    "reorders flags": reorder,
    "confuses the flags of items": replace(rb"(VALUE \S+) 9 ", rb"\1 8 "),
    "answers STORED for NOT_STORED": replace(rb"NOT_STORED", b"STORED"),
    "answers NOT_FOUND for EXISTS": replace(rb"EXISTS", b"NOT_FOUND"),
    "answers NF for EX": replace(rb"\bEX\b", b"NF"),
    "answers an error in other words": replace(rb"CLIENT_ERROR duplicate flag", b"CLIENT_ERROR invalid flag"),
    "leaves an error unanswered": replace(rb"ERROR\r\n", b""),
    "answers twice": replace(rb"DELETED\r\n", b"DELETED\r\nDELETED\r\n"),
    "answers noreply": replace(rb"NOT_FOUND\r\n", b"NOT_FOUND\r\nNOT_FOUND\r\n"),
    "closes one connection in 60 replies": nth(60, lambda data: None),
    "gives a new CAS at each look": replace(rb"( c|cas=)[1-9]\d*", lambda m: m[1] + b"%d" % next(numbers)),
    "gives all items one CAS": replace(rb"( c|cas=)\d+", rb"\g<1>77"),
    "gives falling CAS numbers": replace(rb"( c)([1-9]\d*)", lambda m: m[1] + b"%d" % (10**9 - int(m[2]))),
    "gives gets a wrong CAS": replace(rb"(VALUE \S+ \d+ \d+) (\d+)", lambda m: m[1] + b" %d" % (int(m[2]) + 1)),
    "is 10 s late with t": replace(rb" t(\d+)", lambda m: b" t%d" % (int(m[1]) + 10)),
    "takes no expiry for 1 s": replace(rb" t-1", b" t1"),
    "counts one more": replace(rb"\b50\r\n", b"51\r\n"),
    "never says that an item was hit": replace(rb" h1", b" h0"),
    "never says W": replace(rb" W\b", b""),
    "never says X": replace(rb" X\b", b""),
    "spells hits in another case": replace(rb"\bHD\b", b"hd"),
    "claims every item was fetched": replace(rb"fetch=no", b"fetch=yes"),
    "leaves the size out of me": replace(rb" size=\d+", b""),
}


def run_against(
    lie: Callable[[bytes], bytes | None], servers: tuple[Server, Server], enough: int, timeout_s: float
) -> list:
    for server in servers:
        with Stream(server.connect()) as stream:
            stream.exchange(b"flush_all\r\n")
    with Proxy(servers[1], lie) as proxy:
        reference, candidate = (lambda: Stream(servers[0].connect())), (lambda: Stream(proxy.connect()))
        return differing(SOME_CASES, reference, candidate, enough, timeout_s)


def test_memcached_agrees_with_memcached_behind_an_honest_proxy(two_memcacheds: tuple[Server, Server]) -> None:
    failures = run_against(lambda data: data, two_memcacheds, enough=10, timeout_s=10)
    assert not failures, report(failures, len(SOME_CASES))


@pytest.mark.parametrize("name", LIES)
def test_lie_is_caught(name: str, two_memcacheds: tuple[Server, Server]) -> None:
    failures = run_against(LIES[name], two_memcacheds, enough=1, timeout_s=0.5)
    assert failures, f"a server that {name} passes for memcached in {len(SOME_CASES)} cases"


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (b"STORED\r\n", b"STORED\r\nSTORED\r\n"),
        (b"VALUE a 0 1 5\r\nx\r\nEND\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n"),
        (
            b"VALUE a 0 1 5\r\nx\r\nVALUE a 0 1 5\r\nx\r\nEND\r\n",
            b"VALUE a 0 1 7\r\nx\r\nVALUE a 0 1 8\r\nx\r\nEND\r\n",
        ),
        (
            b"VALUE a 0 1 5\r\nx\r\nVALUE b 0 1 6\r\nx\r\nEND\r\n",
            b"VALUE a 0 1 7\r\nx\r\nVALUE b 0 1 7\r\nx\r\nEND\r\n",
        ),
        (b"HD c0\r\n", b"HD c5\r\n"),
        (b"HD t100\r\n", b"HD t97\r\n"),
        (b"HD t-1\r\n", b"HD t0\r\n"),
        (b"HD t4294967200\r\n", b"HD t5\r\n"),
        (b"HD s100\r\n", b"HD s101\r\n"),
        (b"EN Oc5\r\n", b"EN Oc6\r\n"),
        (b"HD kc5\r\n", b"HD kc6\r\n"),
        (b"VALUE a 0 12\r\nHD c1\r\nHD c1\r\nEND\r\n", b"VALUE a 0 12\r\nHD c2\r\nHD c2\r\nEND\r\n"),
        (b"ME a exp=-1 la=0 cas=1 fetch=no cls=1 size=50\r\n", b"ME a exp=-1 la=0 cas=1 fetch=no size=50 cls=1\r\n"),
        (b"ME a exp=-1 la=0 cas=1 fetch=no cls=1 size=50\r\n", b"ME a exp=-1 la=9 cas=1 fetch=no cls=1 size=50\r\n"),
        (b"", b"\r\n"),
    ],
)
def test_difference_is_seen(reference: bytes, candidate: bytes) -> None:
    assert difference(reference, candidate, CasMap.empty())
    assert difference(reference, reference, CasMap.empty()) is None


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (
            b"VALUE a 0 1 5\r\nx\r\nVALUE b 0 1 9\r\nx\r\nEND\r\n",
            b"VALUE a 0 1 70\r\nx\r\nVALUE b 0 1 66\r\nx\r\nEND\r\n",
        ),
        (b"HD c5 t100 l3\r\n", b"HD c1 t99 l2\r\n"),
        (b"ME a exp=-99 la=0 cas=1 fetch=no cls=1 size=50\r\n", b"ME a exp=-98 la=1 cas=7 fetch=no cls=9 size=24\r\n"),
        (b"VERSION 1.6.18\r\n", b"VERSION 0.1.0\r\n"),
        (b"HD t4294967200\r\n", b"HD t4294967290\r\n"),
    ],
)
def test_permitted_difference_is_permitted(reference: bytes, candidate: bytes) -> None:
    assert difference(reference, candidate, CasMap.empty()) is None


def test_pieces_keep_every_literal_byte() -> None:
    stream = b"VALUE k 1 4\r\nEN\r\n\r\nEND\r\nHD kx\r\nVA 2 s2\r\nab\r\nERROR\r\n\r\nunfinished"
    assert b"".join(bytes(piece.value) for piece in pieces(stream) if piece.kind == "literal") == stream


def test_closing_and_silence_are_differences() -> None:
    kept = Transcript(sent=[b"a"], replies=[b"ERROR\r\n"])
    assert compare(kept, Transcript(sent=[b"a"], replies=[b"ERROR\r\n"], closed=True))
    assert compare(kept, Transcript(sent=[b"a"], replies=[], timeout="no answer"))
    assert compare(kept, Transcript(sent=[b"a"], replies=[b"ERROR\r\n"])) is None


def test_falling_cas_is_a_difference() -> None:
    rising = Transcript(sent=[b"a"], replies=[b"VALUE a 0 1 5\r\nx\r\nEND\r\nVALUE a 0 1 9\r\nx\r\nEND\r\n"])
    falling = Transcript(sent=[b"a"], replies=[b"VALUE a 0 1 9\r\nx\r\nEND\r\nVALUE a 0 1 5\r\nx\r\nEND\r\n"])
    assert compare(rising, falling)
    assert compare(rising, rising) is None
