"""Which items a full store of one size gives up for other items, and what an emptied one takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from harness.server import PATIENCE_S, Server
from harness.wire import Stream

from integration.conftest import stats

Start = Callable[..., Server]
NO_MEMORY = b"SERVER_ERROR out of memory storing object\r\n"
REASSIGN = ("slab_reassign", "no_slab_reassign")
BEYOND_MEMCACHED = pytest.mark.beyond_memcached("has no such option")


def store(stream: Stream, prefix: str, count: int, size: int, expires_s: int = 0, each: int = 500) -> bytes:
    """Stores keys prefix0, prefix1, ...; returns the replies other than STORED."""
    others = b""
    for start in range(0, count, each):
        keys = range(start, min(start + each, count))
        sets = (b"set %s%d 0 %d %d\r\n%s\r\n" % (prefix.encode(), i, expires_s, size, b"v" * size) for i in keys)
        others += stream.exchange(b"".join(sets), timeout_s=60).data.replace(b"STORED\r\n", b"")
    return others


def found(stream: Stream, keys: list[str]) -> list[str]:
    replies = stream.exchange(b"".join(b"mg %s k\r\n" % key.encode() for key in keys), timeout_s=60).data
    return [line[4:].decode() for line in replies.split(b"\r\n") if line.startswith(b"HD k")]


def wait_until_empty(server: Server) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while stats(server)["curr_items"] != "0":
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "options",
    [*REASSIGN, *(pytest.param(f"{o},eviction=s3-fifo", marks=BEYOND_MEMCACHED) for o in REASSIGN)],
)
@pytest.mark.parametrize("filling", [100_000, 1_000_000])
def test_an_item_of_a_new_size_outlives_old_ones(filling: int, options: str, tandem: Start) -> None:
    server = tandem("-t", "1", "-o", options, memory_mib=64)
    with Stream(server.connect()) as stream:
        assert store(stream, "large", 80_000_000 // filling, filling, each=10) == b""
        for size in range(1, 4000, 97):
            key = f"of_{size}_"
            assert store(stream, key, 3, size) == b""
            assert store(stream, f"other_{size}_", 3, 4) == b""
            assert len(found(stream, [f"{key}{i}" for i in range(3)])) == 3, size
        assert len(found(stream, [f"of_{size}_0" for size in range(1, 4000, 97)])) == 42
        assert len(found(stream, [f"large{i}" for i in range(80_000_000 // filling)])) > 10_000_000 // filling


@pytest.mark.beyond_memcached("a page of it changes class some 30 s later")
@pytest.mark.parametrize("emptied_by", ["delete", "flush_all"])
def test_an_emptied_store_takes_other_sizes_with_M(emptied_by: str, tandem: Start) -> None:
    server = tandem("-t", "2", "-M", memory_mib=16)
    with Stream(server.connect()) as stream:
        for size, other in ((100, 1000), (1000, 100), (100, 700_000), (700_000, 30)):
            prefix = f"of_{size}_then_{other}_"
            others = store(stream, prefix, 24_000_000 // (size + 80), size, each=10 if size > 100_000 else 500)
            assert NO_MEMORY in others
            assert not others.replace(NO_MEMORY, b"")
            if emptied_by == "delete":
                deletes = (b"delete %s%d noreply\r\n" % (prefix.encode(), i) for i in range(24_000_000 // (size + 80)))
                stream.exchange(b"".join(deletes), timeout_s=60)
            else:
                assert stream.exchange(b"flush_all\r\n").data == b"OK\r\n"
            wait_until_empty(server)
            count = 8_000_000 // (other + 80)
            assert store(stream, f"{prefix}now_", count, other, each=10 if other > 100_000 else 500) == b"", (
                size,
                other,
            )
            assert stream.exchange(b"flush_all\r\n").data == b"OK\r\n"
            wait_until_empty(server)
    assert stats(server)["evictions"] == "0"


@pytest.mark.beyond_memcached("expired items of one class keep its pages")
@pytest.mark.parametrize("reassign", REASSIGN)
def test_a_store_emptied_by_expiry_evicts_nothing(reassign: str, tandem: Start) -> None:
    server = tandem("-t", "2", "-o", reassign, memory_mib=16)
    with Stream(server.connect()) as stream:
        for longer in range(0, 180, 10):
            assert store(stream, f"t{longer}{'p' * longer}:", 15_000, 20, expires_s=1) == b""
        wait_until_empty(server)
        before = stats(server)["evictions"]
        assert store(stream, "z:0000", 50_000, 20) == b""
        assert len(found(stream, [f"z:0000{i}" for i in range(50_000)])) == 50_000
        assert stats(server)["evictions"] == before
