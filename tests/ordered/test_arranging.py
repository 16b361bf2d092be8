"""Small items of ranges that clients read often are rewritten next to each other, as only the figures show."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from harness.server import Server
from harness.wire import Stream
from integration.conftest import stats
from ordered.conftest import KINDS

KEYS = 4000


def value(key: int) -> bytes:
    return b"%d" % (key * key)


def fill(stream: Stream) -> None:
    keys = list(range(KEYS))
    random.Random(1).shuffle(keys)
    for first in range(0, KEYS, 500):
        lines = [
            b"set a%05d %d 0 %d noreply\r\n%s\r\n" % (key, key % 5, len(value(key)), value(key))
            for key in keys[first : first + 500]
        ]
        assert stream.exchange(b"".join(lines)).data == b""


def read(stream: Stream, times: int) -> None:
    """Each range of 100 keys, so often. Beside writers, as what rewrites them is, a reply may have fewer."""
    for first in range(0, KEYS, 100):
        reply = stream.exchange(b"mr a%05d n L100\r\n" % first * times).data
        assert reply.count(b"\r\n") == reply.count(b"EN n") == times and reply.count(b"EN n100") > times * 9 // 10


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_often_is_rewritten(kind: str, tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "2", *KINDS[kind])
    with Stream(server.connect()) as stream:
        fill(stream)
        tokens = stream.exchange(b"".join(b"mg a%05d c\r\n" % key for key in range(KEYS))).data
        for _ in range(200):
            read(stream, 50)
            arranged = int(stats(server, b"tandem")["items_arranged"])
            if arranged > KEYS * 9 // 10:
                break
        assert arranged > KEYS * 9 // 10
        assert stream.exchange(b"".join(b"mg a%05d c\r\n" % key for key in range(KEYS))).data == tokens
        got = stream.exchange(b"".join(b"mg a%05d v f\r\n" % key for key in range(KEYS))).data
        assert got == b"".join(b"VA %d f%d\r\n%s\r\n" % (len(value(key)), key % 5, value(key)) for key in range(KEYS))


def test_it_can_be_turned_off(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "2", "-o", "ordered,preset=0,no_arrange")
    with Stream(server.connect()) as stream:
        fill(stream)
        for _ in range(4):
            read(stream, 100)
        assert stats(server, b"tandem")["items_arranged"] == "0"
