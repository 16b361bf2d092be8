"""Values up to -I and beyond, and items larger than a page."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from harness.server import Server
from harness.wire import Stream

MIB = 1 << 20


def store_and_read(stream: Stream, key: bytes, value: bytes) -> None:
    assert stream.exchange(b"set %s 3 0 %d\r\n%s\r\n" % (key, len(value), value), timeout_s=60).data == b"STORED\r\n"
    expected = b"VALUE %s 3 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)
    assert stream.exchange(b"get " + key + b"\r\n", timeout_s=60).data == expected


def test_up_to_the_default_limit(server: Server) -> None:
    chance = random.Random(1)
    with Stream(server.connect()) as stream:
        for size in (MIB // 2, MIB - 100_000, MIB - 1024):
            store_and_read(stream, b"large%d" % size, chance.randbytes(size))
        value = b"x" * MIB
        reply = stream.exchange(b"set large 0 0 %d\r\n%s\r\n" % (MIB, value)).data
        assert reply == b"SERVER_ERROR object too large for cache\r\n"


def test_32_mib_values(tandem: Callable[..., Server]) -> None:
    server = tandem("-I", "64m", memory_mib=512)
    chance = random.Random(2)
    with Stream(server.connect()) as stream:
        values = {}
        for number, size in enumerate((32 * MIB, 5 * MIB + 1, 2 * MIB, 60 * MIB, 3 * MIB - 7, MIB)):
            values[b"v%d" % number] = chance.randbytes(size)
            store_and_read(stream, b"v%d" % number, values[b"v%d" % number])
        for key, value in values.items():
            reply = stream.exchange(b"mg %s v\r\n" % key, timeout_s=60).data
            assert reply == b"VA %d\r\n%s\r\n" % (len(value), value)
        assert stream.exchange(b"append v2 0 0 3\r\nend\r\n", timeout_s=60).data == b"STORED\r\n"
        assert stream.exchange(b"mg v2 s\r\n").data == b"HD s%d\r\n" % (2 * MIB + 3)
        assert stream.exchange(b"delete v0\r\nget v0\r\n").data == b"DELETED\r\nEND\r\n"
        too_large = b"x" * (64 * MIB)
        reply = stream.exchange(b"set v9 0 0 %d\r\n%s\r\n" % (len(too_large), too_large), timeout_s=60).data
        assert reply == b"SERVER_ERROR object too large for cache\r\n"


NEEDS_MORE = pytest.mark.beyond_memcached("it asks for -o slab_chunk_max too")


@pytest.mark.parametrize(
    "limit", [*(pytest.param(limit, marks=NEEDS_MORE) for limit in ("1k", "16k", "100000", "600000")), "512k", "2m"]
)
def test_other_limits(limit: str, tandem: Callable[..., Server]) -> None:
    """-I in bytes, KiB and MiB: what fits with room to spare is stored, what does not fit is refused."""
    server = tandem("-I", limit)
    size = int(limit[:-1]) * {"k": 1024, "m": MIB}[limit[-1]] if limit[-1] in "km" else int(limit)
    with Stream(server.connect()) as stream:
        store_and_read(stream, b"k", b"v" * (size * 3 // 4))
        reply = stream.exchange(b"set k 0 0 %d\r\n%s\r\n" % (size, b"v" * size)).data
        assert reply == b"SERVER_ERROR object too large for cache\r\n"
        assert stream.exchange(b"get k\r\n").data == b"END\r\n"


def test_large_values_one_after_another(tandem: Callable[..., Server]) -> None:
    """More of them than memory: each is readable right after it was stored."""
    server = tandem("-I", "16m", memory_mib=128)
    with Stream(server.connect()) as stream:
        for number in range(40):
            store_and_read(stream, b"turn%d" % number, bytes([number]) * (10 * MIB))


def test_sizes_around_each_power_of_two(server: Server) -> None:
    with Stream(server.connect()) as stream:
        for power in range(20):
            for size in {max(0, (1 << power) + delta) for delta in (-3, -2, -1, 0, 1, 2)}:
                store_and_read(stream, b"p%d" % size, b"%d" % (size % 10) * size)
