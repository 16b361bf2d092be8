"""The result of a report in one line, and the choice of its pictures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from . import style
from .model import Results, at, by, clean, in_order
from .picture import Picture

DRAWN_MOST = 8
CEILINGS = ("floor", "two-lines", "copy")  # no stores: upper bounds of the machine
NOT_DRAWN = (
    f"Not drawn: a report draws the {DRAWN_MOST} pictures that say most, and those of papers. The numbers are here."
)


def plain_name(subject: str) -> str:
    """memcached of "memcached 1.6.18"."""
    return subject.split(" ")[0]


def rank_of(entry: dict) -> tuple[bool, int]:
    """Order of interest: Tandem compared with memcached, then with other servers, then with the floor."""
    base = plain_name(entry["base"])
    return plain_name(entry["subject"]) != "tandem", {"memcached": 0, "floor": 2}.get(base, 1)


def ratio_text(ratio: float) -> str:
    digits = 0 if ratio >= 10 else 1 if ratio >= 1 else 2
    return f"{ratio:.{digits}f}\N{MULTIPLICATION SIGN}"


def compared(results: Results, machine: int) -> str:
    """Like bench/compare/headline.hpp, for one document."""
    entries = [e for d in results.documents if d.machine == machine for e in d.raw.get("comparisons", [])]

    def of(metric: str, phase: str) -> list[dict]:
        found = [e for e in entries if e["metric"] == metric and e.get("phase", "") == phase]
        return [e for e in found if e["ratio"]["median"] > 0]

    def mean(some: Sequence[dict]) -> float:
        return math.exp(statistics.fmean(math.log(e["ratio"]["median"]) for e in some))

    rates = of("ops_per_s", "closed")
    if not rates:
        return ""
    best = min(rates, key=rank_of)
    pair = (best["subject"], best["base"])
    rates = [e for e in rates if (e["subject"], e["base"]) == pair]
    tails = [e for e in of("latency_p99_us", "equal rate") if (e["subject"], e["base"]) == pair]
    tails = tails or [e for e in of("latency_p99_us", "closed") if (e["subject"], e["base"]) == pair]
    who = "" if plain_name(pair[0]) == "tandem" else f"{plain_name(pair[0])}: "
    tail = f", p99 {ratio_text(mean(tails))}" if tails else ""
    cells = in_order(e["cell"] for e in rates)
    over = f"geometric means of {len(cells)} loads" if len(cells) > 1 else cells[0]
    whose = f"{plain_name(pair[1])}\N{RIGHT SINGLE QUOTATION MARK}s"
    return clean(f"{who}{ratio_text(mean(rates))} {whose} throughput{tail} ({over})")


def fastest(results: Results, machine: int) -> str:
    """The fastest of the runs without a server for comparison."""
    for kind, where in (("load", ""), ("engine", " in process")):
        runs = [r for r in results.select(machine, kind) if at(r.result, "ops_per_s") and r.subject not in CEILINGS]
        runs = [r for r in runs if plain_name(r.subject) == "tandem"] or runs
        medians = [
            (statistics.median(r.result["ops_per_s"] for r in some), subject, cell)
            for (subject, cell), some in by(runs, lambda r: (r.subject, r.cell)).items()
        ]
        if medians:
            rate, subject, cell = max(medians)
            return f"{subject}: {style.short(rate)} operations per second{where} ({cell})"
    return ""


def smallest(results: Results, machine: int) -> str:
    """Memory per item of each store."""
    sizes = [
        (plain_name(r.subject) != "tandem", r.subject, at(r.result, "memory", "bytes_per_item"))
        for r in results.select(machine, "memory")
    ]
    told = {subject: f"{style.significant(size)} ({subject})" for _, subject, size in sorted(sizes) if size}
    return f"Bytes of memory per item: {', '.join(list(told.values())[:3])}" if told else ""


def experiments(results: Results, machine: int) -> str:
    """The papers with measured figures."""
    figures = [f for d in results.documents if d.machine == machine for f in d.raw.get("figures", [])]
    told = [f"{len(some)} of {clean(paper)}" for paper, some in by(figures, lambda f: f["paper"]).items()]
    return f"Figures of papers: {', '.join(told)}" if told else ""


def headline(results: Results) -> str:
    """The headline of the first machine that has one."""
    for told in (compared, fastest, smallest, experiments):
        for machine in range(len(results.machines)):
            if line := told(results, machine):
                return line
    return f"{len(results.runs)} runs"


def choose(sections: Sequence[Sequence[Picture]]) -> None:
    """Selects DRAWN_MOST pictures: the first of each section before any section's second, minor ones last. Figures of
    papers do not count: each stands for itself."""
    ranked = [
        ((picture.is_minor, place, number), picture)
        for number, section in enumerate(sections)
        for place, picture in enumerate(p for p in section if p.draw and not p.is_always_drawn)
    ]
    for _, picture in sorted(ranked, key=lambda entry: entry[0])[DRAWN_MOST:]:
        picture.draw = None
        picture.caption = f"{NOT_DRAWN} {picture.caption}"
