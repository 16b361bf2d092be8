"""A network for datagrams that loses, doubles, delays and reorders them, in both directions."""

from __future__ import annotations

import heapq
import random
import selectors
import socket
import threading
import time


class LossyNetwork:
    """Between one client and a server. What happens to a datagram follows from `seed` and how many came before."""

    LOST, DOUBLED, DELAYED = 0.1, 0.05, 0.25
    DELAY_S = 0.004  # at most: later ones overtake it

    def __init__(self, server: tuple[str, int], seed: int) -> None:
        self.lost = self.doubled = self.delayed = 0
        self._random = random.Random(seed)
        self._late: list[tuple[float, int, socket.socket, bytes]] = []
        self._inside = socket.socket(type=socket.SOCK_DGRAM)
        self._outside = socket.socket(type=socket.SOCK_DGRAM)
        for each in (self._inside, self._outside):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._inside.connect(server)
        self._outside.bind((server[0], 0))
        self.address = self._outside.getsockname()
        self._client: tuple[str, int] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> LossyNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._inside.close()
        self._outside.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._inside, selectors.EVENT_READ)
            selector.register(self._outside, selectors.EVENT_READ)
            while not self._stopping.is_set():
                wait = 0.05 if not self._late else max(0.0, self._late[0][0] - time.monotonic())
                for key, _ in selector.select(min(wait, 0.05)):
                    if key.fileobj is self._outside:
                        data, self._client = self._outside.recvfrom(65536)
                        self._pass_on(self._inside, data)
                    else:
                        self._pass_on(self._outside, self._inside.recv(65536))
                while self._late and self._late[0][0] <= time.monotonic():
                    _, _, to, data = heapq.heappop(self._late)
                    self._send(to, data)

    def _pass_on(self, to: socket.socket, data: bytes) -> None:
        dice = self._random.random()
        if dice < self.LOST:
            self.lost += 1
            return
        copies = 1
        if dice < self.LOST + self.DOUBLED:
            self.doubled += 1
            copies = 2
        for _ in range(copies):
            if self._random.random() < self.DELAYED:
                self.delayed += 1
                due = time.monotonic() + self._random.random() * self.DELAY_S
                heapq.heappush(self._late, (due, self.delayed, to, data))
            else:
                self._send(to, data)

    def _send(self, to: socket.socket, data: bytes) -> None:
        if to is self._inside:
            to.send(data)
        elif self._client is not None:
            to.sendto(data, self._client)
