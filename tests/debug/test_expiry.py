"""Expiry to the second, with the store's clock in the test's hand: debugtime stops it and sets it forward. The same
ways to set a time as tests/integration/test_expiry.py, without its waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from harness.server import PATIENCE_S, Server
from harness.wire import Stream
from integration.test_expiry import ENDING, GONE, LASTING, SHORT_S, prepare


@pytest.fixture
def stream(tandem: Callable[..., Server]) -> Iterator[Stream]:
    """Of a server with a stopped clock."""
    with Stream(tandem("-t", "2").connect()) as stream:
        assert stream.exchange(b"debugtime p\r\n").data == b"OK\r\n"
        yield stream


def advance(stream: Stream, seconds: int) -> None:
    assert stream.exchange(b"debugtime %d\r\n" % seconds).data == b"OK\r\n"


def is_there(stream: Stream, key: str) -> bool:
    return stream.exchange(b"mg %s\r\n" % key.encode()).data.startswith(b"HD")


def server_time(stream: Stream) -> int:
    lines = stream.exchange(b"stats\r\n").data.splitlines()
    return int(next(line.split()[2] for line in lines if line.startswith(b"STAT time ")))


def test_every_way_to_expire(stream: Stream) -> None:
    """What is set to n seconds is there n - 1 seconds later and gone after one more."""
    for request in prepare(server_time(stream)):
        stream.exchange(request)
    for key in (*LASTING, *ENDING):
        assert is_there(stream, key), key
    for key in GONE:
        assert not is_there(stream, key), key
    advance(stream, SHORT_S - 1)
    for key in (*LASTING, *ENDING):
        assert is_there(stream, key), key
    advance(stream, 1)
    for key in ENDING:
        assert not is_there(stream, key), key
    for key in LASTING:
        assert is_there(stream, key), key
    for request, said in (
        (b"add relative 0 0 1\r\n2\r\n", b"STORED\r\n"),
        (b"replace absolute 0 0 1\r\n2\r\n", b"NOT_STORED\r\n"),
        (b"append touched_short 0 0 1\r\n2\r\n", b"NOT_STORED\r\n"),
        (b"incr gat_short 1\r\n", b"NOT_FOUND\r\n"),
        (b"touch appended 0\r\n", b"NOT_FOUND\r\n"),
        (b"delete counted\r\n", b"NOT_FOUND\r\n"),
    ):
        assert stream.exchange(request).data == said, request


@pytest.mark.parametrize("seconds", [1, 2, 60, 60 * 60 * 24 * 30])
def test_time_left(stream: Stream, seconds: int) -> None:
    stream.exchange(b"set k 0 %d 1\r\n1\r\n" % seconds)
    assert stream.exchange(b"mg k t\r\n").data == b"HD t%d\r\n" % seconds
    advance(stream, seconds - 1)
    assert stream.exchange(b"mg k t\r\n").data == b"HD t1\r\n"
    advance(stream, 1)
    assert stream.exchange(b"mg k t\r\n").data == b"EN\r\n"


def test_time_since_access(stream: Stream) -> None:
    stream.exchange(b"set k 0 0 1\r\n1\r\n")
    advance(stream, 1000)
    assert stream.exchange(b"mg k l\r\n").data == b"HD l1000\r\n"
    advance(stream, 7)
    assert stream.exchange(b"mg k l\r\n").data == b"HD l7\r\n"


def test_a_delayed_flush_comes_in_its_second(stream: Stream) -> None:
    stream.exchange(b"set before 0 0 1\r\n1\r\nflush_all 10\r\nset between 0 0 1\r\n1\r\n")
    advance(stream, 8)
    assert is_there(stream, "before") and is_there(stream, "between")
    advance(stream, 1)  # one second before the time, as in memcached
    # Applied by the maintenance thread, which looks some times a second.
    deadline = time.monotonic() + PATIENCE_S
    while is_there(stream, "before") or is_there(stream, "between"):
        assert time.monotonic() < deadline
    stream.exchange(b"set after 0 0 1\r\n1\r\n")
    assert is_there(stream, "after")


def test_the_crawler_gives_back_what_has_expired(stream: Stream) -> None:
    for number in range(100):
        stream.exchange(b"set k%d 0 %d 1\r\n1\r\n" % (number, 100 if number % 2 else 0))
    advance(stream, 100)
    deadline = time.monotonic() + PATIENCE_S
    items = b"STAT curr_items 50\r\n"
    while items not in stream.exchange(b"lru_crawler crawl all\r\nstats\r\n").data:
        assert time.monotonic() < deadline
        time.sleep(0.01)
