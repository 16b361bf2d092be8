#!/usr/bin/env python3
"""Tandem for Python beside lmdb, diskcache, cachetools and its own C call, in turns in one process (make bench-python).

Prints a table of each kind of call and the ratios that have a goal; plots them where matplotlib is installed. Times are
of the processor, so that what a peer waits for is not counted; only threads are compared by the wall clock.

    run.py                        all of it, some two minutes
    run.py --only rows --keys 1000000 --rounds 31
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import points
import rows
import tandem
from turns import Spread, Times, in_turns, ratio, spread

PEERS = ("lmdb", "diskcache", "cachetools", "numpy")
PLAIN, EACH = "lmdb, in one transaction", "lmdb, one transaction each"


@dataclass(frozen=True)
class Goal:
    """tandem's time divides the peer's; `at_most` bounds the inverse."""

    peer: str
    at_least: float = 0
    at_most: float = 0


@dataclass(frozen=True)
class Measured:
    name: str  # "get", "set_rows" ...
    keys: int
    times: dict[str, Times]


@dataclass(frozen=True)
class Verdict:
    name: str
    keys: int
    what: str
    goal: str
    seen: Spread
    is_met: bool


GOALS = {
    "get": [Goal(PLAIN, 2), Goal(EACH, 3), Goal("diskcache", 20), Goal("cachetools LRU", 1.5)],
    "set": [Goal(EACH, 10), Goal("diskcache", 100)],
    "get_rows": [Goal("lmdb getmulti", 10), Goal("the C call", at_most=1.2)],
    "set_rows": [Goal("the C call", at_most=1.2)],
}
# Million rows a second of one processor, at a million keys.
RATES = {"get_rows": 20, "set_rows": 15}
THREADS_GOAL = 1.6


def verdicts(measured: Measured) -> list[Verdict]:
    times, tandem_ns = measured.times, measured.times["tandem"].processor
    found = []

    def add(what: str, goal: str, seen: Spread, is_met: bool) -> None:
        found.append(Verdict(measured.name, measured.keys, what, goal, seen, is_met))

    for goal in GOALS[measured.name]:
        if goal.peer not in times:
            continue
        peer = times[goal.peer].processor
        if goal.at_most:
            seen = ratio(tandem_ns, peer)
            add(f"time / {goal.peer}", f"<= {goal.at_most}", seen, seen.middle <= goal.at_most)
        else:
            seen = ratio(peer, tandem_ns)
            add(f"{goal.peer} / tandem", f">= {goal.at_least}", seen, seen.middle >= goal.at_least)
    if measured.name in RATES:
        seen = spread([1000 / each for each in tandem_ns])
        if measured.keys == 1_000_000:
            goal_rate = RATES[measured.name]
            add("M rows/s of a processor", f">= {goal_rate}", seen, seen.middle >= goal_rate)
        seen = ratio(times["tandem"].wall, times["tandem, two threads"].wall)
        add("two threads / one, wall", f">= {THREADS_GOAL}", seen, seen.middle >= THREADS_GOAL)
        # What two threads would do if each had a processor of its own all the time.
        both = ratio([2 * each for each in tandem_ns], times["tandem, two threads"].processor)
        add("two threads / one, processors", f">= {THREADS_GOAL}", both, both.middle >= THREADS_GOAL)
    return found


def table(measured: Measured) -> str:
    lines = [f"{measured.name}, {measured.keys:,} keys", ""]
    lines += ["| | ns of the processor | ns of the wall clock |", "|---|---:|---:|"]
    for name, times in measured.times.items():
        digits = ".0f" if times.processor[0] > 100 else ".1f"
        lines.append(f"| {name} | {spread(times.processor).text(digits)} | {spread(times.wall).text(digits)} |")
    return "\n".join([*lines, ""])


def goals_table(all_verdicts: Sequence[Verdict]) -> str:
    lines = ["| call | keys | ratio | goal | measured | |", "|---|---:|---|---|---:|---|"]
    for each in all_verdicts:
        met = "met" if each.is_met else "missed"
        lines.append(f"| {each.name} | {each.keys:,} | {each.what} | {each.goal} | {each.seen.text()} | {met} |")
    return "\n".join(lines)


def measure(options: argparse.Namespace) -> list[Measured]:
    measured = []

    def add(name: str, keys: int, times: dict[str, Times]) -> None:
        measured.append(Measured(name, keys, times))
        print(table(measured[-1]), flush=True)

    for count in options.keys:
        if "points" in options.only:
            with points.opened(count) as stores:
                add("get", count, in_turns(points.gets(stores), options.rounds))
                add("set", count, in_turns(points.sets(stores), options.rounds))
        if "rows" in options.only:
            with rows.opened(count, options.batch) as both:
                add("get_rows", count, in_turns(rows.gets(both), options.rounds))
                add("set_rows", count, in_turns(rows.sets(both), options.rounds))
    return measured


def machine() -> dict[str, Any]:
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "tandem": tandem.__version__,
        "peers": {name: version(name) for name in PEERS},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("points", "rows"), default=("points", "rows"))
    parser.add_argument("--keys", nargs="+", type=int, default=[10_000, 1_000_000], metavar="N")
    parser.add_argument("--batch", type=int, default=1024, metavar="ROWS", help="rows of a call")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="goals.md, times.json, and the plots")
    options = parser.parse_args()
    if min(options.keys) < 1 or options.rounds < 1 or not 1 <= options.batch <= rows.GETMULTI_ROWS:
        parser.error(f"keys and rounds are at least 1, and a batch is 1 to {rows.GETMULTI_ROWS:,} rows")

    print("\n".join(f"{name}: {value}" for name, value in machine().items()), "\n", flush=True)
    measured = measure(options)
    judged = [verdict for each in measured for verdict in verdicts(each)]
    goals = goals_table(judged)
    print(f"{goals}\n\nload at the end: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "goals.md").write_text(goals + "\n")
        document = {"machine": machine(), "measured": [asdict(each) for each in measured]}
        (options.out / "times.json").write_text(json.dumps(document, indent=1) + "\n")
        try:
            import plot
        except ImportError:
            print("no plots: matplotlib is not installed", file=sys.stderr)
        else:
            for path in plot.draw(measured, options.out):
                print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
