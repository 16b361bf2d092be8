"""A server at its memory limit under mixed load that checks every byte: evictions, an index that grows, pages that move
between classes, items that expire, connections that come and go, one that reads slowly.

Some seconds for each plan; TANDEM_SOAK_SECONDS makes it an hour (`make soak`), TANDEM_SOAK_PLANS chooses plans. With
TANDEM_SOAK_GENTLE clients ask at a rate that leaves the processors to other programs; latency then tells of those.
TANDEM_SOAK_GPU: the number of a GPU in place of simulated devices.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from harness.server import PATIENCE_S, Server
from linearizability.harness import TandemServer

from soak.clients import SHIFTING, STEADY, Background, Churner, SlowReader, errors_of, run_load
from soak.verdict import MIB, Bounds, Course, Interval, Sample, after_warm_up, drift_bytes, faults, thirds

SECONDS = float(os.environ.get("TANDEM_SOAK_SECONDS", "0"))
GENTLE = bool(os.environ.get("TANDEM_SOAK_GENTLE"))
SHORT_S = 7.0
OUT = Path(__file__).resolve().parents[2] / "build/soak"
MEMORY_MIB = 64

GPU = os.environ.get("TANDEM_SOAK_GPU", "sim")
DEVICE = ["--gpu", GPU, *(["--seccomp"] if GPU == "sim" else [])]  # a GPU's driver and seccomp exclude each other
TWO = ["--gpus", "2", "--gpu-steal"] if GPU == "sim" else []
# Where clients have few turns, as in a short soak beside other programs, workers need not be pressed.
STOLEN = ["gpu:queries_stolen"] if TWO and SECONDS >= 60 and not GENTLE else []
# Of all memory in a short one: small items that are asked for may lie beyond a quarter of it for as long.
COPIES = "16MiB" if SECONDS >= 60 else f"{MEMORY_MIB}MiB"
PLANS = {
    "cpu": (["--gpu", "off", "--eviction", "s3-fifo"], []),
    "mirrored": ([*DEVICE, "--preset", "mirrored", *TWO], ["gpu:queries", "gpu:drains", *STOLEN]),
    # One GPU alone answers with copies.
    "values": ([*DEVICE, "--preset", "mirrored", "--gpu-values", COPIES], ["gpu:queries", "gpu:values_hits"]),
    # The device alone has the index, in a table that does not grow.
    "mega-kv": ([*DEVICE, "--preset", "mega-kv"], ["gpu:queries", "gpu:drains"]),
}
CHOSEN = os.environ.get("TANDEM_SOAK_PLANS", " ".join(PLANS) if SECONDS else "cpu values mega-kv").split()
# An index of 512 cells at first; values of 8 bytes to 900 KB.
OPTIONS = ["--memory", f"{MEMORY_MIB}MiB", "--item-expected", "1MiB", "--threads", "2", "--huge-pages"]
MUST_MOVE = ["evictions", "slabs_moved", "hash_power_level", "get_hits", "get_misses", "delete_hits", "touch_hits"]
MUST_MOVE += ["get_expired", "total_connections", "curr_items"]


def counters(server: Server) -> dict[str, int]:
    found = {}
    with server.connect(PATIENCE_S) as connection:
        for group in (b"stats\r\n", b"stats gpu\r\n"):
            connection.sendall(group)
            reply = b""
            while not reply.endswith((b"END\r\n", b"ERROR\r\n")):
                reply += connection.recv(1 << 16)
            words = [line.split(" ") for line in reply.decode().splitlines()]
            found |= {line[1]: int(line[2]) for line in words if len(line) == 3 and line[2].isdigit()}
    return found


def cpu_us(server: Server) -> float:
    """That the process has had."""
    words = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def sample(server: Server, began: float) -> Sample:
    task = Path(f"/proc/{server.pid}")
    return Sample(
        time.monotonic() - began,
        server.resident_bytes(),
        len(list((task / "fd").iterdir())),
        len(list((task / "task").iterdir())),
    )


def when_idle(server: Server, began: float, fds: int) -> Sample:
    """When the server has closed what clients have closed; or what there is when it does not."""
    deadline = time.monotonic() + PATIENCE_S
    while (now := sample(server, began)).fds > fds and time.monotonic() < deadline:
        time.sleep(0.02)
    return now


def soak(server: Server, seconds: float, must_move: list[str]) -> Course:
    """A short one goes on until everything that has to happen has happened, for a minute more at most."""
    began = time.monotonic()
    before, idle = counters(server), sample(server, began)
    # The connection that asked is closed a little later, and the last thread may begin only now.
    samples = [sample(server, began) for _ in range(50) if not time.sleep(0.01)]
    idle = replace(min(samples, key=lambda s: s.fds), threads=max(s.threads for s in samples))
    course = Course([], [], idle, idle, before, before)
    interval_s = min(60.0, max(1.0, seconds / 30))
    background: list[Background] = [
        Churner("churner", server.port, course.wrong),
        SlowReader("slow reader", server.port, course.wrong),
    ]
    for thread in background:
        thread.start()
    turn = 0
    with ThreadPoolExecutor() as pool:
        while not course.wrong:
            now = time.monotonic() - began
            moved = all(course.counters_after.get(name, 0) > before.get(name, 0) for name in must_move)
            if now >= seconds and (moved or now >= seconds + PATIENCE_S):
                break
            shifting = SHIFTING[turn % len(SHIFTING)]
            runs = {
                load: pool.submit(run_load, server.port, load, interval_s, turn + 1, GENTLE)
                for load in (STEADY, shifting)
            }
            turn += 1
            cpu_before_us = cpu_us(server)
            while not all(run.done() for run in runs.values()):
                course.samples.append(sample(server, began))
                time.sleep(min(1.0, interval_s / 10))
            for load, run in runs.items():
                course.wrong += errors_of(load, run.result())
            steady = runs[STEADY].result()
            if latency := steady.get("latency_us"):
                each_us = (cpu_us(server) - cpu_before_us) / max(1, sum(run.result()["ops"] for run in runs.values()))
                course.intervals.append(Interval(now, latency["p50"], latency["p99"], steady["ops"], each_us))
            course.counters_after = counters(server)
    for thread in background:
        thread.stop()
        if thread.rounds == 0:
            course.wrong.append(f"{thread.name}: not once")
    course.idle_after = when_idle(server, began, idle.fds)
    return course


def report(plan: str, course: Course, bounds: Bounds) -> str:
    """The figures, and where all of them are."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{plan}{'-gentle' if GENTLE else ''}.json"
    path.write_text(json.dumps(course, default=vars, indent=1))
    samples = after_warm_up(course, bounds)
    resident = [s.resident_bytes for s in samples]
    moved = {
        name: course.counters_after[name] - course.counters_before.get(name, 0)
        for name in ("cmd_get", "cmd_set", "evictions", "slabs_moved", "hash_power_level", "get_expired",
                     "total_connections", "gpu:queries", "gpu:values_hits", "gpu:queries_stolen")
        if name in course.counters_after
    }  # fmt: skip
    lines = [
        f"soak {plan}: {course.samples[-1].at_s:.0f} s, {len(course.intervals)} intervals, {path}",
        f"  resident MiB after the warm-up: median {median(resident) / MIB:.1f}, {min(resident) / MIB:.1f} to "
        f"{max(resident) / MIB:.1f}, drift {drift_bytes(samples) / MIB:+.2f}",
        f"  files {course.idle_before.fds}, then {course.idle_after.fds}; threads {course.idle_before.threads}, then "
        f"{course.idle_after.threads}",
        f"  {moved}",
    ]
    if len(course.intervals) >= 4:
        for name in ("p50_us", "p99_us", "cpu_us"):
            first, last = thirds([getattr(i, name) for i in course.intervals[1:]])
            lines.append(f"  {name}: {first:.1f} in the first third, {last:.1f} in the last")
    return "\n".join(lines)


@pytest.mark.timeout(600 + 2 * SECONDS)
@pytest.mark.parametrize("plan", CHOSEN)
def test_soak(plan: str) -> None:
    options, also_move = PLANS[plan]
    bounds = Bounds()
    if SECONDS < 60:  # memory still settles, and latency is the machine's
        bounds = Bounds(warm_up=0.5, resident_over_median=0.25, resident_drift=0.25, intervals_min=1 << 30)
    elif GENTLE:
        bounds = Bounds(judges_latency=False)
    must_move = MUST_MOVE + also_move
    if plan == "mega-kv":
        must_move.remove("hash_power_level")
    server = TandemServer(*OPTIONS, *options)
    try:
        course = soak(server, SECONDS or SHORT_S, must_move)
        print(f"\n{report(plan, course, bounds)}")
        assert faults(course, bounds, must_move) == []
    except BaseException:
        server.kill()
        raise
    finally:
        server.close()
