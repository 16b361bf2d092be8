#!/usr/bin/env python3
"""What a range read costs a worker: `mr` of 100 and 10 items, in text, packed, and counted only, and RGET of the binary
protocol, over loopback.

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
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from harness.binary import BinaryStream, range_request  # noqa: E402
from harness.server import Server  # noqa: E402
from harness.wire import Stream  # noqa: E402

REQUESTS = 1000
LINES = (b"v L100", b"p v L100", b"n L100", b"v L10")
LIMITS = (100, 10)
KINDS = {"--ordered": "ordered,preset=0", "--preset heterokv": "preset=5"}


def fill(stream: Stream, items: int) -> None:
    keys = list(range(items))
    random.Random(1).shuffle(keys)
    for first in range(0, items, 2000):
        stream.exchange(b"".join(b"set %08d 0 0 8 noreply\r\n12345678\r\n" % key for key in keys[first : first + 2000]))


def line(flags: bytes) -> Callable[[int], bytes]:
    return lambda key: b"mr %08d %s\r\n" % (key, flags)


def packet(limit: int) -> Callable[[int], bytes]:
    return lambda key: range_request(b"%08d" % key, b"", 1, limit).pack()


def microseconds(
    connection: socket.socket, request: Callable[[int], bytes], keys: list[int], reply_bytes: int
) -> float:
    requests = b"".join(map(request, keys))
    left = reply_bytes * len(keys)
    start = time.perf_counter()
    connection.sendall(requests)
    while left:
        left -= len(connection.recv(min(left, 1 << 20)))
    return (time.perf_counter() - start) / len(keys) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| server | request | us a request (lowest to highest) |\n|---|---|---:|")
    for kind, options in KINDS.items():
        server = Server([str(ROOT / "build/bin/tandem"), "memcached"], "-t", "1", "-o", options, memory_mib=1024)
        rng = random.Random(2)
        with Stream(server.connect()) as text, BinaryStream(server.connect()) as binary:
            fill(text, arguments.items)
            requests = [(text, f"mr KEY {flags.decode()}", line(flags)) for flags in LINES]
            requests += [(binary, f"RGET of {limit}", packet(limit)) for limit in LIMITS]
            for stream, name, request in requests:
                reply_bytes = len(stream.exchange(request(1000)).data)
                rounds = [
                    microseconds(
                        stream.socket,
                        request,
                        [rng.randrange(arguments.items - 200) for _ in range(REQUESTS)],
                        reply_bytes,
                    )
                    for _ in range(arguments.rounds + 1)
                ][1:]
                spread = f"{statistics.median(rounds):.1f} ({min(rounds):.1f}-{max(rounds):.1f})"
                print(f"| `{kind}` | `{name}` | {spread} |")
        server.close()


if __name__ == "__main__":
    main()
