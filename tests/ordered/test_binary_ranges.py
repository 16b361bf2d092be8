"""RGET, RDELETE and RDELETEQ of the binary protocol by their documented rules (docs/protocol.md): beside a map with
random keys, all eight kinds of intervals, bounds of a reply, bad requests. The scan itself is that of `mr`, tested in
test_ordered.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
from collections.abc import Callable, Iterator

import pytest
from harness.binary import RANGE_OPCODES, Answer, BinaryStream, Packet, answers, range_request, request
from harness.server import Server
from harness.wire import UdpClient
from integration.conftest import stats
from ordered.conftest import KINDS, LIMIT_MAX, REPLY_BYTES_MAX

RGET, RDELETE, RDELETEQ = RANGE_OPCODES.values()
OK, TOO_LARGE, INVALID, UNKNOWN = 0x00, 0x03, 0x04, 0x81
FROM, TO = 1, 2  # flags: begin and end are of the range
END_BYTES_MAX = 247


@pytest.fixture
def stream(server: Server) -> Iterator[BinaryStream]:
    with BinaryStream(server.connect()) as stream:
        yield stream


def ask(begin: bytes, end: bytes, flags: int = FROM | TO, limit: int = 0, opcode: int = RGET, **more: object) -> Packet:
    return range_request(begin, end, flags, limit, opcode, **more)


def put(stream: BinaryStream, items: dict[bytes, bytes], flags: int = 0) -> None:
    sets = [request("setq", key, struct.pack(">II", flags, 0), value).pack() for key, value in items.items()]
    for first in range(0, len(sets), 500):
        assert stream.exchange(b"".join(sets[first : first + 500])).data == b""


def page(stream: BinaryStream, packet: Packet) -> tuple[list[tuple[bytes, bytes]], Answer]:
    """Items, and the last packet."""
    *items, last = stream.ask(packet)
    assert last.key == last.extras == b"" and last.cas == 0
    assert all(a.status == OK and a.key and a.opcode == packet.opcode and a.opaque == packet.opaque for a in items)
    return [(a.key, a.value) for a in items], last


def read_pages(
    stream: BinaryStream, begin: bytes, end: bytes, flags: int, limit: int = 0
) -> Iterator[list[tuple[bytes, bytes]]]:
    for _ in range(100_000):
        got, last = page(stream, ask(begin, end, flags, limit))
        yield got
        if not last.value:
            assert last.status == OK
            return
        assert last.status == (OK if limit and len(got) == limit else TOO_LARGE)
        begin, flags = last.value, flags & ~FROM
    raise AssertionError("no end")


def read_all(stream: BinaryStream, begin: bytes, end: bytes, flags: int, limit: int = 0) -> list[tuple[bytes, bytes]]:
    return [item for items in read_pages(stream, begin, end, flags, limit) for item in items]


def in_range(key: bytes, begin: bytes, end: bytes, flags: int) -> bool:
    above = not begin or key > begin or (key == begin and flags & FROM != 0)
    return above and (not end or key < end or (key == end and flags & TO != 0))


def test_each_interval(stream: BinaryStream) -> None:
    put(stream, {b"a": b"1", b"f": b"2", b"fa": b"3", b"m": b"4", b"x": b"5", b"xa": b"6", b"z": b"7"})
    for begin, end, flags, keys in (
        (b"", b"", 0, b"a f fa m x xa z"),
        (b"", b"", FROM | TO, b"a f fa m x xa z"),
        (b"", b"x", 0, b"a f fa m"),
        (b"", b"x", TO, b"a f fa m x"),
        (b"f", b"", 0, b"fa m x xa z"),
        (b"f", b"", FROM, b"f fa m x xa z"),
        (b"f", b"x", 0, b"fa m"),
        (b"f", b"x", TO, b"fa m x"),
        (b"f", b"x", FROM, b"f fa m"),
        (b"f", b"x", FROM | TO, b"f fa m x"),
        (b"x", b"f", FROM | TO, b""),
        (b"m", b"m", FROM | TO, b"m"),
        (b"m", b"m", FROM, b""),
        (b"m", b"m", TO, b""),
    ):
        items, last = page(stream, ask(begin, end, flags))
        assert [key for key, _ in items] == keys.split(), (begin, end, flags)
        assert (last.status, last.value) == (OK, b"")
    items, last = page(stream, ask(b"f", b"x", limit=2))
    assert items == [(b"f", b"2"), (b"fa", b"3")] and (last.status, last.value) == (OK, b"fa")
    items, last = page(stream, ask(b"f", b"x", limit=4))
    assert len(items) == 4 and (last.status, last.value) == (OK, b""), "nothing comes behind the limit"


def test_an_item_has_what_a_get_of_it_has(stream: BinaryStream) -> None:
    put(stream, {b"a": b"one", b"b": b""}, 0x01020304)
    answered = stream.ask(ask(b"a", b"b", opaque=0xA0B0C0D0))
    gets = [stream.ask(request("getk", key, opaque=0xA0B0C0D0))[0] for key in (b"a", b"b")]
    assert [(a.extras, a.key, a.value, a.opaque, a.cas) for a in answered[:2]] == [
        (a.extras, a.key, a.value, a.opaque, a.cas) for a in gets
    ]
    assert gets[0].cas != 0 and gets[0].extras == b"\1\2\3\4"
    assert answered[2] == Answer(RGET, OK, b"", b"", b"", 0xA0B0C0D0, 0)


def test_random_keys_beside_a_map(stream: BinaryStream) -> None:
    rng = random.Random(5)
    alphabet = b"\0\1ab\xfe\xff"

    def key() -> bytes:
        length = rng.choice((1, 2, 3, 4, 100, 247, 248, 250))
        return bytes(rng.choice(alphabet) for _ in range(min(length, 4))).ljust(length, rng.choice((b"a", b"\xff")))

    model = {key(): b"%d" % n for n in range(1500)}
    put(stream, model)
    for turn in range(150):
        begin, end = (rng.choice((b"", key())) for _ in range(2))
        end, flags = end[:END_BYTES_MAX], rng.randrange(4)
        wanted = sorted(item for item in model.items() if in_range(item[0], begin, end, flags))
        limit = rng.choice((0, 7, 100, 5000))
        assert read_all(stream, begin, end, flags, limit) == wanted, (begin, end, flags)
        if turn % 10 != 0 or not end:
            continue
        *removed, last = stream.ask(ask(begin, end, flags, 40, RDELETE))
        assert [a.key for a in removed] == [item[0] for item in wanted[:40]]
        assert all((a.status, a.extras, a.value, a.cas) == (OK, b"", b"", 0) for a in removed)
        assert (last.status, last.value) == (OK, removed[-1].key if len(wanted) > 40 else b"")
        for a in removed:
            del model[a.key]
    assert read_all(stream, b"", b"", 0) == sorted(model.items())


def test_a_reply_has_bounds(stream: BinaryStream) -> None:
    many = {b"c%05d" % n: b"v" for n in range(3 * LIMIT_MAX)}
    put(stream, many)
    items, last = page(stream, ask(b"c", b""))
    assert len(items) == LIMIT_MAX and (last.status, last.value) == (TOO_LARGE, items[-1][0])
    items, last = page(stream, ask(b"c", b"", limit=LIMIT_MAX))
    assert len(items) == LIMIT_MAX and (last.status, last.value) == (OK, items[-1][0])
    assert read_all(stream, b"c", b"", 0) == sorted(many.items())
    long = {b"l%02d" % n: os.urandom(100_000) for n in range(9)}  # sent from their items
    long[b"l99"] = os.urandom(500_000)
    put(stream, long)
    items, last = page(stream, ask(b"l", b""))
    assert len(items) == REPLY_BYTES_MAX // 100_000 and (last.status, last.value) == (TOO_LARGE, items[-1][0])
    assert read_all(stream, b"l", b"", 0) == sorted(long.items())
    assert page(stream, ask(b"l99", b""))[0] == [(b"l99", long[b"l99"])], "one may be larger"


def test_a_quiet_removal_tells_what_it_has_left(stream: BinaryStream, server: Server) -> None:
    put(stream, {b"d%05d" % n: b"v" for n in range(2000)} | {b"e": b"stays"})
    before = {name: int(value) for name, value in stats(server, b"tandem").items() if name.startswith("range_")}
    assert stream.ask(ask(b"d", b"d\xff", limit=300, opcode=RDELETEQ)) == []
    answered = stream.ask(ask(b"d", b"d\xff", opcode=RDELETEQ))
    assert [(a.status, a.key, a.value) for a in answered] == [(TOO_LARGE, b"", b"d%05d" % (300 + LIMIT_MAX - 1))]
    assert stream.ask(ask(b"d", b"d\xff", opcode=RDELETEQ)) == []
    assert list(read_pages(stream, b"", b"", 0)) == [[(b"e", b"stays")]]
    after = {name: int(value) for name, value in stats(server, b"tandem").items() if name.startswith("range_")}
    assert after["range_removed"] - before["range_removed"] == 2000
    assert after["range_removes"] - before["range_removes"] == 3
    assert after["range_reads"] - before["range_reads"] == 1
    assert after["range_items"] - before["range_items"] == 1


def test_requests_of_one_send_are_in_order(stream: BinaryStream) -> None:
    sent = [
        request("setq", b"p", struct.pack(">II", 0, 0), b"1"),
        ask(b"p", b"p"),
        request("setq", b"p", struct.pack(">II", 0, 0), b"22"),
        ask(b"p", b"p"),
        ask(b"p", b"p", opcode=RDELETE),
        ask(b"p", b"p"),
        ask(b"p", b"p", opcode=RDELETEQ),
        request("getkq", b"p"),
    ]
    data = stream.exchange(b"".join(packet.pack() for packet in sent)).data
    assert [(a.opcode, a.key, a.value) for a in answers(data)] == [
        (RGET, b"p", b"1"), (RGET, b"", b""), (RGET, b"p", b"22"), (RGET, b"", b""),
        (RDELETE, b"p", b""), (RDELETE, b"", b""), (RGET, b"", b""),
    ]  # fmt: skip


def test_expired_and_flushed_items_are_not_there(stream: BinaryStream) -> None:
    put(stream, {b"f1": b"old"})
    assert [a.status for a in stream.ask(request("flush"))] == [OK]
    put(stream, {b"f2": b"new"})
    time_of_1970 = struct.pack(">II", 0, 30 * 86400 + 1)
    assert stream.exchange(request("setq", b"f3", time_of_1970, b"x").pack()).data == b""
    assert read_all(stream, b"f", b"g", 0) == [(b"f2", b"new")]


def test_expired_items_do_not_count_towards_the_limit(stream: BinaryStream) -> None:
    put(stream, {b"g%03d" % n: b"v" for n in range(300)})
    for n in range(300):
        if n % 100 != 99:
            touch = request("touch", b"g%03d" % n, struct.pack(">I", 30 * 86400 + 1))
            assert [a.status for a in stream.ask(touch)] == [OK]
    for limit in (1, 2):
        got, last = page(stream, ask(b"g", b"h", limit=limit))
        assert (got, last.status) == ([(b"g099", b"v"), (b"g199", b"v")][:limit], OK)


@pytest.mark.parametrize("opcode", [RGET, RDELETE, RDELETEQ])
def test_bad_requests(server: Server, opcode: int) -> None:
    extras = ask(b"a", b"z", FROM | TO).extras
    with BinaryStream(server.connect()) as stream:
        put(stream, {b"k": b"v"})
        for bad in (b"\0\1\1\3" + extras[4:], b"\0\1\0\4" + extras[4:], b"\0\1\0\x83" + extras[4:]):
            assert [(a.status, a.value) for a in stream.ask(Packet(opcode, b"a", bad))] == [
                (INVALID, b"Invalid arguments")
            ]
        assert not stream.closed
        assert [a.value for a in stream.ask(request("get", b"k"))] == [b"v"]
    for bad in (
        Packet(opcode),
        Packet(opcode, b"a"),
        Packet(opcode, b"a", extras[:7]),
        Packet(opcode, b"a", extras[:8]),  # the end is missing
        Packet(opcode, b"a", extras + b"z"),
        Packet(opcode, b"a", b"\xff\xff" + extras[2:]),
        Packet(opcode, b"a", extras, b"value"),
        Packet(opcode, b"a" * 251, extras),
        Packet(opcode, b"a", extras, extras_bytes=10),
        Packet(opcode, b"a", extras, key_bytes=0),
    ):
        with BinaryStream(server.connect()) as stream:
            said = stream.exchange(bad.pack())
            assert said.closed, bad
            assert [(a.status, a.value) for a in answers(said.data)][:1] in (
                [(INVALID, b"Invalid arguments")], [(UNKNOWN, b"Unknown command")],
            ), bad  # fmt: skip
    with BinaryStream(server.connect()) as stream:  # any bytes of any length are keys
        read_all(stream, b"\0" * 250, b"\xff" * END_BYTES_MAX, FROM | TO)
        assert not stream.closed
    server.check_alive()


@pytest.mark.parametrize("opcode", [RGET, RDELETE, RDELETEQ])
def test_without_an_order_the_opcodes_are_unknown(tandem: Callable[..., Server], opcode: int) -> None:
    """As to memcached: the body is skipped, and the connection goes on."""
    server = tandem("-t", "1")
    with BinaryStream(server.connect()) as stream:
        for packet in (ask(b"a", b"z", opcode=opcode), Packet(opcode), Packet(opcode, b"a", b"four", b"body" * 1000)):
            assert [(a.status, a.value) for a in stream.ask(packet)] == [(UNKNOWN, b"Unknown command")]
        assert not stream.closed


@pytest.mark.parametrize("kind", KINDS)
def test_over_udp(kind: str, tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "1", *KINDS[kind])
    with BinaryStream(server.connect()) as stream:
        put(stream, {b"d%03d" % n: b"v" * 50 for n in range(300)})
        wanted = stream.exchange(ask(b"d", b"e").pack()).data
    with contextlib.closing(UdpClient(server.address())) as client:
        mine = client.send(ask(b"d", b"e").pack())
        payloads: dict[int, bytes] = {}
        while sum(map(len, payloads.values())) < len(wanted):
            datagram = client.receive(5)
            assert datagram is not None and datagram.request_id == mine
            payloads[datagram.sequence] = datagram.payload
    assert len(payloads) > 10 and b"".join(payloads[n] for n in sorted(payloads)) == wanted


def test_without_cas_ids(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "1", "-C", *KINDS["ordered"])
    with BinaryStream(server.connect()) as stream:
        put(stream, {b"a": b"1"})
        assert [a.cas for a in stream.ask(ask(b"", b""))] == [0, 0]
