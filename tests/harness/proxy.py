"""A TCP proxy in front of a server that may lie: the proof that a comparison sees what it must see."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from harness.server import HOST, Server


class Proxy:
    """Passes bytes between its clients and a server. Each piece of a reply goes through `lie`; None from it ends the
    connection. Thread safety: one thread for each direction of each connection; `lie` may be called from several."""

    def __init__(self, server: Server, lie: Callable[[bytes], bytes | None]) -> None:
        self._server = server
        self._lie = lie
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self._listener.getsockname(), timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def close(self) -> None:
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._sockets:
            connection.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = self._server.connect()
            upstream.settimeout(None)
            for connection in (client, upstream):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, upstream]
            for source, sink, change in ((client, upstream, lambda data: data), (upstream, client, self._lie)):
                thread = threading.Thread(target=self._pump, args=(source, sink, change), daemon=True)
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket, change: Callable[[bytes], bytes | None]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 18):
                changed = change(data)
                if changed is None:
                    source.shutdown(socket.SHUT_RDWR)
                    break
                sink.sendall(changed)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
