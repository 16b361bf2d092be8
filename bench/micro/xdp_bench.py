#!/usr/bin/env python3
"""AF_XDP beside a socket: gets over UDP for each second of the server's processor time, in turns over the same pair of
veth devices between two network namespaces. Needs root.

    build/venv/bin/python bench/micro/xdp_bench.py [--rounds 7] [--seconds 2] [--pipeline 16] [--connections 8]
        [--moderation-us 50]

The processor time is user and system time of the server and of the kernel's thread that receives for its end of the
cable: both ends receive in threads of their own (NAPI), so that neither side pays for what the other receives. All run
on one processor, which is always busy. --moderation-us: both ends wait so long for more packets before they receive, as
network cards do; 0: each packet wakes its receiver, which the sender pays for. The load generator checks every byte of
every reply. Shown are medians with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from harness.link import DEVICE, SERVER, Impossible, Link, Machine  # noqa: E402
from harness.server import Server  # noqa: E402

TANDEM = ROOT / "build/bin/tandem"
KINDS = {"socket": (), "xdp": ("-o", f"xdp={DEVICE}")}


def receiving_threads() -> set[int]:
    """The kernel's threads that receive for devices called as the cable's ends."""
    found = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if (folder / "comm").read_text().startswith(f"napi/{DEVICE}-"):
                found.add(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def receive_in_threads(machine: Machine, moderation_us: int) -> None:
    # /sys shows the devices of the namespace that it was mounted in.
    folder = f"/sys/class/net/{DEVICE}"
    settings = {"threaded": 1, "gro_flush_timeout": moderation_us * 1000, "napi_defer_hard_irqs": 2}
    write = " && ".join(["mount -t sysfs none /sys", *(f"echo {n} >{folder}/{name}" for name, n in settings.items())])
    with machine.inside():
        subprocess.run(["unshare", "--mount", "sh", "-c", write], check=True)


def cpu_s(pids: list[int]) -> float:
    # clock_getcpuclockid(3): a process's clock, in nanoseconds.
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def load(link: Link, server: Server, *options: str) -> dict[str, float]:
    command = [TANDEM, "bench", "load", "--connect", f"{SERVER}:{server.port}", "--quiet", "--json", "-", *options]
    with link.client.inside():
        done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"xdp_bench: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--pipeline", type=int, default=16, help="requests under way a socket")
    parser.add_argument("--connections", type=int, default=8, help="sockets of the load")
    parser.add_argument("--moderation-us", type=int, default=50)
    options = parser.parse_args()
    try:
        link = Link()
    except Impossible as impossible:
        raise SystemExit(f"xdp_bench: {impossible}") from impossible
    with link:
        measure(link, options)


def measure(link: Link, options: argparse.Namespace) -> None:
    # Checksums are part of a packet on a wire. Without segments to cut, and with GRO (merging), as cards have it by
    # default, packets take the receiving threads.
    for machine in (link.client, link.server):
        machine.offload(checksums=False, segments=False, merging=True)
    before = receiving_threads()
    receive_in_threads(link.server, options.moderation_us)
    own_threads = sorted(receiving_threads() - before)
    receive_in_threads(link.client, options.moderation_us)
    processor = sorted(os.sched_getaffinity(0))[-1]
    for thread in receiving_threads() - before:
        os.sched_setaffinity(thread, {processor})
    os.sched_setaffinity(0, {processor})  # and of what is started from here

    shape = ["--udp", f"--pipeline={options.pipeline}", f"--connections={options.connections}", "--keys=10000"]
    shape += ["--value-size=32", "--get-ratio=1", "--seed=1"]
    costs: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in KINDS}
    modes: dict[str, str] = {}
    for round_number in range(options.rounds):
        for kind, more in KINDS.items():
            with link.server.inside():
                server = Server([str(TANDEM), "memcached"], "-t", "1", "-l", SERVER, "-v", *more)
            try:
                modes[kind] = next((line for line in server.output().splitlines() if line.startswith("XDP")), "")
                load(link, server, *shape[2:], "--preload", "--ops=1")  # over TCP
                pids = [server.pid, *own_threads]
                used = [-cpu_s([pid]) for pid in pids]
                document = load(link, server, *shape, "--require-hits", f"--seconds={options.seconds}", "--warmup=0")
                used = [begin + cpu_s([pid]) for begin, pid in zip(used, pids, strict=True)]
                result = document["runs"][0]["result"]
                wrong = {name: n for name, n in result["errors"].items() if name not in ("first", "timeouts") and n}
                if wrong:
                    raise SystemExit(f"xdp_bench: {kind}: {wrong}: {result['errors']['first']}")
                lost = result["errors"]["timeouts"] / result["ops"]
                costs[kind].append((result["ops"] / sum(used), sum(used[1:]) / sum(used), lost))
                print(f"  {round_number} {kind:6} {result['ops'] / sum(used):9.0f}", flush=True)
            finally:
                server.kill()
    print(f"requests for each second of the server's processor time, {options.rounds} rounds in turns;")
    print(
        f"{options.connections} sockets with {options.pipeline} requests under way, 1 worker, gets of 32 bytes, "
        f"packets held back for {options.moderation_us} us"
    )
    for kind, rounds in costs.items():
        rates = [rate for rate, _, _ in rounds]
        receiving, lost = (statistics.median(each[i] for each in rounds) for i in (1, 2))
        print(
            f"{kind:6} {statistics.median(rates):9.0f} ({min(rates):.0f}-{max(rates):.0f}), of it in the receiving "
            f"thread {receiving:.0%}; lost {lost:.3%}; {modes[kind]}"
        )
    pairs = list(zip(costs["xdp"], costs["socket"], strict=True))
    ratios = {
        "ratio": [xdp[0] / plain[0] for xdp, plain in pairs],
        "ratio of the server's own processor time": [
            xdp[0] / (1 - xdp[1]) / (plain[0] / (1 - plain[1])) for xdp, plain in pairs
        ],
    }
    for name, values in ratios.items():
        print(f"{name} {statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})")


if __name__ == "__main__":
    main()
