"""Runs of several documents, named, grouped and summarised for the pictures."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .schema import ERROR_COUNTS

CELL_OF_ERROR = {
    "wrong_values": "wrong values",
    "wrong_replies": "wrong replies",
    "unexpected_misses": "unexpected misses",
    "timeouts": "timeouts",
    "connection": "connection errors",
}


def clean(value: object) -> str:
    """Makes a document's text printable: no control characters, no unpaired surrogates."""
    whole = str(value).encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() else " " for c in whole)


def at(record: dict, *path: str) -> Any:
    """The value at a path of keys; None if absent."""
    for key in path:
        if not isinstance(record, dict) or key not in record:
            return None
        record = record[key]
    return record


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of the rounds' values."""

    median: float
    low: float
    high: float
    rounds: int

    @staticmethod
    def of(values: Iterable[float | None]) -> Spread | None:
        known = [v for v in values if v is not None]
        return Spread(statistics.median(known), min(known), max(known), len(known)) if known else None


@dataclass
class Run:
    number: int  # in the report, from 1
    document: int
    machine: int
    subject: str  # as shown
    raw: dict

    @property
    def name(self) -> str:
        return f"R{self.number}"

    @property
    def kind(self) -> str:
        return self.raw["kind"]

    @property
    def cell(self) -> str:
        return clean(self.raw["cell"])

    @property
    def phase(self) -> str:
        return self.raw.get("phase", "")

    @property
    def void(self) -> str:
        """Why the run says nothing about its subject; empty: it is valid."""
        return clean(self.raw.get("void", ""))

    @property
    def round(self) -> int:
        return self.raw.get("round", 0)

    @property
    def command(self) -> str:
        return clean(self.raw["command"])

    @property
    def settings(self) -> dict:
        return self.raw.get("settings", {})

    @property
    def result(self) -> dict:
        return self.raw["result"]

    @property
    def rate(self) -> float:
        """Operations per second of an open loop; 0: closed loop."""
        rate = self.settings.get("rate", 0)
        return rate if isinstance(rate, (int, float)) else 0

    @cached_property
    def errors(self) -> list[str]:
        counts = self.result.get("errors", {})
        return [f"{counts[name]:,} {CELL_OF_ERROR[name]}" for name in ERROR_COUNTS if counts.get(name)]


@dataclass
class Group:
    """The rounds of one measurement."""

    cell: str
    subject: str
    settings: dict
    runs: list[Run] = field(default_factory=list)

    def spread(self, *path: str) -> Spread | None:
        return Spread.of(at(run.result, *path) for run in self.runs)

    @property
    def rate(self) -> float:
        return statistics.median(run.rate for run in self.runs)


def settings_key(settings: dict, ignored: Iterable[str] = ()) -> str:
    return json.dumps({k: v for k, v in sorted(settings.items()) if k not in set(ignored)})


@dataclass
class Machine:
    description: dict
    name: str = ""  # "machine A" if there are several


@dataclass
class Document:
    number: int
    path: str
    raw: dict
    machine: int
    label: str  # version and commit


DISTURBED = 0.05  # share of a processor

# Properties that may differ between two documents of one machine.
PASSING = ("load_average", "governor")


class Results:
    """All documents. Colours, names of subjects and numbers of runs are common to the whole report."""

    def __init__(self, files: list[tuple[str, dict]]) -> None:
        self.documents: list[Document] = []
        self.machines: list[Machine] = []
        self.runs: list[Run] = []
        known: dict[str, int] = {}
        builds = {build_of(raw) for _, raw in files}
        for path, raw in files:
            key = settings_key(raw["machine"], PASSING)
            if key not in known:
                known[key] = len(self.machines)
                self.machines.append(Machine(raw["machine"]))
            document = Document(len(self.documents), clean(path), raw, known[key], build_of(raw))
            for entry in raw["runs"]:
                subject = self.shown_subject(entry["subject"], raw, builds)
                self.runs.append(Run(len(self.runs) + 1, len(self.documents), document.machine, subject, entry))
            self.documents.append(document)
        if len(self.machines) > 1:
            for i, machine in enumerate(self.machines):
                machine.name = f"machine {i + 1}"
        self.builds = builds
        self.subjects = sorted({run.subject for run in self.runs} | set(self.compared_subjects()))

    @staticmethod
    def shown_subject(subject: str, raw: dict, builds: set[str]) -> str:
        """Distinguishes two builds of Tandem in one report."""
        shown = clean(subject)
        return f"{shown} {build_of(raw)}" if len(builds) > 1 and shown.split(" ")[0] == "tandem" else shown

    def compared_subjects(self) -> Iterable[str]:
        for document in self.documents:
            for comparison in document.raw.get("comparisons", []):
                yield self.shown_subject(comparison["subject"], document.raw, self.builds)

    def run_of(self, document: int, index: int) -> Run:
        first = next(i for i, run in enumerate(self.runs) if run.document == document)
        return self.runs[first + index]

    def select(self, machine: int, *kinds: str) -> list[Run]:
        """Excludes the runs that say nothing about their subject, and those of a paper's figures, which draw them."""
        drawn = {document.number for document in self.documents if document.raw.get("figures")}
        runs = [run for run in self.runs if run.machine == machine and run.kind in kinds and not run.void]
        return [run for run in runs if run.document not in drawn]

    def disturbance(self) -> list[tuple[str, str]]:
        """Other processes' use of the servers' processors, if measured and significant."""
        shares = [at(run.result, "server", "foreign_share") for run in self.runs]
        spread = Spread.of(shares)
        if spread is None or spread.median < DISTURBED:
            return []
        told = f"{spread.median:.0%} (most: {spread.high:.0%}) of the servers' processors"
        return [(f"Other processes took {told}: single rates and latencies do not hold.", f"{spread.rounds} runs")]


def build_of(raw: dict) -> str:
    commit = raw.get("commit", "unknown")
    return clean(raw["version"] + ("" if commit == "unknown" else f" ({commit[:12]})"))


def group(runs: Iterable[Run], ignored: Iterable[str] = ()) -> list[Group]:
    """Rounds of the same cell, subject and settings, in the order in which they ran."""
    groups: dict[tuple, Group] = {}
    for run in runs:
        key = (run.cell, run.subject, settings_key(run.settings, ignored))
        groups.setdefault(key, Group(run.cell, run.subject, run.settings)).runs.append(run)
    return list(groups.values())


CLOSED, FIXED, SWEEP = "closed", "fixed", "sweep"
PURPOSES = {"closed": CLOSED, "equal rate": FIXED, "sweep": SWEEP, "search": SWEEP}


def by_purpose(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Closed loops, open loops at one rate, and open loops at several. A run that does not say is one of several if its
    round has several rates: each round may have found its own rate."""
    runs = list(runs)
    rates: dict[tuple[str, str, int], set[float]] = {}
    for run in runs:
        if run.rate > 0 and not run.phase:
            rates.setdefault((run.cell, run.subject, run.round), set()).add(run.rate)
    swept = {(cell, subject) for (cell, subject, _), some in rates.items() if len(some) > 1}
    result: dict[str, list[Run]] = {CLOSED: [], FIXED: [], SWEEP: []}
    for run in runs:
        told = SWEEP if (run.cell, run.subject) in swept else FIXED
        result[PURPOSES.get(run.phase, told if run.rate > 0 else CLOSED)].append(run)
    return result


def in_order(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order of the first."""
    return list(dict.fromkeys(values))


def by(items: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    result: dict[Any, list[Any]] = {}
    for item in items:
        result.setdefault(key(item), []).append(item)
    return result


def merged_histogram(runs: Iterable[Run]) -> tuple[list[float], list[int]]:
    """Bounds and counts of all runs' histograms together."""
    counts: dict[float, int] = {}
    for run in runs:
        histogram = run.result.get("histogram")
        if histogram:
            for upper, n in zip(histogram["upper"], histogram["counts"], strict=True):
                counts[upper] = counts.get(upper, 0) + n
    bounds = sorted(upper for upper, n in counts.items() if n)
    return bounds, [counts[upper] for upper in bounds]


def percentile(bounds: list[float], counts: list[int], percent: float) -> float:
    """The bound that at least `percent` per cent of the values do not exceed."""
    wanted = sum(counts) * percent / 100
    seen = 0
    for upper, n in zip(bounds, counts, strict=True):
        seen += n
        if seen >= wanted:
            return upper
    return bounds[-1]
