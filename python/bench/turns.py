"""Subjects that take turns, and what comes of it: medians, spreads, ratios within a round."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Subject:
    """turn() does so many operations and returns their number. With threads, each does that."""

    name: str
    turn: Callable[[], int]
    threads: tuple[Callable[[], int], ...] = ()


@dataclass
class Times:
    """Of one subject: nanoseconds an operation, a round each."""

    processor: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def alone(subject: Subject) -> tuple[float, float]:
    """Nanoseconds of the thread's processor and of the wall clock, an operation."""
    wall, processor = time.perf_counter_ns(), time.thread_time_ns()
    operations = subject.turn()
    processor, wall = time.thread_time_ns() - processor, time.perf_counter_ns() - wall
    return processor / operations, wall / operations


def together(subject: Subject) -> tuple[float, float]:
    """The same for threads that begin at once: their processors' time, and the wall clock's, an operation of all."""
    start = threading.Barrier(len(subject.threads) + 1)
    done: list[tuple[int, int]] = []

    def work(turn: Callable[[], int]) -> None:
        start.wait()
        began = time.thread_time_ns()
        operations = turn()
        done.append((operations, time.thread_time_ns() - began))

    threads = [threading.Thread(target=work, args=(turn,)) for turn in subject.threads]
    for thread in threads:
        thread.start()
    start.wait()
    wall = time.perf_counter_ns()
    for thread in threads:
        thread.join()
    wall = time.perf_counter_ns() - wall
    operations = sum(each for each, _ in done)
    return sum(spent for _, spent in done) / operations, wall / operations


def in_turns(subjects: Sequence[Subject], rounds: int) -> dict[str, Times]:
    """Each subject once in a round, in an order that rotates; the first round warms up and is not counted."""
    times = {subject.name: Times() for subject in subjects}
    for number in range(rounds + 1):
        first = number % len(subjects)
        for subject in (*subjects[first:], *subjects[:first]):
            processor, wall = together(subject) if subject.threads else alone(subject)
            if number:
                times[subject.name].processor.append(processor)
                times[subject.name].wall.append(wall)
    return times


@dataclass(frozen=True)
class Spread:
    middle: float
    least: float
    greatest: float

    def text(self, form: str = ".2f") -> str:
        return f"{self.middle:{form}} ({self.least:{form}}-{self.greatest:{form}})"


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """Round by round, so that what slows a whole round down cancels."""
    return spread([a / b for a, b in zip(over, under, strict=True)])
