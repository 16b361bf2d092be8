"""Input in amounts and shapes that no well-meaning client sends, and a user at a telnet."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable

import pytest
from harness.server import PATIENCE_S, Server
from harness.wire import Stream

from integration.conftest import LONG_LINES_BYTES, ask, stats


def test_telnet_user(server: Server) -> None:
    """Types a line, a key at a time, and reads what comes back before typing the next."""
    with server.connect() as connection:
        reader = connection.makefile("rb")

        def type_line(line: str) -> None:
            for character in line + "\r\n":
                connection.send(character.encode())
                time.sleep(0.001)

        def expect(*lines: str) -> None:
            assert [reader.readline().decode() for _ in lines] == [line + "\r\n" for line in lines]

        type_line("set greeting 0 0 5")
        type_line("hello")
        expect("STORED")
        type_line("get greeting")
        expect("VALUE greeting 0 5", "hello", "END")
        type_line("gte greeting")
        expect("ERROR")
        type_line("set greeting 0 0 5")
        type_line("hello, world")
        expect("CLIENT_ERROR bad data chunk", "ERROR")
        type_line("append greeting 0 0 1")
        type_line("!")
        expect("STORED")
        type_line("mg greeting v")
        expect("VA 6", "hello!")
        type_line("delete greeting")
        expect("DELETED")
        type_line("")
        expect("ERROR")
        type_line("quit")
        assert reader.read() == b""
        reader.close()


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_deep_pipeline_of_sets_and_gets(depth: int, server: Server) -> None:
    with Stream(server.connect()) as stream:
        sets = b"".join(b"set p%d 0 0 6\r\n%06d\r\n" % (n, n) for n in range(depth))
        assert stream.exchange(sets, timeout_s=60).data == b"STORED\r\n" * depth
        gets = b"".join(b"get p%d\r\n" % n for n in range(depth))
        expected = b"".join(b"VALUE p%d 0 6\r\n%06d\r\nEND\r\n" % (n, n) for n in range(depth))
        assert stream.exchange(gets, timeout_s=60).data == expected
        quiet = b"".join(b"ms p%d 1 q\r\n0\r\n" % n for n in range(depth))
        assert stream.exchange(quiet, timeout_s=60).data == b""
        assert stream.exchange(b"mg p%d v\r\n" % (depth - 1)).data == b"VA 1\r\n0\r\n"


@pytest.mark.parametrize("count", [5000, 50_000])
def test_get_of_many_keys(count: int, server: Server) -> None:
    with Stream(server.connect()) as stream:
        stream.exchange(b"".join(b"set many%d 0 0 3 noreply\r\n%03d\r\n" % (n, n % 1000) for n in range(0, count, 2)))
        request = b"get " + b" ".join(b"many%d" % n for n in range(count)) + b"\r\n"
        expected = b"".join(b"VALUE many%d 0 3\r\n%03d\r\n" % (n, n % 1000) for n in range(0, count, 2)) + b"END\r\n"
        assert stream.exchange(request, timeout_s=60).data == expected


def test_line_without_an_end(server: Server) -> None:
    """Closed before it takes much memory."""
    with Stream(server.connect()) as stream:
        stream.send(b"set " + b"k" * 100_000)
        assert stream.finish(b"").data == b""
    server.check_alive()


@pytest.mark.footprint
def test_endless_get_line_is_bounded(tandem: Callable[..., Server]) -> None:
    """memcached lets a get line grow without bound; what must hold is that other clients are served and memory is
    bounded by what was sent."""
    server = tandem()
    before = server.resident_bytes()
    with Stream(server.connect()) as stream:
        stream.send(b"get ")
        keys = b"absent " * 10_000
        for _ in range(100):
            stream.send(keys)
        assert ask(server, b"mn\r\n") == b"MN\r\n"
        assert server.resident_bytes() - before < LONG_LINES_BYTES
    assert ask(server, b"mn\r\n") == b"MN\r\n"


def test_too_large_value_is_answered_once_when_all_of_it_came(server: Server) -> None:
    """The whole value is read and dropped; the connection goes on with the next command."""
    with Stream(server.connect()) as stream:
        for length in (1 << 20, 5 << 20, 50 << 20):
            stream.send(b"set large 0 0 %d\r\n" % length)
            for _ in range(length >> 20):
                stream.send(b"l" * (1 << 20))
            assert stream.exchange(b"\r\nversion\r\n").data.startswith(
                b"SERVER_ERROR object too large for cache\r\nVERSION "
            )
        stream.send(b"set large 0 0 %d noreply\r\n" % (2 << 20) + b"l" * (2 << 20))
        assert stream.exchange(b"\r\nget large\r\n").data == b"END\r\n"


@pytest.mark.footprint
@pytest.mark.parametrize("length", [1 << 21, 1 << 30, 2147483645])
def test_announced_value_that_never_comes(length: int, server: Server) -> None:
    """Claims of large values take no memory and leave the item that was there."""
    before = server.resident_bytes()
    ask(server, b"set claimed 0 0 3\r\nold\r\n")
    streams = [Stream(server.connect()) for _ in range(20)]
    for stream in streams:
        stream.send(b"add claimed 0 0 %d\r\nbegin" % length)
    assert ask(server, b"get claimed\r\n") == b"VALUE claimed 0 3\r\nold\r\nEND\r\n"
    for stream in streams:
        stream.close()
    assert ask(server, b"get claimed\r\n") == b"VALUE claimed 0 3\r\nold\r\nEND\r\n"
    assert server.resident_bytes() - before < 8 << 20


def test_noise(server: Server) -> None:
    """Random bytes, on many connections, some cut off: no answer is asked for, only that the server goes on and that
    an item that none of them names stays."""
    chance = random.Random(112358)
    ask(server, b"set kept 0 0 4\r\nkept\r\n")
    for number in range(300):
        noise = chance.randbytes(chance.choice((1, 10, 300, 3000, 60_000)))
        if number % 7 == 0:
            noise = b"\x80" + noise[1:]  # the binary protocol
        with Stream(server.connect()) as stream:
            if number % 3:
                stream.finish(noise, timeout_s=60)
            else:
                stream.send(noise)
    assert ask(server, b"get kept\r\n") == b"VALUE kept 0 4\r\nkept\r\nEND\r\n"


def test_noise_in_binary_packets(server: Server) -> None:
    """Random opcodes and lengths behind the right magic, with bodies of random bytes."""
    chance = random.Random(141421)
    ask(server, b"set kept 0 0 4\r\nkept\r\n")
    for number in range(600):
        packets = b""
        for _ in range(chance.randint(1, 20)):
            opcode = chance.choice([o for o in range(0x26) if o not in (0x08, 0x18)])  # but for flushes
            key_bytes, extras_bytes = chance.choice((0, 1, 3, 250, 251)), chance.choice((0, 0, 4, 8, 20, 255))
            body_bytes = key_bytes + extras_bytes + chance.choice((0, 0, 5, 300, 20_000, 1 << 21))
            head = struct.pack(">BBHBBHIIQ", 0x80, opcode, key_bytes, extras_bytes, 0, 0, body_bytes, 0, 0)
            packets += head + b"\xfe" * min(body_bytes, 30_000)
        with Stream(server.connect()) as stream:
            if number % 3:
                stream.finish(packets, timeout_s=60)
            else:
                stream.send(packets)
    assert ask(server, b"get kept\r\n") == b"VALUE kept 0 4\r\nkept\r\nEND\r\n"


def test_unfinished_set_changes_nothing(server: Server) -> None:
    """A client that goes away in the middle of a value, politely or not."""
    ask(server, b"set whole 5 0 5\r\nwhole\r\n")
    before = int(stats(server)["curr_connections"])
    items = int(stats(server)["curr_items"])
    for number in range(200):
        connection = server.connect()
        connection.send(b"set whole 0 0 100000\r\n" + b"part" * (number * 100))
        if number % 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
        connection.close()
    assert ask(server, b"get whole\r\n") == b"VALUE whole 5 5\r\nwhole\r\nEND\r\n"
    deadline = time.monotonic() + PATIENCE_S
    while int(stats(server)["curr_connections"]) > before:
        assert time.monotonic() < deadline, "abandoned connections are still open"
        time.sleep(0.02)
    assert int(stats(server)["curr_items"]) <= items
