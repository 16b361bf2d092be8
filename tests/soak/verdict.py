"""What a soak's course must be: flat memory and latency, nothing left behind, no wrong value, and what it is called."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from statistics import median

MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The process at a moment."""

    at_s: float
    resident_bytes: int
    fds: int
    threads: int


@dataclass(frozen=True)
class Interval:
    """What clients of the steady load saw between two moments."""

    at_s: float
    p50_us: float
    p99_us: float
    ops: int
    cpu_us: float = 0.0  # of the server, for each operation of this load and of the one beside it


@dataclass
class Course:
    samples: list[Sample]
    intervals: list[Interval]
    idle_before: Sample  # without clients
    idle_after: Sample
    counters_before: dict[str, int]
    counters_after: dict[str, int]
    wrong: list[str] = field(default_factory=list)  # wrong values, wrong replies, time-outs, broken connections


@dataclass(frozen=True)
class Bounds:
    """Why these: tests/reliability.md."""

    warm_up: float = 0.25  # of the time: memory fills, the index grows, each phase comes once
    resident_over_median: float = 0.05
    resident_drift: float = 0.02  # over the time after the warm-up
    resident_slack_bytes: int = 4 * MIB
    p50_ratio: float = 2.0  # the last third's median to the first's
    p99_ratio: float = 4.0
    cpu_ratio: float = 3.0
    judges_latency: bool = True
    intervals_min: int = 12  # fewer say nothing of a drift


def after_warm_up(course: Course, bounds: Bounds) -> list[Sample]:
    begin, end = course.samples[0].at_s, course.samples[-1].at_s
    return [s for s in course.samples if s.at_s >= begin + bounds.warm_up * (end - begin)]


def slope(points: list[tuple[float, float]]) -> float:
    """Theil and Sen's: the median of the slopes between all pairs, which single outliers do not move. Of 400 points at
    most, evenly chosen."""
    chosen = points[:: max(1, len(points) // 400)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(chosen, 2) if b[0] > a[0]]
    return median(slopes) if slopes else 0.0


def drift_bytes(samples: list[Sample]) -> float:
    """How much resident memory rose, by its trend."""
    trend = slope([(s.at_s, float(s.resident_bytes)) for s in samples])
    return trend * (samples[-1].at_s - samples[0].at_s)


def thirds(values: list[float]) -> tuple[float, float]:
    """The medians of the first and of the last third."""
    third = len(values) // 3
    return median(values[:third]), median(values[-third:])


def faults_of_memory(course: Course, bounds: Bounds) -> list[str]:
    samples = after_warm_up(course, bounds)
    middle = median(s.resident_bytes for s in samples)
    most = max(samples, key=lambda s: s.resident_bytes)
    drift = drift_bytes(samples)
    found = []
    if most.resident_bytes > middle * (1 + bounds.resident_over_median) + bounds.resident_slack_bytes:
        found.append(f"{most.resident_bytes / MIB:.1f} MiB resident at {most.at_s:.0f} s, median {middle / MIB:.1f}")
    if drift > middle * bounds.resident_drift + bounds.resident_slack_bytes:
        found.append(f"resident memory rises by {drift / MIB:.1f} MiB, median {middle / MIB:.1f}")
    return found


def faults_of_cost(course: Course, bounds: Bounds) -> list[str]:
    """Processor time says what latency says where other programs have the processors."""
    if len(course.intervals) < bounds.intervals_min:
        return []
    first, last = thirds([i.cpu_us for i in course.intervals[1:]])
    return (
        [f"cpu_us: {first:.1f} in the first third, {last:.1f} in the last"] if last > first * bounds.cpu_ratio else []
    )


def faults_of_latency(course: Course, bounds: Bounds) -> list[str]:
    if len(course.intervals) < bounds.intervals_min or not bounds.judges_latency:
        return []
    found = []
    # The first is the start's.
    for name, ratio in (("p50_us", bounds.p50_ratio), ("p99_us", bounds.p99_ratio)):
        first, last = thirds([getattr(i, name) for i in course.intervals[1:]])
        if last > first * ratio:
            found.append(f"{name}: {first:.0f} in the first third, {last:.0f} in the last")
    return found


def faults(course: Course, bounds: Bounds, must_move: list[str]) -> list[str]:
    """What is wrong with it; nothing, if all is well. `must_move`: counters that say that it was what it is called."""
    found = list(course.wrong)
    if not course.intervals or sum(i.ops for i in course.intervals) == 0:
        found.append("nothing was asked")
    found += faults_of_memory(course, bounds) + faults_of_latency(course, bounds) + faults_of_cost(course, bounds)
    before, after = course.idle_before, course.idle_after
    if after.fds > before.fds:
        found.append(f"{before.fds} open files before, {after.fds} when all clients have gone")
    threads = max(s.threads for s in course.samples)
    if threads > before.threads or after.threads > before.threads:
        found.append(f"{before.threads} threads before, up to {threads}, {after.threads} at the end")
    for name in must_move:
        if course.counters_after.get(name, 0) <= course.counters_before.get(name, 0):
            found.append(f"{name} did not move: {course.counters_after.get(name)}")
    return found
