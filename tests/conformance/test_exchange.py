"""Writes that return the old item, which memcached has not: G of ms and md, EXCHANGE and TAKE (docs/protocol.md). The
same conversations in one piece, cut at every byte, over a Unix socket and over UDP; and memcached refuses all of them
without changing anything, so that a client may ask."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import start_memcached, start_tandem
from harness.binary import EXCHANGE_OPCODES, Answer, BinaryStream, Packet, answers, request
from harness.server import Server
from harness.wire import Stream, UdpClient

INVALID = b"CLIENT_ERROR invalid flag\r\n"
LARGE = b"v" * 40_000
META: list[tuple[bytes, bytes]] = [
    (b"ms k 2 G F7\r\nab\r\n", b"HD\r\n"),
    (b"ms k 1 G\r\nx\r\n", b"VA 2 G7\r\nab\r\n"),
    (b"ms k 3 k G Oq1 F9 T100\r\nxyz\r\n", b"VA 1 kk G0 Oq1\r\nx\r\n"),
    (b"mg k t f v\r\n", b"VA 3 t100 f9\r\nxyz\r\n"),
    (b"ms k 1 G MR q\r\ny\r\n", b"VA 3 G9\r\nxyz\r\n"),
    (b"ms k 1 G MS q\r\n2\r\n", b"VA 1 G0\r\ny\r\n"),
    (b"md k q G\r\n", b"VA 1 G0\r\n2\r\n"),
    (b"md k G k\r\n", b"NF kk\r\n"),
    (b"ms k 1 q G\r\n1\r\n", b""),
    (b"ms new 1 G MR\r\n1\r\n", b"NS\r\n"),
    (b"ms k 1 G ME\r\nx\r\n", INVALID),
    (b"ms k 1 MA G\r\nx\r\n", INVALID),
    (b"ms k 1 MP G\r\nx\r\n", INVALID),
    (b"ms k 1 I G\r\nx\r\n", INVALID),
    (b"md k G I\r\n", INVALID),
    (b"mg k G\r\n", INVALID),
    (b"ma k G\r\n", b"CLIENT_ERROR invalid or duplicate flag\r\n"),
    (b"ms k 1 G C1\r\nx\r\n", b"EX\r\n"),
    (b"md k G C1\r\n", b"EX\r\n"),
    (b"get k\r\n", b"VALUE k 0 1\r\n1\r\nEND\r\n"),
    (b"md k I\r\n", b"HD\r\n"),
    (b"ms k 1 G\r\n3\r\n", b"VA 1 G0 X\r\n1\r\n"),
    (b"ms k 1 T-1\r\n4\r\n", b"HD\r\n"),
    (b"md k G\r\n", b"NF\r\n"),
    (b"ms a2s= 2 b G\r\nhi\r\n", b"HD\r\n"),
    (b"md a2s= b k G\r\n", b"VA 2 ka2s= b G0\r\nhi\r\n"),
    (b"set k 5 0 1\r\n5\r\n", b"STORED\r\n"),
    (b"ms k 0 G\r\n\r\n", b"VA 1 G5\r\n5\r\n"),
    (b"append k 0 0 1\r\n6\r\n", b"STORED\r\n"),
    (b"incr k 1\r\n", b"7\r\n"),
    (b"md k G\r\n", b"VA 1 G0\r\n7\r\n"),
]
FLAGS = struct.pack(">I", 7)
NO_ITEM = (1, b"", b"Not found")


def exchange(key: bytes, value: bytes, quiet: bool = False, **more: object) -> Packet:
    return Packet(EXCHANGE_OPCODES["exchangeq" if quiet else "exchange"], key, FLAGS + bytes(4), value, **more)


def take(key: bytes, quiet: bool = False, **more: object) -> Packet:
    return Packet(EXCHANGE_OPCODES["takeq" if quiet else "take"], key, **more)


# Each with status, extras and value of its answer; None: there is none.
BINARY: list[tuple[Packet, tuple[int, bytes, bytes] | None]] = [
    (exchange(b"k", b"one"), (0, b"", b"")),
    (exchange(b"k", b"two", quiet=True), (0, FLAGS, b"one")),
    (exchange(b"k", b"x", cas=1), (2, b"", b"Data exists for key.")),
    (take(b"k", cas=1), (2, b"", b"Data exists for key.")),
    (exchange(b"k", b""), (0, FLAGS, b"two")),
    (take(b"k"), (0, FLAGS, b"")),
    (take(b"k"), NO_ITEM),
    (take(b"k", quiet=True), None),
    (exchange(b"k", LARGE, quiet=True), None),
    (exchange(b"k", b"short"), (0, FLAGS, LARGE)),
    (exchange(b"new", b"x", cas=1), NO_ITEM),
    (take(b"k", quiet=True), (0, FLAGS, b"short")),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = start_tandem("-t", "2")
    yield server
    server.close()


@pytest.mark.beyond_memcached("it has no such flag")
def test_meta(server: Server) -> None:
    with Stream(server.connect()) as stream:
        for asked, answer in META:
            assert stream.exchange(asked).data == answer, asked
        whole, expected = b"".join(asked for asked, _ in META), b"".join(answer for _, answer in META)
        assert stream.exchange(whole * 20).data == expected * 20


@pytest.mark.beyond_memcached("it has no such flag")
def test_meta_cut_at_every_byte(tmp_path: Path) -> None:
    """On a Unix socket the kernel says when the server has read what was sent, so each piece is a read of its own."""
    whole, expected = b"".join(asked for asked, _ in META), b"".join(answer for _, answer in META)
    server = start_tandem("-t", "1", unix_path=tmp_path / "socket")
    try:
        with Stream(server.connect()) as stream:
            for cut in range(1, len(whole)):
                stream.send(whole[:cut])
                stream.wait_taken()
                stream.begin(whole[cut:])
                assert stream.end().data == expected, cut
    finally:
        server.close()


@pytest.mark.beyond_memcached("it has no such flag")
def test_meta_over_udp(server: Server) -> None:
    with UdpClient(server.address()) as client:
        for asked, answer in META:
            assert b"".join(datagram.payload for datagram in client.exchange(asked)) == answer, asked


def answer_of(said: list[Answer]) -> tuple[int, bytes, bytes] | None:
    assert len(said) < 2 and all(a.key == b"" for a in said)
    return (said[0].status, said[0].extras, said[0].value) if said else None


@pytest.mark.beyond_memcached("it has no such opcodes")
def test_binary(server: Server) -> None:
    with BinaryStream(server.connect()) as stream:
        for packet, answer in BINARY:
            assert answer_of(stream.ask(packet)) == answer, packet
        # In one send and cut, with sets and gets around them, of which the server takes many at a time.
        plain, get = request("setq", b"k", bytes(8), b"0").pack(), request("get", b"k").pack()
        exchanges = plain * 3 + exchange(b"k", b"1").pack() + get + plain + take(b"k").pack() + get * 2
        wanted = [b"0", b"1", b"0", b"Not found", b"Not found"]
        assert [a.value for a in answers(stream.exchange(exchanges).data)] == wanted
        for cut in range(1, len(exchanges)):
            stream.send(exchanges[:cut])
            assert [a.value for a in answers(stream.exchange(exchanges[cut:]).data)] == wanted, cut
    with BinaryStream(server.connect()) as stream:
        stored = stream.ask(exchange(b"ids", b"1"))[0].cas
        second = stream.ask(exchange(b"ids", b"2", cas=stored))[0]
        assert second.value == b"1" and second.cas > stored
        assert stream.ask(request("get", b"ids"))[0].cas == second.cas
        assert stream.ask(take(b"ids", cas=second.cas))[0].cas == second.cas


@pytest.mark.beyond_memcached("it has no such opcodes")
@pytest.mark.parametrize(
    "bad",
    [
        Packet(0x70, b"k"),
        Packet(0x70, b"k", bytes(4), b"v"),
        Packet(0x72, b"", bytes(8), b"v"),
        Packet(0x71, b"k", bytes(4)),
        Packet(0x73, b"k", b"", b"v"),
    ],
)
def test_bad_packets_change_nothing(server: Server, bad: Packet) -> None:
    with BinaryStream(server.connect()) as stream:
        stream.ask(request("set", b"k", bytes(8), b"kept"))
        said = stream.exchange(bad.pack())
        assert said.closed and said.data[6:8] == b"\0\4", said
    with BinaryStream(server.connect()) as stream:
        assert stream.ask(request("get", b"k"))[0].value == b"kept"


def test_memcached_refuses_them_and_changes_nothing() -> None:
    memcached = start_memcached("-t", "1")
    try:
        with Stream(memcached.connect()) as stream:
            stream.exchange(b"set k 0 0 4\r\nkept\r\n")
            assert stream.exchange(b"ms k 1 G\r\nx\r\n").data == INVALID
            assert stream.exchange(b"md k G\r\n").data == b"CLIENT_ERROR invalid or duplicate flag\r\n"
            assert stream.exchange(b"get k\r\n").data == b"VALUE k 0 4\r\nkept\r\nEND\r\n"
        with BinaryStream(memcached.connect()) as stream:
            for opcode in EXCHANGE_OPCODES.values():
                assert [a.status for a in stream.ask(Packet(opcode))] == [0x81]
    finally:
        memcached.discard()


@pytest.mark.beyond_memcached("it has no such flag")
def test_watchers_are_told_of_a_set_of_the_new_size_and_a_delete_of_the_old(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "1")
    with server.connect() as watcher, Stream(server.connect()) as stream:
        watcher.settimeout(20)
        watcher.sendall(b"watch mutations deletions\r\n")
        assert watcher.recv(100) == b"OK\r\n"
        stream.exchange(b"ms k 3 G\r\nabc\r\nms k 500 G\r\n" + b"x" * 500 + b"\r\nmd k G\r\n")
        told = b""
        while told.count(b"\n") < 3:
            told += watcher.recv(1 << 16)
    sizes = [int(line.split(b"size=")[1]) for line in told.splitlines()]
    assert sizes == [3, 500, 500], told
    assert [b"type=item_store" in line for line in told.splitlines()] == [True, True, False], told
    assert [b"status=stored" in line for line in told.splitlines()] == [True, True, False], told
