"""A small memcached that keeps what it is told, or in one way or another does not."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator

Lie = Callable[[bytes], bytes]  # from the right reply to a get, mg or mr to the one that is sent

HEADER = struct.Struct(">BBHBBHIIQ")  # binary: magic, opcode, key, extras, data type, status, body, opaque, cas
GET, SET, DELETE, NOOP, GETKQ, TOUCH = 0x00, 0x01, 0x04, 0x0A, 0x0D, 0x1C


class Store:
    """`get`, `set`, `delete`, `touch`, `mg`, `ms`, `md`, `mn` and their binary kin; `mr` with v and L."""

    def __init__(self, lie: Lie | None = None) -> None:
        self.items: dict[bytes, bytes] = {}
        self.ttl: dict[bytes, bytes] = {}  # as asked for, last
        self.lie = lie or (lambda reply: reply)
        self.requests: list[bytes] = []  # whole, in order, if `records`
        self.records = False

    def value(self, key: bytes, flags: list[bytes]) -> bytes:
        data = self.items.get(key)
        if data is None:
            return b"" if b"q" in flags else b"EN\r\n"
        for flag in flags:
            if flag[:1] == b"T":
                self.ttl[key] = flag[1:]
        if b"v" not in flags:
            return b"HD\r\n"
        name = b" k" + key if b"k" in flags else b""
        return b"VA %d%s\r\n%s\r\n" % (len(data), name, data)

    def range(self, first: bytes, limit: int) -> bytes:
        keys = sorted(key for key in list(self.items) if key >= first)
        found = [(key, self.items[key]) for key in keys[:limit]]
        items = b"".join(b"VA %d k%s\r\n%s\r\n" % (len(data), key, data) for key, data in found)
        more = b" m k" + found[-1][0] if len(keys) > limit else b""
        return items + b"EN n%d%s\r\n" % (len(found), more)

    def answer(self, line: bytes, read_data: Callable[[int], bytes]) -> bytes:
        if line[:1] == b"\x80":
            return self.answer_binary(line, read_data)
        word, *rest = line.split()
        request = line
        try:
            if word == b"get":
                found = [(key, self.items[key]) for key in rest if key in self.items]
                values = [b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(data), data) for key, data in found]
                return self.lie(b"".join(values) + b"END\r\n")
            if word == b"mg":
                return self.lie(self.value(rest[0], rest[1:]))
            if word == b"mr":
                return self.lie(self.range(rest[0], int(rest[2][1:])))
            if word == b"mn":
                return b"MN\r\n"
            if word in (b"delete", b"md"):
                was_there = self.items.pop(rest[0], None) is not None
                if word == b"md":
                    return b"HD\r\n" if was_there else b"NF\r\n"
                return b"DELETED\r\n" if was_there else b"NOT_FOUND\r\n"
            if word == b"touch":
                self.ttl[rest[0]] = rest[1]
                return b"TOUCHED\r\n" if rest[0] in self.items else b"NOT_FOUND\r\n"
            if word not in (b"set", b"ms"):
                return b"ERROR\r\n"
            data = read_data(int(rest[3] if word == b"set" else rest[1]) + 2)
            request += data
            self.items[rest[0]] = data[:-2]
            self.ttl[rest[0]] = rest[2] if word == b"set" else rest[2][1:] if len(rest) > 2 else b"0"
            return b"STORED\r\n" if word == b"set" else b"HD\r\n"
        finally:
            if self.records:
                self.requests.append(request)

    def answer_binary(self, start: bytes, read_data: Callable[[int], bytes]) -> bytes:
        """`start`: any beginning of a packet; `read_data` gets the rest."""
        head = start + read_data(HEADER.size - len(start))
        _, opcode, key_size, extras_size, _, _, body_size, opaque, _ = HEADER.unpack(head)
        body = read_data(body_size)
        if self.records:
            self.requests.append(head + body)
        extras, key = body[:extras_size], body[extras_size : extras_size + key_size]

        def packet(status: int = 0, extras: bytes = b"", key: bytes = b"", value: bytes = b"") -> bytes:
            size = len(extras) + len(key) + len(value)
            return HEADER.pack(0x81, opcode, len(key), len(extras), 0, status, size, opaque, 5) + extras + key + value

        if opcode in (GET, GETKQ):
            if key not in self.items:
                return b"" if opcode == GETKQ else self.lie(packet(1, value=b"Not found"))
            return self.lie(packet(0, bytes(4), key if opcode == GETKQ else b"", self.items[key]))
        if opcode == SET:
            self.items[key] = body[extras_size + key_size :]
            self.ttl[key] = str(struct.unpack(">I", extras[4:])[0]).encode()
            return packet()
        if opcode == TOUCH:
            self.ttl[key] = str(struct.unpack(">I", extras)[0]).encode()
            return packet(0, bytes(4)) if key in self.items else packet(1, value=b"Not found")
        if opcode == DELETE:
            return packet() if self.items.pop(key, None) is not None else packet(1, value=b"Not found")
        return packet() if opcode == NOOP else packet(0x81, value=b"Unknown command")


@contextlib.contextmanager
def serve_tcp(store: Store) -> Iterator[int]:
    """Serves on a free port of 127.0.0.1; yields the port."""

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def start_of_request(self) -> bytes:
            first = self.rfile.read(1)
            return first if first in (b"\x80", b"") else first + self.rfile.readline()

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                while line := self.start_of_request():
                    reply = store.answer(line, self.rfile.read)
                    if reply == b"close":
                        return
                    self.wfile.write(reply)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@contextlib.contextmanager
def serve_udp(store: Store, payload_bytes: int = 1400, backwards: bool = False) -> Iterator[int]:
    """Serves over UDP on a free port. Replies are cut into datagrams of `payload_bytes`, sent last one first if
    `backwards`; an empty reply is none."""
    udp = socket.socket(type=socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(0.01)
    done = threading.Event()

    def answer(request: bytes) -> bytes:
        """The replies to all commands of a datagram, joined."""
        at = 0

        def read(size: int) -> bytes:
            nonlocal at
            at += size
            return request[at - size : at]

        replies = b""
        while at < len(request):
            if request[at : at + 1] == b"\x80":
                replies += store.answer(read(1), read)
            else:
                replies += store.answer(read(request.index(b"\n", at) + 1 - at), read)
        return replies

    def run() -> None:
        while not done.is_set():
            try:
                datagram, peer = udp.recvfrom(65536)
            except TimeoutError:
                continue
            (request_id,) = struct.unpack(">H", datagram[:2])
            reply = answer(datagram[8:])
            parts = [reply[at : at + payload_bytes] for at in range(0, len(reply), payload_bytes)]
            frames = [struct.pack(">HHHH", request_id, i, len(parts), 0) + part for i, part in enumerate(parts)]
            for frame in reversed(frames) if backwards else frames:
                udp.sendto(frame, peer)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield udp.getsockname()[1]
    finally:
        done.set()
        thread.join()
        udp.close()


@contextlib.contextmanager
def serve_with_a_pause(after: int, pause_s: float, reply: bytes) -> Iterator[int]:
    """Answers each line with `reply` at once, but stands still for a time, once, after `after` lines. Yields the port.
    One connection; C-speed enough for some thousands of requests a second."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connection, _ = listener.accept()
        seen = 0
        paused = False
        with connection:
            while data := connection.recv(65536):
                seen += data.count(b"\n")
                if seen > after and not paused:
                    time.sleep(pause_s)
                    paused = True
                with contextlib.suppress(ConnectionError):
                    connection.sendall(reply * data.count(b"\n"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
