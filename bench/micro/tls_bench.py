#!/usr/bin/env python3
"""The cost of TLS: gets a second and the server's processor time for each, with and without TLS, beside memcached; new
connections a second; memory of an idle connection. The server has one worker on one processor, the load another.

    build/venv/bin/python bench/micro/tls_bench.py [--rounds 5] [--seconds 2] [--kernel]

Rounds are interleaved: each server once, then all again. Shown are medians with minimum and maximum."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from harness.server import Server  # noqa: E402
from harness.tls import make_identity  # noqa: E402

LOAD = ROOT / "build/bench/tls_load"
TICKS = os.sysconf("SC_CLK_TCK")
IDLE_CONNECTIONS = 1000


@dataclass
class Subject:
    name: str
    server: Server
    tls: bool
    rates: dict[int, list[float]] = field(default_factory=dict)
    cpu_ns: dict[int, list[float]] = field(default_factory=dict)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def pin(self, processor: int) -> None:
        for task in Path(f"/proc/{self.server.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {processor})


def load_command(subject: Subject, processor: int, **options: object) -> list[str]:
    command = ["taskset", "-c", str(processor), str(LOAD), "--port", str(subject.server.port)]
    for name, value in {"tls": int(subject.tls), **options}.items():
        command += [f"--{name}", str(value)]
    return command


def run_load(subject: Subject, processor: int, **options: object) -> dict[str, float]:
    result = subprocess.run(load_command(subject, processor, **options), capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def measure_gets(subject: Subject, processor: int, depth: int, seconds: int) -> None:
    before = subject.cpu_s()
    result = run_load(subject, processor, depth=depth, seconds=seconds)
    # Includes the first sets and the handshakes: some 10 ms.
    used = subject.cpu_s() - before
    subject.rates.setdefault(depth, []).append(result["gets"] / result["seconds"])
    subject.cpu_ns.setdefault(depth, []).append(used / result["gets"] * 1e9)


def idle_bytes(subject: Subject, processor: int) -> float:
    with subprocess.Popen(
        load_command(subject, processor, mode="idle", connections=IDLE_CONNECTIONS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        before = subject.server.resident_bytes()
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        used = (subject.server.resident_bytes() - before) / IDLE_CONNECTIONS
        process.communicate("\n")
    return used


def spread(values: list[float], scale: float, digits: int) -> str:
    low, middle, high = min(values) / scale, statistics.median(values) / scale, max(values) / scale
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--depth", type=int, nargs="*", default=[1, 32], help="gets under way a connection")
    parser.add_argument("--kernel", action="store_true", help="also with ssl_kernel_tls")
    parser.add_argument("--no-memcached", action="store_true")
    options = parser.parse_args()
    server_processor, load_processor = sorted(os.sched_getaffinity(0))[:2]

    tandem, memcached = [str(ROOT / "build/bin/tandem"), "memcached"], ["memcached"]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        identity = make_identity(folder, "bench")
        wanted = [("tandem", tandem, ()), ("tandem, TLS", tandem, identity.options())]
        if options.kernel:
            wanted.append(("tandem, kernel TLS", tandem, identity.options("ssl_kernel_tls")))
        if not options.no_memcached:
            wanted += [("memcached", memcached, ()), ("memcached, TLS", memcached, identity.options())]
        subjects = []
        for name, command, more in wanted:
            server = Server(command, "-t", "1", "-U", "0", "-c", "4000", *more)
            stack.callback(server.kill)
            subjects.append(Subject(name, server, bool(more)))
            subjects[-1].pin(server_processor)

        print(f"idle connections: {IDLE_CONNECTIONS}; each takes of the server's memory, beside the kernel's:")
        for subject in subjects:
            print(f"  {subject.name:20} {idle_bytes(subject, load_processor) / 1024:.1f} KiB")
        for _ in range(options.rounds):
            for depth in options.depth:
                for subject in subjects:
                    measure_gets(subject, load_processor, depth, options.seconds)
        for depth in options.depth:
            print(f"\n50 connections, {depth} gets of 100 bytes under way on each:")
            print(f"  {'':20} {'1000 gets/s':>24} {'server ns/get':>24}")
            for subject in subjects:
                rate, cpu = spread(subject.rates[depth], 1000, 1), spread(subject.cpu_ns[depth], 1, 0)
                print(f"  {subject.name:20} {rate:>24} {cpu:>24}")
        print("\nnew connections with a request each, one after the other:")
        for subject in subjects:
            before = subject.cpu_s()
            result = run_load(subject, load_processor, mode="handshake", seconds=options.seconds)
            cost_us = (subject.cpu_s() - before) / result["handshakes"] * 1e6
            print(
                f"  {subject.name:20} {result['handshakes'] / result['seconds']:.0f}/s, {cost_us:.0f} us of the server"
            )


if __name__ == "__main__":
    main()
