#!/usr/bin/env python3
"""What a range read costs a worker: `mr` of 100 and 10 items, in text, packed, and counted only, over loopback.

    build/venv/bin/python bench/micro/scan_bench.py [--items 500000] [--rounds 5]

The client sends 1,000 requests before it reads, so the server is never idle. Both share the machine: needs two
processors.
"""

from __future__ import annotations

import argparse
import random
import socket
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from harness.server import Server  # noqa: E402

REQUESTS = 1000
LINES = {"v L100": b"v L100", "p v L100": b"p v L100", "n L100": b"n L100", "v L10": b"v L10"}
KINDS = {"--ordered": "ordered,preset=0", "--preset heterokv": "preset=5"}


def fill(connection: socket.socket, items: int) -> None:
    keys = list(range(items))
    random.Random(1).shuffle(keys)
    for first in range(0, items, 2000):
        connection.sendall(
            b"".join(b"set %08d 0 0 8 noreply\r\n12345678\r\n" % key for key in keys[first : first + 2000])
        )
    reply_bytes(connection, b"")


def reply_bytes(connection: socket.socket, request: bytes) -> int:
    connection.sendall(request + b"mn\r\n")
    reply = b""
    while not reply.endswith(b"MN\r\n"):
        reply += connection.recv(1 << 20)
    return len(reply) - 4


def microseconds(connection: socket.socket, flags: bytes, items: int, reply: int, rng: random.Random) -> float:
    request = b"".join(b"mr %08d %s\r\n" % (rng.randrange(items - 200), flags) for _ in range(REQUESTS))
    left = reply * REQUESTS
    start = time.perf_counter()
    connection.sendall(request)
    while left:
        left -= len(connection.recv(min(left, 1 << 20)))
    return (time.perf_counter() - start) / REQUESTS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| server | request | us a request (lowest to highest) |\n|---|---|---:|")
    for kind, options in KINDS.items():
        server = Server([str(ROOT / "build/bin/tandem"), "memcached"], "-t", "1", "-o", options, memory_mib=1024)
        connection = socket.create_connection(server.address())
        fill(connection, arguments.items)
        rng = random.Random(2)
        for name, flags in LINES.items():
            reply = reply_bytes(connection, b"mr 00001000 " + flags + b"\r\n")
            microseconds(connection, flags, arguments.items, reply, rng)
            rounds = [microseconds(connection, flags, arguments.items, reply, rng) for _ in range(arguments.rounds)]
            spread = f"{statistics.median(rounds):.1f} ({min(rounds):.1f}-{max(rounds):.1f})"
            print(f"| `{kind}` | `mr KEY {name}` | {spread} |")
        connection.close()
        server.close()


if __name__ == "__main__":
    main()
