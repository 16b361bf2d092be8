"""Clients that speak raw bytes: a stream (TCP or Unix socket) and UDP with memcached's 8-byte frame."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import select
import socket
import struct
import termios
import time
from dataclasses import dataclass

from harness.server import TIME_FACTOR

_nonces = itertools.count(0x10000000)
SENTINEL_KEY = b"sentinel_never_stored"
RECEIVE_BYTES = 1 << 18
SMALL_REQUEST = 16 << 10


class WireTimeout(AssertionError):
    """The server did not answer in time. `received` holds what came before."""

    def __init__(self, message: str, received: bytes) -> None:
        super().__init__(f"{message}; received {len(received)} bytes: {received[-200:]!r}")
        self.received = received


@dataclass(frozen=True)
class Reply:
    """What came back for one request, and whether the server closed the connection before the sentinel's answer."""

    data: bytes
    closed: bool


def sentinel() -> tuple[bytes, bytes]:
    """A request that always misses and its answer, different each time."""
    nonce = b"%x" % next(_nonces)
    return b"mg " + SENTINEL_KEY + b" O" + nonce + b"\r\n", b"EN O" + nonce + b"\r\n"


class Stream:
    """A connection over which requests are sent and whole answers read. Sends and receives at the same time, so a
    request and an answer of any size cannot block each other."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.setblocking(True)  # the kernel's own time-out costs no extra call
        self.closed = False
        self._kernel_timeout_s = 0.0
        self._unsent = b""
        self._answer = b""

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exchange(self, request: bytes, timeout_s: float = 60.0) -> Reply:
        """Sends a request of any number of commands and a sentinel; returns all that came before its answer."""
        self.begin(request)
        return self.end(timeout_s)

    def begin(self, request: bytes) -> None:
        """The first half of an exchange: sends at least what the socket's buffers hold."""
        ask, self._answer = sentinel()
        self._unsent = request + ask
        if len(self._unsent) <= SMALL_REQUEST:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # end() will find out
                self.socket.sendall(self._unsent)
            self._unsent = b""

    def end(self, timeout_s: float = 60.0) -> Reply:
        """The second half."""
        answer = self._answer
        data = self._transfer(self._unsent, timeout_s, answer) if self._unsent else self._receive(timeout_s, answer)
        if data.endswith(answer):
            return Reply(data[: -len(answer)], closed=False)
        self.closed = True
        return Reply(data, closed=True)

    def finish(self, request: bytes, timeout_s: float = 60.0) -> Reply:
        """Sends a request, then the end of the stream; returns all until the server ends its side."""
        data = self._transfer(request, timeout_s, None)
        self.closed = True
        return Reply(data, closed=True)

    def send(self, data: bytes, timeout_s: float = 60.0) -> None:
        """Sends without reading. Bytes that the server closed on are lost silently, as the reader will find out."""
        view = memoryview(data)
        deadline = time.monotonic() + timeout_s * TIME_FACTOR
        while view:
            _, writable, _ = select.select([], [self.socket], [], max(0.0, deadline - time.monotonic()))
            if not writable:
                raise WireTimeout(f"could not send {len(view)} of {len(data)} bytes in {timeout_s} s", b"")
            try:
                view = view[self.socket.send(view, socket.MSG_DONTWAIT) :]
            except (BrokenPipeError, ConnectionResetError):
                return

    def wait_taken(self, timeout_s: float = 60.0) -> None:
        """Waits until the peer has read all that was sent. Exact on a Unix socket; on TCP it means: acknowledged."""
        deadline = time.monotonic() + timeout_s * TIME_FACTOR
        while struct.unpack("i", fcntl.ioctl(self.socket, termios.TIOCOUTQ, b"\0\0\0\0"))[0]:
            if time.monotonic() > deadline:
                raise WireTimeout(f"the server did not read in {timeout_s} s", b"")
            time.sleep(0.00005)

    def _receive(self, timeout_s: float, until: bytes) -> bytes:
        timeout_s *= TIME_FACTOR
        if timeout_s != self._kernel_timeout_s:
            self._kernel_timeout_s = timeout_s
            limit = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        received = bytearray()
        try:
            while not received.endswith(until):
                data = self.socket.recv(RECEIVE_BYTES)
                if not data:
                    break
                received += data
        except BlockingIOError as error:
            raise WireTimeout(f"no answer to the sentinel in {timeout_s} s", bytes(received)) from error
        except ConnectionResetError:
            received += self._what_is_left()
        return bytes(received)

    def _what_is_left(self) -> bytes:
        """What the server had sent before it closed."""
        received = b""
        with contextlib.suppress(OSError):
            while data := self.socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT):
                received += data
        return received

    def _transfer(self, request: bytes, timeout_s: float, until: bytes | None) -> bytes:
        """Sends and receives at the same time, until an answer or (None) the end of the stream."""
        timeout_s *= TIME_FACTOR
        view = memoryview(request)
        received = bytearray()
        deadline = time.monotonic() + timeout_s
        half_closed = False
        while True:
            if not view and until is None and not half_closed:
                half_closed = True
                with contextlib.suppress(OSError):  # the server may have closed; what it sent is still to be read
                    self.socket.shutdown(socket.SHUT_WR)
            readable, writable, _ = select.select(
                [self.socket], [self.socket] if view else [], [], max(0.0, deadline - time.monotonic())
            )
            if not readable and not writable:
                waited_for = "its end of stream" if until is None else "the answer to the sentinel"
                raise WireTimeout(f"no {waited_for} in {timeout_s} s", bytes(received))
            if writable:
                try:
                    view = view[self.socket.send(view[:RECEIVE_BYTES], socket.MSG_DONTWAIT) :]
                except (BrokenPipeError, ConnectionResetError):
                    view = view[:0]
            if readable:
                try:
                    data = self.socket.recv(RECEIVE_BYTES)
                except ConnectionResetError:
                    data = b""
                if not data:
                    return bytes(received)
                received += data
                if until is not None and received.endswith(until):
                    return bytes(received)


@dataclass(frozen=True)
class Datagram:
    request_id: int
    sequence: int
    total: int
    reserved: int
    payload: bytes
    size: int

    @staticmethod
    def parse(data: bytes) -> Datagram:
        if len(data) < 8:
            raise AssertionError(f"a datagram of {len(data)} bytes has no whole frame header: {data!r}")
        return Datagram(*struct.unpack(">HHHH", data[:8]), payload=data[8:], size=len(data))


class UdpClient:
    """A UDP socket connected to a server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.socket(type=socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.connect(address)
        self.request_id = 0
        self._under_way = 0, 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> UdpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def next_id(self) -> int:
        self.request_id = (self.request_id + 257) & 0xFFFF  # both bytes change
        return self.request_id

    def send(self, payload: bytes, *, sequence: int = 0, total: int = 1, reserved: int = 0) -> int:
        """Sends one request datagram and returns its request id."""
        request_id = self.next_id()
        self.socket.send(struct.pack(">HHHH", request_id, sequence, total, reserved) + payload)
        return request_id

    def receive(self, timeout_s: float) -> Datagram | None:
        self.socket.settimeout(timeout_s)
        try:
            return Datagram.parse(self.socket.recv(65536))
        except TimeoutError:
            return None

    def exchange(self, payload: bytes, timeout_s: float = 5.0) -> list[Datagram]:
        """Sends a request, then `mn` under another id; returns the request's datagrams in order of arrival."""
        self.begin(payload)
        return self.end(timeout_s)

    def begin(self, payload: bytes) -> None:
        """The first half of an exchange."""
        self._under_way = self.send(payload), self.send(b"mn\r\n")

    def end(self, timeout_s: float = 5.0) -> list[Datagram]:
        """The second half."""
        mine, fence = self._under_way
        answers = []
        deadline = time.monotonic() + timeout_s * TIME_FACTOR
        while True:
            datagram = self.receive(max(0.001, deadline - time.monotonic()))
            if datagram is None:
                raise WireTimeout(f"no answer to mn in {timeout_s} s", b"".join(d.payload for d in answers))
            if datagram.request_id == fence:
                if datagram.payload != b"MN\r\n":
                    raise AssertionError(f"the answer to mn is {datagram}")
                return answers
            if datagram.request_id != mine:
                raise AssertionError(f"an answer with a foreign request id: {datagram}")
            answers.append(datagram)


def read_until(connection: socket.socket, end: bytes, patience_s: float) -> bytes:
    """What the server sends up to and with `end`. Fails if the server closes before it, or takes longer."""
    received = bytearray()
    deadline = time.monotonic() + patience_s
    while not received.endswith(end):
        assert time.monotonic() < deadline, f"no {end!r} in {bytes(received[-200:])!r}"
        data = connection.recv(1 << 16)
        assert data, f"closed after {bytes(received[-200:])!r}"
        received += data
    return bytes(received)
