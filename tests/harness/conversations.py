"""Conversations with a server that runs out of memory now and then: each answer is right, or says that there was no
memory, or the connection ends. Anything else is an AssertionError, silence a TimeoutError."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from prometheus_client.parser import text_string_to_metric_families

from harness.binary import HEADER, Answer, Packet, answers, request
from harness.server import HOST, TIME_FACTOR
from harness.threads import at_once
from harness.wire import UdpClient, WireTimeout

ANSWER_S = 30.0
BINARY_NO_MEMORY = 0x82
# What a text client may be told in place of an answer.
REFUSALS = re.compile(rb"SERVER_ERROR |WATCHER_FAILED |ERROR failed to start lru crawler thread|Error ")
STAT_LINES = re.compile(rb"(STAT \S+ [^\r\n]*\r\n|PREFIX [^\r\n]*\r\n)*(END|RESET|OK)\r\n\Z")


class Ended(Exception):
    """The server closed the connection, or said that there was no memory: it is over, and that is fine."""


class Talk:
    """One connection: its answers are looked at as they come."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.settimeout(ANSWER_S * TIME_FACTOR)
        self._received = bytearray()  # and not yet looked at

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionError, ssl.SSLError) as error:
            raise Ended from error

    def _more(self) -> bytes:
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionError, ssl.SSLError) as error:
            raise Ended from error
        if not data:
            raise Ended
        return data

    def say(self, request_text: bytes, expected: bytes) -> None:
        """Sends, and asks for exactly that answer."""
        self.send(request_text)
        self.hear(expected)

    def hear(self, expected: bytes) -> None:
        got = self._received
        while not got.startswith(expected):
            if expected.startswith(got):
                got += self._more()
                continue
            same = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), len(expected))
            line = got.rfind(b"\n", 0, same) + 1
            if REFUSALS.match(got, line):
                raise Ended
            raise AssertionError(
                f"at byte {same} {bytes(got[line : line + 200])!r}, not {expected[line : line + 200]!r}"
            )
        del got[: len(expected)]

    def ask(self, request_text: bytes, shape: re.Pattern[bytes]) -> bytes:
        """Sends, and asks for an answer of this shape, which ends with its last line."""
        self.send(request_text)
        got = self._received
        while not shape.match(got):
            if REFUSALS.match(got, got.rfind(b"\n", 0, -1) + 1):
                raise Ended
            try:
                got += self._more()
            except TimeoutError as error:
                raise AssertionError(f"{request_text!r}: no whole answer in {bytes(got[-300:])!r}") from error
        self._received = bytearray()
        return bytes(got)

    def packet(self) -> Answer:
        got = self._received
        while len(got) < HEADER.size or len(got) < HEADER.size + HEADER.unpack_from(got)[6]:
            got += self._more()
        size = HEADER.size + HEADER.unpack_from(got)[6]
        (answer,) = answers(bytes(got[:size]))
        del got[:size]
        if answer.status == BINARY_NO_MEMORY:
            raise Ended
        return answer

    def packets(self, *wanted: tuple[Packet, int, bytes]) -> None:
        """Sends packets together, and asks for an answer to each: its status and value."""
        self.send(b"".join(packet.pack() for packet, _, _ in wanted))
        for packet, status, value in wanted:
            answer = self.packet()
            assert (answer.opcode, answer.status, answer.value) == (packet.opcode, status, value), (answer, packet)


@dataclass(frozen=True)
class Place:
    """Where a server is reached, and by what kind of connection."""

    connect: Callable[[], socket.socket]
    greet: Callable[[Talk], None] = lambda _: None

    @contextlib.contextmanager
    def talk(self) -> Iterator[Talk]:
        """A conversation that may end at any time (Ended)."""
        try:
            connection = self.connect()
        except (ConnectionError, ssl.SSLError) as error:
            raise Ended from error
        with Talk(connection) as talk:
            self.greet(talk)
            yield talk


Conversation = Callable[[Place], None]


def text(place: Place) -> None:
    with place.talk() as t:
        t.say(b"set a 5 0 3\r\nabc\r\n", b"STORED\r\n")
        t.say(b"append a 0 0 2\r\nxy\r\nget a\r\n", b"STORED\r\nVALUE a 5 5\r\nabcxy\r\nEND\r\n")
        t.say(b"set n 0 0 1\r\n1\r\nincr n 10\r\ndecr n 2\r\n", b"STORED\r\n11\r\n9\r\n")
        t.say(b"delete a\r\nget a\r\nadd a 0 0 1\r\n1\r\n", b"DELETED\r\nEND\r\nSTORED\r\n")
        t.say(b"ms m 3 T60\r\nabc\r\nmg m s v\r\nmd m\r\nmn\r\n", b"HD\r\nVA 3 s3\r\nabc\r\nHD\r\nMN\r\n")


def many_keys(place: Place) -> None:
    """A batch that is large enough for a device, and a line that has to be kept."""
    keys = [b"many%d" % i for i in range(300)]
    with place.talk() as t:
        t.say(b"".join(b"set %s 0 0 6\r\n%06d\r\n" % (k, i) for i, k in enumerate(keys)), b"STORED\r\n" * 300)
        values = b"".join(b"VALUE %s 0 6\r\n%06d\r\n" % (k, i) for i, k in enumerate(keys))
        t.say(b"get " + b" ".join(keys) + b"\r\n", values + b"END\r\n")
        t.send(b"get " + (b"q" * 200 + b" ") * 300)
        t.say(b" ".join(keys) + b"\r\n", values + b"END\r\n")
        t.say(b"".join(b"mg %s v\r\n" % k for k in keys), b"".join(b"VA 6\r\n%06d\r\n" % i for i in range(300)))


def large(place: Place) -> None:
    """Values that are received into the heap, pinned, and wait for a client that does not read yet."""
    value = bytes(range(256)) * 2000
    with place.talk() as t:
        t.send(b"set large 0 0 %d\r\n" % len(value) + value[:100_000])
        t.say(value[100_000:] + b"\r\n", b"STORED\r\n")
        t.send(b"get large\r\n" * 4 + b"mn\r\n")
        time.sleep(0.002)
        t.hear((b"VALUE large 0 %d\r\n" % len(value) + value + b"\r\nEND\r\n") * 4 + b"MN\r\n")
        t.send(b"set large 0 0 %d\r\n" % len(value) + value[: 1 << 18])  # and ends in the middle


def unread(place: Place) -> None:
    """Answers that the server has to hold."""
    with place.talk() as t:
        t.say(b"set some 0 0 9000\r\n" + b"s" * 9000 + b"\r\n", b"STORED\r\n")
        t.send(b"get some\r\n" * 100)
        time.sleep(0.002)
        t.hear((b"VALUE some 0 9000\r\n" + b"s" * 9000 + b"\r\nEND\r\n") * 100)


def statistics(place: Place) -> None:
    with place.talk() as t:
        t.say(b"set pre:a 0 0 1\r\n1\r\n", b"STORED\r\n")
        for group in (
            b"",
            b" items",
            b" slabs",
            b" sizes",
            b" conns",
            b" settings",
            b" tandem",
            b" latency",
            b" hotkeys",
        ):
            t.ask(b"stats" + group + b"\r\n", STAT_LINES)
        t.ask(b"stats bigkeys\r\n", STAT_LINES)
        t.ask(b"stats gpu\r\n", STAT_LINES)
        t.say(b"stats detail on\r\nget pre:a\r\n", b"OK\r\nVALUE pre:a 0 1\r\n1\r\nEND\r\n")
        t.ask(b"stats detail dump\r\n", STAT_LINES)
        t.say(b"stats detail off\r\n", b"OK\r\n")


def metadump(place: Place) -> None:
    lines = re.compile(
        rb"(key=\S+ exp=-?\d+ la=\d+ cas=\d+ fetch=(yes|no) cls=\d+ size=\d+\n)*END\r\n\Z|BUSY [^\n]*\n\Z"
    )
    with place.talk() as t:
        t.say(b"set dumped 0 0 1\r\n1\r\n", b"STORED\r\n")
        dump = t.ask(b"lru_crawler metadump all\r\n", lines)
        assert dump.startswith(b"BUSY") or b"key=dumped " in dump, dump
        t.ask(b"lru_crawler mgdump all\r\n", re.compile(rb"(mg \S+( b)?\r\n)*EN\r\n\Z|BUSY [^\n]*\n\Z"))
        t.ask(b"stats cachedump 1 0\r\n", re.compile(rb"(ITEM \S+ \[\d+ b; -?\d+ s\]\r\n)*END\r\n\Z"))


def watch(place: Place) -> None:
    """A watcher sees another connection's write."""
    with place.talk() as watcher:
        watcher.say(b"watch mutations evictions connevents\r\n", b"OK\r\n")
        with place.talk() as t:
            t.say(b"set watched 0 0 1\r\n1\r\n", b"STORED\r\n")
            watcher.ask(b"", re.compile(rb"(?s).*type=item_store key=watched [^\n]*\n"))


def crawler(place: Place) -> None:
    with place.talk() as t:
        t.ask(b"lru_crawler disable\r\n", re.compile(rb"(OK|ERROR[^\n]*)\r\n\Z"))
        t.ask(b"lru_crawler enable\r\n", re.compile(rb"(OK|ERROR[^\n]*)\r\n\Z"))
        t.ask(b"lru_crawler crawl all\r\n", re.compile(rb"(OK|BUSY[^\n]*|CLIENT_ERROR lru crawler disabled)\r\n\Z"))


def binary(place: Place) -> None:
    extras = b"\0" * 8
    with place.talk() as t:
        t.packets(
            (request("set", b"ba", extras, b"abc"), 0, b""),
            (request("get", b"ba"), 0, b"abc"),
            (request("append", b"ba", b"", b"xy"), 0, b""),
            (request("getk", b"ba"), 0, b"abcxy"),
            (request("delete", b"ba"), 0, b""),
            (request("get", b"ba"), 1, b"Not found"),
        )
        t.packets((request("set", b"bl", extras, b"l" * 300_000), 0, b""), (request("get", b"bl"), 0, b"l" * 300_000))
        t.send(b"".join(request("setq", b"q%d" % i, extras, b"%d" % i).pack() for i in range(200)))
        t.packets((request("noop"), 0, b""), *((request("get", b"q%d" % i), 0, b"%d" % i) for i in range(200)))
        t.send(request("stat").pack())
        while t.packet().key:
            pass


def authenticate_text(t: Talk) -> None:
    t.say(b"set auth 0 0 9\r\nuser pass\r\n", b"STORED\r\n")


def authenticate_binary(t: Talk) -> None:
    t.packets((request("sasl_auth", b"PLAIN", b"", b"\0user\0pass"), 0, b"Authenticated"))


def wrong_passwords(place: Place) -> None:
    """No client gets in."""
    with Place(place.connect).talk() as t:
        for _ in range(3):
            t.say(b"set auth 0 0 9\r\nuser nono\r\n", b"CLIENT_ERROR authentication failure\r\n")
            t.say(b"get a\r\n", b"CLIENT_ERROR unauthenticated\r\n")
    with Place(place.connect).talk() as t:
        t.packets((request("sasl_list"), 0, b"PLAIN"), (request("get", b"a"), 0x20, b"Auth failure."))
    with Place(place.connect).talk() as t:
        t.packets((request("sasl_auth", b"PLAIN", b"", b"\0user\0nono"), 0x20, b"Auth failure."))


def refresh_certs(place: Place) -> None:
    with place.talk() as t:
        t.say(b"refresh_certs\r\n", b"OK\r\n")
    with place.talk() as t:
        t.say(b"mn\r\n", b"MN\r\n")


def udp(address: tuple[str, int]) -> None:
    """Datagrams may be lost, so what is not answered is asked again."""

    def ask(client: UdpClient, question: bytes) -> bytes:
        for attempt in range(20):
            with contextlib.suppress(WireTimeout):
                if told := client.exchange(question, 0.1 * (attempt + 1)):
                    return b"".join(d.payload for d in told[: told[0].total])
        raise AssertionError(f"no answer to {question!r}")

    with UdpClient(address) as client:
        value = b"u" * 1000
        for question, expected in (
            (b"set u 0 0 1000\r\n" + value + b"\r\n", b"STORED\r\n"),
            (b"get u u u u u\r\n", (b"VALUE u 0 1000\r\n" + value + b"\r\n") * 5 + b"END\r\n"),
            (b"get " + b"none " * 120 + b"u\r\n", b"VALUE u 0 1000\r\n" + value + b"\r\nEND\r\n"),
            (b"mn\r\n" * 200, b"MN\r\n"),  # each has an answer of its own
        ):
            got = ask(client, question)
            assert got == expected or REFUSALS.match(got), (question[:50], got[:200])


def http_get(port: int, path: str) -> None:
    """A whole page, or none."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S * TIME_FACTOR)
    with contextlib.closing(connection), contextlib.suppress(http.client.HTTPException, ConnectionError):
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read().decode()
        if reply.status in (500, 503):
            return
        assert reply.status == 200, (path, reply.status, body)
        if path == "/metrics":
            assert "tandem_items" in {f.name for f in text_string_to_metric_families(body)} or "tandem" in body, body
        elif path.startswith("/api"):
            assert json.loads(body)
        else:
            assert body.endswith("</html>\n"), body[-100:]


def side_by_side(conversations: list[Callable[[], None]]) -> None:
    """One that ended has not gone wrong."""

    def run(one: Callable[[], None]) -> None:
        with contextlib.suppress(Ended):
            one()

    at_once(*(partial(run, one) for one in conversations))
