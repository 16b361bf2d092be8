"""The judge of soaks sees what it is for, a planted leak, drift, wrong value, and leaves good courses alone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from soak.clients import check_values
from soak.verdict import MIB, Bounds, Course, Interval, Sample, faults

SECONDS = 3600
MOVES = ["evictions", "slabs_moved"]


def calm(seed: int = 1) -> Course:
    """An hour as they are: memory fills in ten minutes, and wobbles by some MiB; latency by a half, and triples while
    something else runs on the machine."""
    rng = random.Random(seed)
    samples = [
        Sample(t, int((80 + min(t / 600, 1) * 200 + rng.uniform(-3, 3)) * MIB), 60 + rng.randrange(20), 9)
        for t in range(SECONDS)
    ]
    intervals = [
        Interval(
            t, rng.uniform(100, 150) * (3 if t // 600 == 2 else 1), rng.uniform(400, 900), 10_000, rng.uniform(8, 20)
        )
        for t in range(0, SECONDS, 60)
    ]
    idle = Sample(0, 80 * MIB, 30, 9)
    return Course(samples, intervals, idle, idle, dict.fromkeys(MOVES, 0), dict.fromkeys(MOVES, 5))


def judged(course: Course) -> list[str]:
    return faults(course, Bounds(), MOVES)


@pytest.mark.parametrize("seed", range(5))
def test_a_good_hour_is_good(seed: int) -> None:
    assert judged(calm(seed)) == []


def test_a_slow_leak_is_found() -> None:
    """40 bytes a second from 10,000 requests: 12 MiB in an hour, less than the samples wobble in a second."""
    course = calm()
    course.samples = [replace(s, resident_bytes=s.resident_bytes + int(s.at_s * 4000)) for s in course.samples]
    (fault,) = judged(course)
    assert "rises by" in fault


def test_a_leak_that_stops_at_the_end_is_found() -> None:
    course = calm()
    course.samples = [
        replace(s, resident_bytes=s.resident_bytes + int(min(s.at_s, 2400) * 8000)) for s in course.samples
    ]
    assert any("rises by" in fault for fault in judged(course))


def test_a_peak_is_found() -> None:
    """One second of an hour."""
    course = calm()
    course.samples[2000] = replace(course.samples[2000], resident_bytes=340 * MIB)
    (fault,) = judged(course)
    assert fault.startswith("340.0 MiB resident at 2000 s")


def test_memory_that_falls_is_no_leak() -> None:
    course = calm()
    course.samples = [replace(s, resident_bytes=s.resident_bytes - int(s.at_s * 4000)) for s in course.samples]
    assert [fault for fault in judged(course) if "rises" in fault] == []


@pytest.mark.parametrize(("name", "factor"), [("p50_us", 2.5), ("p99_us", 5), ("cpu_us", 4)])
def test_latency_that_becomes_worse_is_found(name: str, factor: float) -> None:
    course = calm()
    course.intervals = [
        replace(i, **{name: getattr(i, name) * (factor if i.at_s > SECONDS / 2 else 1)}) for i in course.intervals
    ]
    (fault,) = judged(course)
    assert fault.startswith(name)


def test_without_latency_cost_is_judged() -> None:
    course = calm()
    course.intervals = [
        replace(i, **{name: getattr(i, name) * (9 if i.at_s > SECONDS / 2 else 1) for name in ("p50_us", "cpu_us")})
        for i in course.intervals
    ]
    (fault,) = faults(course, Bounds(judges_latency=False), MOVES)
    assert fault.startswith("cpu_us")


def test_a_wrong_value_is_found() -> None:
    course = calm()
    course.wrong.append("load 3: 1 wrong_values")
    assert judged(course) == ["load 3: 1 wrong_values"]


def test_a_wrong_byte_in_an_answer_is_found() -> None:
    values = {b"a": b"one", b"b": b"two"}
    good = b"VALUE a 0 3\r\none\r\nEND\r\nVALUE b 0 3\r\ntwo\r\nEND\r\n"
    check_values(good, list(values), values.__getitem__)
    check_values(good.replace(b"VALUE a 0 3\r\none\r\n", b""), list(values), values.__getitem__)  # evicted
    for at in range(len(good)):
        with pytest.raises(AssertionError):
            check_values(good[:at] + b"#" + good[at + 1 :], list(values), values.__getitem__)
    with pytest.raises(AssertionError):
        check_values(good + b"END\r\n", list(values), values.__getitem__)


def test_files_and_threads_left_behind_are_found() -> None:
    course = calm()
    course.idle_after = replace(course.idle_before, fds=31)
    assert judged(course) == ["30 open files before, 31 when all clients have gone"]
    course = calm()
    course.samples[1000] = replace(course.samples[1000], threads=10)
    assert judged(course) == ["9 threads before, up to 10, 9 at the end"]


def test_a_soak_in_which_nothing_happened_is_none() -> None:
    course = calm()
    course.counters_after = {"evictions": 7}
    assert judged(course) == ["slabs_moved did not move: None"]
    course = calm()
    course.intervals = []
    assert judged(course) == ["nothing was asked"]
