"""A server and its clients on two machines with a cable that loses, doubles and reorders packets, or is unplugged.

The kernel does that, between network namespaces (harness/link.py), to UDP and TCP. Where it cannot, test_storms.py has
datagrams that are lost. TANDEM_FAULTS (default 1) multiplies what is asked: `make soak-faults`.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import binary
from harness.link import Impossible, Link, Machine, Tap
from harness.server import PATIENCE_S, TIME_FACTOR, Server
from harness.wire import Datagram, Stream, UdpClient

from integration.conftest import UNSENT_BYTES

MULTIPLE = int(os.environ.get("TANDEM_FAULTS", "1"))
DATAGRAM_BYTES = 1392  # of an answer, behind the frame's header
SANITIZED = TIME_FACTOR > 1


@pytest.fixture
def link() -> Iterator[Callable[..., Link]]:
    with contextlib.ExitStack() as stack:

        def make(**harm: int) -> Link:
            try:
                return stack.enter_context(Link(**harm))
            except Impossible as impossible:
                pytest.skip(f"{impossible}; without root `unshare -Urn build/venv/bin/pytest` on this file may do")

        yield make


def serve(tandem: Callable[..., Server], machine: Machine, *options: str) -> Server:
    with machine.inside():
        return tandem("-t", "2", "-l", machine.address, *options)


def loopback(server: Server, machine: Machine) -> Stream:
    """A client beside the server: whatever happens to the cable, it must not notice."""
    with machine.inside():
        return Stream(server.connect())


def value_of(key: str, size: int) -> bytes:
    return random.Random(key).randbytes(size)


def setting(key: str, size: int) -> bytes:
    return b"set %s 3 0 %d\r\n%s\r\n" % (key.encode(), size, value_of(key, size))


def hit(key: str, size: int) -> bytes:
    return b"VALUE %s 3 %d\r\n%s\r\nEND\r\n" % (key.encode(), size, value_of(key, size))


class Questions:
    """Asked by datagrams until the answer to each has come whole."""

    def __init__(self, client: UdpClient, *taps: Tap) -> None:
        self.client, self.taps = client, taps
        self.wanted: dict[int, bytes] = {}  # by request id, in order of asking
        self.parts: dict[int, dict[int, bytes]] = {}

    def ask(self, questions: list[tuple[bytes, bytes]]) -> None:
        open_questions = questions
        while open_questions:
            asked = {}
            for question in open_questions:
                assert len(self.wanted) < 3000 * MULTIPLE, f"no whole answer to {len(open_questions)} questions"
                mine = self.client.send(question[0])
                self.wanted[mine], self.parts[mine] = question[1], {}
                asked[mine] = question
            while (datagram := self.client.receive(0.05 * TIME_FACTOR)) is not None:
                if self.takes(datagram):
                    asked.pop(datagram.request_id, None)
            open_questions = list(asked.values())
            for tap in self.taps:
                tap.read()

    def takes(self, datagram: Datagram) -> bool:
        """Whether its answer is whole now. Late ones of earlier requests come, too: it belongs to the one it names."""
        assert datagram.request_id in self.wanted, datagram
        answer, known = self.wanted[datagram.request_id], self.parts[datagram.request_id]
        assert datagram.total == -(-len(answer) // DATAGRAM_BYTES), datagram
        assert known.setdefault(datagram.sequence, datagram.payload) == datagram.payload
        if len(known) < datagram.total:
            return False
        assert b"".join(known[i] for i in range(datagram.total)) == answer
        return True


def came(numbers: list[int]) -> Counter[str]:
    """How many came again, and how many after one that was sent later."""
    found = Counter[str]()
    latest, seen = -1, set()
    for number in numbers:
        found["doubled"] += number in seen
        found["overtaken"] += number not in seen and number < latest
        latest = max(latest, number)
        seen.add(number)
    return found


def test_datagrams(tandem: Callable[..., Server], link: Callable[..., Link]) -> None:
    cable = link(lost=10, doubled=10, delayed=20)
    server = serve(tandem, cable.server)
    sizes = {f"k{i}": 1 + 613 * i for i in range(24)}  # up to 11 datagrams
    sizes_sent = {f"u{i}": 1 + 53 * i for i in range(24)}
    with contextlib.ExitStack() as stack:
        witness = stack.enter_context(loopback(server, cable.server))
        read = []
        for key, size in sizes.items():
            assert witness.exchange(setting(key, size)).data == b"STORED\r\n"
            cas = int(witness.exchange(b"mg %s c\r\n" % key.encode()).data.removeprefix(b"HD c"))
            get = binary.request("get", key.encode(), opaque=size)
            body = b"\0\0\0\3" + value_of(key, size)
            head = binary.HEADER.pack(binary.RESPONSE, get.opcode, 0, 4, 0, 0, len(body), size, cas)
            read += [(b"get %s\r\n" % key.encode(), hit(key, size)), (get.pack(), head + body)]
        # Read in this order, so that each answer's request is there.
        answers, requests = (stack.enter_context(Tap(machine)) for machine in (cable.client, cable.server))
        with cable.client.inside():
            client = stack.enter_context(UdpClient((cable.server.address, server.port)))
        questions = Questions(client, answers, requests)
        questions.ask([(setting(key, size), b"STORED\r\n") for key, size in sizes_sent.items()])
        questions.ask([(b"get %s\r\n" % key.encode(), hit(key, size)) for key, size in sizes_sent.items()])
        for _ in range(3 * MULTIPLE):
            questions.ask(read)
        for key, size in (sizes | sizes_sent).items():
            assert witness.exchange(b"get %s\r\n" % key.encode()).data == hit(key, size)

        order = {request_id: number for number, request_id in enumerate(questions.wanted)}
        to_server = came([order[datagram.request_id] for datagram in requests.datagrams])
        to_client = Counter[str]()
        times = Counter(datagram.request_id for datagram in requests.datagrams)
        for request_id in order:
            if times[request_id] == 1:  # else the server has answered twice
                to_client += came([each.sequence for each in answers.datagrams if each.request_id == request_id])
        came_back = len(answers.datagrams)
        print(
            f"{len(order)} asked, {len(times)} of them came {dict(to_server)}; {came_back} came back {dict(to_client)}"
        )
        print(cable)
        assert min(len(order) - len(times), to_server["doubled"], to_server["overtaken"]) > 5
        assert min(to_client["doubled"], to_client["overtaken"]) > 5
        assert cable.least_harm() > 5


def test_streams(tandem: Callable[..., Server], link: Callable[..., Link]) -> None:
    cable = link(lost=5, doubled=5, delayed=10)
    server = serve(tandem, cable.server)
    clients = 4

    def sizes(number: int) -> dict[str, int]:
        small = {f"c{number}k{i}": 1 + 37 * i for i in range(60)}
        return small | {f"c{number}large{i}": size for i, size in enumerate((20_000, 130_000, 1_000_000))}

    def use(number: int, connection: Stream) -> None:
        """Sets in one go, gets in one go, gets by turns."""
        mine = sizes(number)
        reply = connection.exchange(b"".join(setting(*item) for item in mine.items()), PATIENCE_S)
        assert reply.data == b"STORED\r\n" * len(mine)
        reply = connection.exchange(b"".join(b"get %s\r\n" % key.encode() for key in mine), PATIENCE_S)
        assert reply.data == b"".join(hit(*item) for item in mine.items())
        for key, size in mine.items():
            assert connection.exchange(b"get %s\r\n" % key.encode(), PATIENCE_S).data == hit(key, size)

    with contextlib.ExitStack() as stack:
        witness = stack.enter_context(loopback(server, cable.server))
        connections = []
        for _ in range(clients):
            with cable.client.inside():
                connections.append(stack.enter_context(Stream(server.connect(PATIENCE_S, cable.server.address))))
        with ThreadPoolExecutor(clients) as pool:
            for _ in range(MULTIPLE):
                list(pool.map(use, range(clients), connections))
        for number in range(clients):
            for key, size in sizes(number).items():
                assert witness.exchange(b"get %s\r\n" % key.encode()).data == hit(key, size)
    print(cable)
    assert cable.least_harm() > 20
    for machine in (cable.server, cable.client):
        counts = {name: machine.tcp(name) for name in ("RetransSegs", "TCPOFOQueue", "TCPSACKReorder")}
        print(machine.address, counts)
        assert min(counts.values()) > 5


def test_the_cable_is_unplugged(tandem: Callable[..., Server], link: Callable[..., Link]) -> None:
    cable = link()
    server = serve(tandem, cable.server)
    large = {f"l{i}": 1_000_000 for i in range(20)}
    all_hits = b"".join(hit(*item) for item in large.items())
    half = setting("half", 1_000_000)
    most_bytes = server.resident_bytes() + (64 << 20) + UNSENT_BYTES

    def connect() -> Stream:
        with cable.client.inside():
            return stack.enter_context(Stream(server.connect(PATIENCE_S, cable.server.address)))

    def amid_a_reply() -> Stream:
        """More is under way than sockets hold."""
        connection = connect()
        connection.send(b"".join(b"get %s\r\n" % key.encode() for key in large))
        assert connection.socket.recv(1000, socket.MSG_WAITALL) == all_hits[:1000]
        return connection

    def amid_a_request() -> Stream:
        connection = connect()
        assert connection.exchange(b"mn\r\n").data == b"MN\r\n"
        connection.send(half[:400_000])
        connection.wait_taken(PATIENCE_S)
        return connection

    def rest_of(connection: Stream) -> bytes:
        """What comes before the connection is reset, or all."""
        connection.socket.settimeout(PATIENCE_S)
        received = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while len(received) < len(all_hits) - 1000 and (data := connection.socket.recv(1 << 20)):
                received += data
        return bytes(received)

    with contextlib.ExitStack() as stack:
        witness = stack.enter_context(loopback(server, cable.server))
        for item in large.items():
            assert witness.exchange(setting(*item)).data == b"STORED\r\n"

        def others() -> int:
            """How many connections there are besides the witness's, which is served as ever."""
            reply = witness.exchange(setting("w", 50_000) + b"get w\r\nget half\r\n").data
            assert reply == b"STORED\r\n" + hit("w", 50_000) + b"END\r\n"
            assert SANITIZED or server.resident_bytes() < most_bytes
            reply = witness.exchange(b"stats\r\n").data
            return int(reply.split(b"curr_connections ")[1].split()[0]) - alone

        alone = 0
        alone = others()
        # For a moment: every client goes on where it was.
        quiet, reading, writing = connect(), amid_a_reply(), amid_a_request()
        assert quiet.exchange(b"mn\r\n").data == b"MN\r\n"
        cable.down()
        quiet.begin(b"get l0\r\n")
        assert others() == 3
        cable.up()
        assert quiet.end(PATIENCE_S).data == hit("l0", 1_000_000)
        assert rest_of(reading) == all_hits[1000:]
        writing.send(half[400_000:])
        assert writing.socket.recv(100) == b"STORED\r\n"
        assert writing.exchange(b"get half\r\ndelete half\r\n").data == hit("half", 1_000_000) + b"DELETED\r\n"
        for connection in (quiet, reading, writing):
            connection.close()

        # For longer than the server's kernel waits for an answer to what it sends again, or to the question whether a
        # quiet client is there. Only while the cable is out one question is enough: a busy machine may be that slow.
        cable.server.set(tcp_keepalive_time=1, tcp_keepalive_intvl=1)
        cut_off = [amid_a_reply() for _ in range(6)]
        writing = [amid_a_request() for _ in range(6)]
        quiet = connect()
        assert quiet.exchange(b"mn\r\n").data == b"MN\r\n"
        cable.down()
        cable.server.set(tcp_retries2=1, tcp_keepalive_probes=1)
        deadline = time.monotonic() + PATIENCE_S
        while others() != 0:
            assert time.monotonic() < deadline, "the server keeps connections to nobody"
            time.sleep(0.02)
        cable.server.set(tcp_retries2=15, tcp_keepalive_probes=9)
        cable.up()
        for connection in cut_off:
            connection.send(b"mn\r\n")  # on a connection unknown there
            received = rest_of(connection)
            assert all_hits[1000:].startswith(received) and len(received) < len(all_hits) - 1000
        for connection in [*writing, quiet]:
            assert connection.exchange(b"mn\r\n", PATIENCE_S).closed
        again = connect()
        for item in large.items():
            assert again.exchange(setting(*item), PATIENCE_S).data == b"STORED\r\n"
        again.send(b"".join(b"get %s\r\n" % key.encode() for key in large))
        assert again.socket.recv(1000, socket.MSG_WAITALL) + rest_of(again) == all_hits
