"""Peers of a comparison, as programs: a slow one, a liar, one that does so many operations a second and no more.

python3 -m bench.peer_server --port N [--lie] [--capacity OPS] [--delay-ms MS --memcached PROGRAM]
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import threading
import time

from bench.lying_server import Store


def wrong_value(reply: bytes) -> bytes:
    """One byte of the value not as it was set."""
    at = reply.find(b"\r\n") + 2
    return reply[:at] + bytes([reply[at] ^ 1]) + reply[at + 1 :] if reply.startswith(b"VALUE") else reply


class Throttle:
    """Lets so many operations a second pass. Time lost is made up for, BURST_S at most: idle time and what a sleep took
    too long count alike."""

    BURST_S = 0.1

    def __init__(self, capacity: float) -> None:
        self.interval_s = 1 / capacity
        self.free_at = 0.0

    def wait(self) -> None:
        self.free_at = max(self.free_at, time.monotonic() - self.BURST_S) + self.interval_s
        while (left := self.free_at - time.monotonic()) > 0:
            time.sleep(left)


def serve(connection: socket.socket, store: Store, throttle: Throttle | None) -> None:
    file = connection.makefile("rb")
    while line := file.readline():
        # Keys are set as fast as can be: the capacity is that of gets.
        if throttle and line.startswith(b"get"):
            throttle.wait()
        connection.sendall(store.answer(line, file.read))


def forward(source: socket.socket, sink: socket.socket, delay_s: float) -> None:
    while data := source.recv(65536):
        time.sleep(delay_s)
        sink.sendall(data)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port: int) -> socket.socket:
    for _ in range(1000):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.01)
    sys.exit("memcached does not start")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--lie", action="store_true")
    parser.add_argument("--capacity", type=float)
    parser.add_argument("--delay-ms", type=float)
    parser.add_argument("--memcached", default="memcached")
    parser.add_argument("--token", help="by which a test finds the process")
    arguments = parser.parse_args()
    behind = 0
    if arguments.delay_ms:
        behind = free_port()
        user = ["-u", "root"] if os.geteuid() == 0 else []
        subprocess.Popen([arguments.memcached, "-l", "127.0.0.1", "-p", str(behind), "-U", "0", *user])
    store = Store(wrong_value if arguments.lie else None)
    throttle = Throttle(arguments.capacity) if arguments.capacity else None
    with socket.create_server(("127.0.0.1", arguments.port)) as listener:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if behind:
                other = connect(behind)
                for source, sink, delay_s in ((connection, other, arguments.delay_ms / 1e3), (other, connection, 0)):
                    threading.Thread(target=forward, args=(source, sink, delay_s), daemon=True).start()
            else:
                threading.Thread(target=serve, args=(connection, store, throttle), daemon=True).start()


if __name__ == "__main__":
    main()
