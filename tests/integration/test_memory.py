"""What stays bounded, what is evicted and what -M refuses."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from harness.server import Server
from harness.wire import Stream, WireTimeout

from integration.conftest import FIXED_PART_BYTES, UNSENT_BYTES, ask, stats

MIB = 1 << 20
SIZES = (8, 30, 100, 400, 1500, 6000, 30_000, 120_000, 500_000, 1_000_000)


def fill(stream: Stream, total_bytes: int, check: Callable[[], None]) -> None:
    """Stores `total_bytes` in values of many sizes, in rounds of at most 3000 values or 12 MiB of each. Calls `check`
    after each round."""
    values = {size: random.Random(size).randbytes(size) for size in SIZES}
    numbers = itertools.count()
    stored_bytes = 0
    while stored_bytes < total_bytes:
        for size, value in values.items():
            count = min(3000, 12 * MIB // size)
            sets = (b"set fill%d 0 0 %d noreply\r\n%s\r\n" % (next(numbers), size, value) for _ in range(count))
            reply = stream.exchange(b"".join(sets), timeout_s=60).data
            assert reply == b"", reply[:200]
            stored_bytes += count * size
        check()


@pytest.mark.slow
@pytest.mark.footprint
@pytest.mark.parametrize(("memory_mib", "total_mib"), [(64, 2048), (256, 1024)])
def test_resident_memory_is_bounded(memory_mib: int, total_mib: int, tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "2", memory_mib=memory_mib)
    limit = memory_mib * MIB + FIXED_PART_BYTES

    def check() -> None:
        resident = server.resident_bytes()
        assert resident < limit, f"{resident >> 20} MiB resident with -m {memory_mib}"

    with Stream(server.connect()) as stream:
        fill(stream, total_mib * MIB, check)
        assert int(stats(server)["evictions"]) > 0
        for size in SIZES:
            value = b"n" * size
            assert stream.exchange(b"set newest%d 0 0 %d\r\n%s\r\n" % (size, size, value)).data == b"STORED\r\n"
            assert stream.exchange(b"mg newest%d s\r\n" % size).data == b"HD s%d\r\n" % size
    check()


def test_eviction_keeps_the_newest(tandem: Callable[..., Server]) -> None:
    server = tandem(memory_mib=64)
    value = b"e" * 1000
    count = 150_000
    with Stream(server.connect()) as stream:
        for start in range(0, count, 5000):
            stream.exchange(
                b"".join(b"set e%d 0 0 1000 noreply\r\n%s\r\n" % (n, value) for n in range(start, start + 5000))
            )
            newest = b"".join(b"mg e%d s k\r\n" % n for n in range(start + 4000, start + 5000))
            expected = b"".join(b"HD s1000 ke%d\r\n" % n for n in range(start + 4000, start + 5000))
            assert stream.exchange(newest).data == expected
    values = stats(server)
    assert int(values["evictions"]) > 50_000
    kept = int(values["curr_items"])
    assert 40_000 < kept < 66_000, f"{kept} items of 1000 bytes in 64 MiB"
    assert kept + int(values["evictions"]) == count


def test_what_is_read_often_survives(tandem: Callable[..., Server]) -> None:
    """Not a policy test: a small set that is read all the time must mostly outlive a flood of keys read never."""
    server = tandem(memory_mib=64)
    value = b"h" * 1000
    hot = b"".join(b"mg hot%d s q\r\n" % n for n in range(500))
    with Stream(server.connect()) as stream:
        stream.exchange(b"".join(b"set hot%d 0 0 1000 noreply\r\n%s\r\n" % (n, value) for n in range(500)))
        for start in range(0, 200_000, 2000):
            stream.exchange(
                b"".join(b"set cold%d 0 0 1000 noreply\r\n%s\r\n" % (n, value) for n in range(start, start + 2000))
            )
            stream.exchange(hot * 2)
        survivors = stream.exchange(hot).data.count(b"HD")
    assert survivors > 400, f"{survivors} of 500 items that were read all the time are left"


@pytest.mark.beyond_memcached("its pages change class one at a time, every few seconds")
def test_traffic_that_changes_its_size(tandem: Callable[..., Server]) -> None:
    """Memory full of small values must come free for large ones, and the other way round."""
    server = tandem(memory_mib=64)
    with Stream(server.connect()) as stream:
        for size, count in ((100, 300_000), (10_000, 20_000), (200_000, 800), (100, 300_000)):
            value = b"s" * size
            batch = max(1, 2 * MIB // size)
            for start in range(0, count, batch):
                reply = stream.exchange(
                    b"".join(
                        b"set t%d 0 0 %d noreply\r\n%s\r\n" % (n, size, value)
                        for n in range(start, min(start + batch, count))
                    )
                ).data
                assert reply == b""
            stored = stream.exchange(b"".join(b"mg t%d s\r\n" % n for n in range(count - 20, count))).data
            assert stored == b"HD s%d\r\n" % size * 20


def test_no_evictions_with_M(tandem: Callable[..., Server]) -> None:
    server = tandem("-M", memory_mib=64)
    value = b"m" * 10_000
    with Stream(server.connect()) as stream:
        refused = 0
        for number in range(8000):
            reply = stream.exchange(b"set m%d 0 0 10000\r\n%s\r\n" % (number, value)).data
            if reply != b"STORED\r\n":
                assert reply == b"SERVER_ERROR out of memory storing object\r\n"
                refused += 1
                if refused == 50:
                    break
        assert refused == 50
        first_refused = number - refused + 1
        assert 4000 < first_refused < 6800, f"{first_refused} values of 10,000 bytes fit into 64 MiB"
        for n in range(0, first_refused, 97):
            assert stream.exchange(b"mg m%d s\r\n" % n).data == b"HD s10000\r\n", f"value {n} was evicted"
        reply = stream.exchange(b"ms m0 10000 T0\r\n%s\r\n" % value).data
        assert reply in (b"HD\r\n", b"SERVER_ERROR out of memory storing object\r\n")
        stream.exchange(b"".join(b"delete m%d noreply\r\n" % n for n in range(1, 500)))
        for n in range(400):
            assert stream.exchange(b"set again%d 0 0 10000\r\n%s\r\n" % (n, value)).data == b"STORED\r\n"
    values = stats(server)
    assert values["evictions"] == "0"
    assert int(values["store_no_memory"]) >= 50


@pytest.mark.footprint
def test_client_that_never_reads(tandem: Callable[..., Server]) -> None:
    """Asks for far more than its socket holds. The server may stop reading from it or close it, but neither grow nor
    keep other clients waiting."""
    server = tandem("-t", "2", memory_mib=64)
    ask(server, b"set big 0 0 1000000\r\n" + b"b" * 1_000_000 + b"\r\nset small 0 0 10\r\n0123456789\r\n")
    deaf = []
    for number in range(40):
        connection = server.connect()
        deaf.append(connection)
        connection.setblocking(False)
        request = (b"get big\r\n", b"get small\r\n", b"mg big v\r\n", b"get big small big small big\r\n")[
            number % 4
        ] * 20_000
        sent = 0
        try:
            while sent < len(request):
                sent += connection.send(request[sent:])
        except BlockingIOError:
            pass  # the server has stopped reading
    for _ in range(100):
        assert ask(server, b"get small\r\n") == b"VALUE small 0 10\r\n0123456789\r\nEND\r\n"
        resident = server.resident_bytes()
        assert resident < 64 * MIB + FIXED_PART_BYTES + UNSENT_BYTES, f"{resident >> 20} MiB resident"
    for connection in deaf:
        connection.close()
    assert ask(server, b"mn\r\n") == b"MN\r\n"


def test_slow_reader_gets_all_of_it(tandem: Callable[..., Server]) -> None:
    """Items that were replaced, deleted or evicted while a reply that shows them waits to be read are read whole."""
    server = tandem(memory_mib=64)
    with Stream(server.connect()) as slow, Stream(server.connect()) as writer:
        old = b"o" * 900_000
        writer.exchange(b"set slow 0 0 900000\r\n%s\r\n" % old)
        slow.send(b"get slow\r\n" * 8)
        for number in range(300):
            writer.exchange(b"set slow 0 0 900000\r\n%s\r\n" % (bytes([number % 256]) * 900_000))
        writer.exchange(b"delete slow\r\nflush_all\r\n")
        try:
            reply = slow.exchange(b"", timeout_s=30).data
        except WireTimeout as timeout:
            pytest.fail(f"the slow reader's replies stopped: {timeout}")
        while reply.startswith(b"VALUE slow 0 900000\r\n"):
            value = reply[21 : 21 + 900_000]
            assert len(set(value)) == 1, "a value with bytes of two stores in it"
            assert reply[21 + 900_000 :].startswith(b"\r\nEND\r\n")
            reply = reply[21 + 900_000 + 7 :]
        assert reply in (b"", b"END\r\n" * (len(reply) // 5))
