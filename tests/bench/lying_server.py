"""A small memcached that keeps what it is told, or in one way or another does not."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator

Lie = Callable[[bytes], bytes]  # from the right reply to a get or mg to the one that is sent


class Store:
    """`set`, `get`, `ms`, `mg` with the flags of the load generator; one reply per line."""

    def __init__(self, lie: Lie | None = None) -> None:
        self.items: dict[bytes, bytes] = {}
        self.lie = lie or (lambda reply: reply)

    def value(self, key: bytes, flags: list[bytes]) -> bytes:
        data = self.items.get(key)
        if data is None:
            return b"" if b"q" in flags else b"EN\r\n"
        name = b" k" + key if b"k" in flags else b""
        return b"VA %d%s\r\n%s\r\n" % (len(data), name, data)

    def answer(self, line: bytes, read_data: Callable[[int], bytes]) -> bytes:
        word, *rest = line.split()
        if word == b"get":
            found = [(key, self.items[key]) for key in rest if key in self.items]
            values = [b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(data), data) for key, data in found]
            return self.lie(b"".join(values) + b"END\r\n")
        if word == b"mg":
            return self.lie(self.value(rest[0], rest[1:]))
        if word == b"mn":
            return b"MN\r\n"
        if word not in (b"set", b"ms"):
            return b"ERROR\r\n"
        size = int(rest[-1])
        self.items[rest[0]] = read_data(size + 2)[:-2]
        return b"STORED\r\n" if word == b"set" else b"HD\r\n"


@contextlib.contextmanager
def serve_tcp(store: Store) -> Iterator[int]:
    """Serves on a free port of 127.0.0.1; yields the port."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                while line := self.rfile.readline():
                    reply = store.answer(line, self.rfile.read)
                    if reply == b"close":
                        return
                    self.wfile.write(reply)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

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

    def run() -> None:
        while not done.is_set():
            try:
                datagram, peer = udp.recvfrom(65536)
            except TimeoutError:
                continue
            (request_id,) = struct.unpack(">H", datagram[:2])
            line, _, data = datagram[8:].partition(b"\n")
            reply = store.answer(line, lambda size, data=data: data[:size])
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
