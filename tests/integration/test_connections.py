"""Limits on connections, idle and abandoned ones, and fairness between them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.server import PATIENCE_S, Server
from harness.wire import Stream

from integration.conftest import ask, stats

REFUSAL = b"ERROR Too many open connections\r\n"


def greet(connection: socket.socket) -> bytes:
    """What a connection answers to mn, or what it was refused with."""
    received = b""
    try:
        connection.sendall(b"mn\r\n")
        while not received.endswith(b"\r\n"):
            data = connection.recv(1000)
            if not data:
                break
            received += data
    except ConnectionError:
        with contextlib.suppress(OSError):
            received += connection.recv(1000)
    return received


def test_connection_limit(tandem: Callable[..., Server]) -> None:
    """Past -c a connection is told so and closed; the rest go on, and a place that comes free is given again."""
    server = tandem("-c", "40", "-t", "2")
    connections = [server.connect() for _ in range(100)]
    answers = [greet(connection) for connection in connections]
    accepted = [c for c, answer in zip(connections, answers, strict=True) if answer == b"MN\r\n"]
    refused = [answer for answer in answers if answer != b"MN\r\n"]
    assert 10 <= len(accepted) <= 40
    # A refused client that has sent something may find a reset in place of the message.
    assert set(refused) <= {REFUSAL, b""} and refused.count(REFUSAL) > len(refused) // 2, set(refused)
    for connection in accepted:
        assert greet(connection) == b"MN\r\n"
    for connection in accepted[:5]:
        connection.close()
    taken = 0
    deadline = time.monotonic() + PATIENCE_S
    while taken < 5:
        assert time.monotonic() < deadline, f"{taken} of 5 places that came free were given again"
        connection = server.connect()
        connections.append(connection)
        taken += greet(connection) == b"MN\r\n"
    for connection in connections:
        connection.close()
    deadline = time.monotonic() + PATIENCE_S
    while greet_anew(server) != b"MN\r\n":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    values = stats(server)
    assert values["max_connections"] == "40"
    assert int(values["rejected_connections"]) >= len(refused)


def greet_anew(server: Server) -> bytes:
    with server.connect() as connection:
        return greet(connection)


def test_refusal_is_sent_at_once(tandem: Callable[..., Server]) -> None:
    """To a client that only listens."""
    server = tandem("-c", "40")
    connections = [server.connect() for _ in range(100)]
    connections[-1].settimeout(PATIENCE_S)
    received = b""
    while data := connections[-1].recv(100):
        received += data
    assert received == REFUSAL
    for connection in connections:
        connection.close()


@pytest.mark.slow
def test_idle_timeout(tandem: Callable[..., Server]) -> None:
    idle_s = 4
    server = tandem("-o", f"idle_timeout={idle_s}")
    with server.connect() as idle, server.connect() as silent, Stream(server.connect()) as busy:
        start = asked = time.monotonic()
        assert greet(idle) == b"MN\r\n"
        was_busy = True  # unless this test had no processor for so long
        idle.settimeout(0.01)
        silent.settimeout(0.01)
        open_ones = {idle, silent}
        while open_ones:
            assert time.monotonic() < start + PATIENCE_S, f"{len(open_ones)} idle connections are still open"
            closed = busy.closed or busy.exchange(b"mn\r\n").closed
            before, asked = asked, time.monotonic()
            was_busy = was_busy and asked - before < idle_s - 1
            assert not (was_busy and closed), "a busy connection was closed"
            time.sleep(0.1)
            for connection in list(open_ones):
                with contextlib.suppress(TimeoutError):
                    assert connection.recv(100) == b""
                    open_ones.remove(connection)
        assert time.monotonic() - start > idle_s - 0.2, "closed before the time"
    assert int(stats(server)["idle_kicks"]) >= 2


def test_no_idle_timeout_by_default(server: Server) -> None:
    assert stats(server, b"settings")["idle_timeout"] == "0"


def test_half_open_connection_gets_its_answers(server: Server) -> None:
    """A client that closes its sending side still gets the answers to all it sent, then the end of the stream."""
    ask(server, b"set half 0 0 100000\r\n" + b"h" * 100_000 + b"\r\n")
    with Stream(server.connect()) as stream:
        reply = stream.finish(b"get half\r\n" * 50 + b"version\r\n")
        assert reply.data.count(b"VALUE half 0 100000\r\n") == 50
        assert b"VERSION" in reply.data[-40:]


def test_abandoned_connections_are_freed(server: Server) -> None:
    """Clients that vanish at every stage of a command, with and without a reset."""
    before = int(stats(server)["curr_connections"])
    for number in range(300):
        connection = server.connect()
        connection.sendall((b"", b"get", b"get a", b"set a 0 0 9\r\nab", b"get a\r\n" * 100, b"mg")[number % 6])
        if number % 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    deadline = time.monotonic() + PATIENCE_S
    while int(stats(server)["curr_connections"]) > before:
        assert time.monotonic() < deadline, "abandoned connections are still counted"
        time.sleep(0.02)


def test_a_thousand_connections(tandem: Callable[..., Server]) -> None:
    server = tandem("-c", "2000", "-t", "2")
    streams = [Stream(server.connect()) for _ in range(1000)]
    for number, stream in enumerate(streams):
        stream.exchange(b"set c%d 0 0 4\r\n%04d\r\n" % (number, number))
    for number, stream in enumerate(streams):
        other = (number * 7 + 1) % 1000
        assert stream.exchange(b"get c%d\r\n" % other).data == b"VALUE c%d 0 4\r\n%04d\r\nEND\r\n" % (other, other)
    for stream in streams:
        stream.close()


class Flood:
    """A client that pipelines as fast as the server reads, and drains the replies."""

    def __init__(self, server: Server, request: bytes) -> None:
        self.connection = server.connect()
        self.connection.settimeout(None)
        self.request = request
        self.replied_bytes = 0
        self.stopping = False
        self.threads = [threading.Thread(target=self._send), threading.Thread(target=self._drain)]
        for thread in self.threads:
            thread.start()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            while not self.stopping:
                self.connection.sendall(self.request)

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.connection.recv(1 << 20):
                self.replied_bytes += len(data)

    def stop(self) -> None:
        self.stopping = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.connection.close()


@pytest.mark.parametrize("kind", ["gets", "sets", "multigets", "errors", "large values"])
def test_flood_does_not_starve_a_quiet_connection(kind: str, tandem: Callable[..., Server]) -> None:
    """With one worker thread. The quiet connection completes its round trips while the flood goes on: what is asked is
    that it gets its turns, not how soon."""
    server = tandem("-t", "1")
    ask(server, b"set flood 0 0 100\r\n" + b"f" * 100 + b"\r\nset quiet 0 0 5\r\nquiet\r\n")
    ask(server, b"set large 0 0 500000\r\n" + b"l" * 500_000 + b"\r\n")
    request = {
        "gets": b"get flood\r\n" * 20_000,
        "sets": b"set flood 0 0 100\r\n%s\r\n" % (b"s" * 100) * 5000,
        "multigets": (b"get " + b"flood " * 1000 + b"\r\n") * 20,
        "errors": b"bogus\r\n" * 50_000,
        "large values": b"get large\r\n" * 20_000,
    }[kind]
    floods = [Flood(server, request) for _ in range(2)]
    try:
        deadline = time.monotonic() + PATIENCE_S
        while min(flood.replied_bytes for flood in floods) < 1 << 20:
            assert time.monotonic() < deadline, "the flood itself does not flow"
            time.sleep(0.01)
        with Stream(server.connect()) as quiet:
            replied = [flood.replied_bytes for flood in floods]
            turns = 0
            # The flood's own threads may have no turn in the time of the first fifty.
            while turns < 50 or [flood.replied_bytes for flood in floods] == replied:
                assert time.monotonic() < deadline, "the flood had ended"
                assert quiet.exchange(b"get quiet\r\n", 20).data == b"VALUE quiet 0 5\r\nquiet\r\nEND\r\n"
                turns += 1
            for flood in floods:
                assert all(thread.is_alive() for thread in flood.threads), "the flood was closed"
    finally:
        for flood in floods:
            flood.stop()
    assert ask(server, b"get quiet\r\n") == b"VALUE quiet 0 5\r\nquiet\r\nEND\r\n"


def test_connections_are_spread_over_threads(tandem: Callable[..., Server]) -> None:
    """Sixteen floods on four workers keep more than one of them busy: seen from the threads' processor times."""
    server = tandem("-t", "4")
    ask(server, b"set flood 0 0 10\r\n0123456789\r\n")
    floods = [Flood(server, b"get flood\r\n" * 20_000) for _ in range(16)]
    try:
        deadline = time.monotonic() + PATIENCE_S
        while busy_threads(server) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        for flood in floods:
            flood.stop()


def busy_threads(server: Server) -> int:
    """Threads of the server that have run for 50 ms or more."""
    ticks = [
        sum(map(int, (task / "stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        for task in Path(f"/proc/{server.pid}/task").iterdir()
    ]
    return sum(used >= 5 for used in ticks)
