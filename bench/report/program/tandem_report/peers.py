"""Servers side by side: throughput, CPU time, latency at a fixed rate, and the ratios of the document."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from . import style
from .model import CLOSED, FIXED, Group, Results, Run, Spread, by, by_purpose, clean, group, in_order
from .picture import Cell, Dots, Picture, dots_table, draw_dots, slug_of, whiskers
from .style import Looks

SECTION = "Side by side"
IN_PROCESS = "In process"


def label_rows(groups: list[Group]) -> dict[int, str]:
    """A name for each group's row: its cell, and the settings that differ among groups of that cell and one subject."""
    names: dict[int, str] = {}
    for cell, same in by(groups, lambda g: g.cell).items():
        differing: list[str] = []
        for some in by(same, lambda g: g.subject).values():
            keys = in_order(key for g in some for key in g.settings)
            differing += [k for k in keys if len({str(g.settings.get(k)) for g in some}) > 1 and k != "rate"]
        for g in same:
            told = ", ".join(f"{clean(k)} {clean(g.settings.get(k))}" for k in in_order(differing))
            names[id(g)] = f"{cell}: {told}" if told else cell
    return names


def side_by_side(
    groups: list[Group],
    path: tuple[str, ...],
    looks: Looks,
    title: str,
    subtitle: str,
    label: str,
    note: str,
    slug: str,
) -> Picture | None:
    names = label_rows(groups)
    known = [(names[id(g)], g, spread) for g in groups if (spread := g.spread(*path))]
    if not known:
        return None
    rows = in_order(name for name, _, _ in known)
    subjects = sorted({g.subject for _, g, _ in known}, key=list(looks.looks).index)
    table: dict[tuple[str, str], tuple[Spread, list[Run]]] = {(n, g.subject): (s, g.runs) for n, g, s in known}
    dots = Dots(rows, {s: [table.get((row, s), (None, []))[0] for row in rows] for s in subjects})
    formatter: Callable = style.duration_us if path[0] == "latency_us" else style.short
    header, lines = dots_table("cell", dots, lambda i, s: table.get((rows[i], s), (None, []))[1])
    return Picture(
        slug,
        SECTION,
        title,
        lambda: draw_dots(title, subtitle, label, dots, looks, formatter),
        header,
        lines,
        f"{note} {whiskers([s.rounds for _, _, s in known])}",
        [run for _, g, _ in known for run in g.runs],
    )


METRICS = {
    "server_cpu_us_per_op": "server CPU time per operation",
    "ops_per_s": "operations per second",
    "latency_p50_us": "median latency",
    "latency_p90_us": "90th percentile of the latency",
    "latency_p99_us": "99th percentile of the latency",
    "latency_p99.9_us": "99.9th percentile of the latency",
    "resident_bytes": "resident memory",
    "energy_uj_per_op": "energy per operation",
    "bytes_per_item": "resident bytes per item",
    "items": "items that fit",
}
# In a phase without a name all are drawn; a table shows the rest.
DRAWN = {
    "closed": ("server_cpu_us_per_op", "ops_per_s", "energy_uj_per_op"),
    "equal rate": ("latency_p99_us", "latency_p99.9_us"),
}
PHASES = {"closed": "closed loop", "equal rate": "at an equal rate"}


def spread_of(ratio: dict, rounds: int) -> Spread:
    return Spread(ratio["median"], ratio.get("low", ratio["median"]), ratio.get("high", ratio["median"]), rounds)


def runs_behind(runs: list[Run], cell: str, phase: str, subjects: tuple[str, ...]) -> list[Run]:
    return [r for r in runs if r.cell == cell and r.subject in subjects and (not phase or r.phase == phase)]


def ratios(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    entries = [
        (results.shown_subject(entry["subject"], document.raw, results.builds), entry)
        for document in results.documents
        if document.machine == machine
        for entry in document.raw.get("comparisons", [])
    ]

    def is_drawn(entry: dict) -> bool:
        drawn = DRAWN.get(entry.get("phase", ""))
        return drawn is None or entry["metric"] in drawn

    runs = results.select(machine, "load", "memory", "engine")
    drawn = by(
        ((subject, entry) for subject, entry in entries if is_drawn(entry)),
        lambda e: (e[1]["metric"], e[1]["base"], e[1]["better"], e[1].get("phase", "")),
    )
    found = [ratio_picture(key, some, runs, looks, subtitle) for key, some in drawn.items()]
    others = [(subject, entry) for subject, entry in entries if not is_drawn(entry)]
    if others:
        found.append(other_ratios(others, runs))
    return found


def ratio_picture(
    key: tuple[str, str, str, str], some: list[tuple[str, dict]], runs: list[Run], looks: Looks, subtitle: str
) -> Picture:
    metric, raw_base, better, phase = key
    base = clean(raw_base)
    shown = METRICS.get(metric, clean(metric).replace("_", " "))
    rows = in_order(clean(entry["cell"]) for _, entry in some)
    values: dict[str, list[Spread | None]] = {}
    goals: dict[str, float] = {}
    for subject, entry in some:
        cell = clean(entry["cell"])
        values.setdefault(subject, [None] * len(rows))[rows.index(cell)] = spread_of(
            entry["ratio"], entry.get("rounds", 1)
        )
        if "goal" in entry:
            goals[cell] = entry["goal"]
    dots = Dots(rows, dict(sorted(values.items(), key=lambda item: list(looks.looks).index(item[0]))))
    goal_list = [goals.get(row) for row in rows] if goals else None

    def runs_of(i: int, subject: str) -> list[Run]:
        return runs_behind(runs, rows[i], phase, (subject, base))

    header, lines = dots_table("cell", dots, runs_of)
    if goal_list:
        header[-1:] = ["goal", header[-1]]
        for line, goal in zip(lines, goal_list, strict=True):
            line[-1:] = [goal, line[-1]]
    behind = [run for i in range(len(rows)) for subject in values for run in runs_of(i, subject)]
    told = f"{shown[:1].upper()}{shown[1:]}, ratio to {base}" + (
        f", {PHASES.get(phase, clean(phase))}" if phase else ""
    )

    def draw() -> Figure:
        label = f"ratio to {base} (1: equal; {better} is better)"
        return draw_dots(told, subtitle, label, dots, looks, lambda v, _=None: f"{v:.3g}", line_at=1, goals=goal_list)

    medians = whiskers([s.rounds for one in values.values() for s in one if s])
    return Picture(
        slug_of("ratio", metric, base, phase),
        IN_PROCESS if behind and all(run.kind == "engine" for run in behind) else SECTION,
        told,
        draw,
        header,
        lines,
        f"{better.capitalize()} is better. Ratios are taken within a round. {medians}",
        behind,
        is_minor=True,  # of one base; the values themselves share one axis
    )


def other_ratios(some: list[tuple[str, dict]], runs: list[Run]) -> Picture:
    lines: list[list[Cell]] = []
    for subject, entry in some:
        cell, base, phase = clean(entry["cell"]), clean(entry["base"]), entry.get("phase", "")
        shown = METRICS.get(entry["metric"], clean(entry["metric"]).replace("_", " "))
        behind = runs_behind(runs, cell, phase, (subject, base))
        spread = spread_of(entry["ratio"], entry.get("rounds", 1))
        lines.append([cell, PHASES.get(phase, clean(phase)), shown, subject, base, spread, entry["better"], behind])
    return Picture(
        "ratios",
        SECTION,
        "Other ratios",
        None,
        ["cell", "loop", "of", "subject", "base", "ratio", "better", "runs"],
        lines,
        "Ratios of the document that no picture shows.",
        [run for line in lines for run in line[-1]],
    )


def pictures(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    runs = results.select(machine, "load")
    purposes = by_purpose(runs)
    closed = group(purposes[CLOSED])
    fixed = group(purposes[FIXED], ignored=("rate",))
    found = [
        side_by_side(
            closed,
            ("ops_per_s",),
            looks,
            "Throughput, closed loop",
            subtitle,
            "operations per second",
            "Each connection sends its next requests when the last are answered; the client may be the limit.",
            "throughput",
        ),
        side_by_side(
            closed,
            ("server", "cpu_us_per_op"),
            looks,
            "Server CPU time per operation",
            subtitle,
            "µs of the server's processors per operation",
            "User and system time of the server's process, divided by the operations.",
            "server-cpu",
        ),
        *ratios(results, machine, looks, subtitle),
        *(
            side_by_side(
                fixed,
                ("latency_us", name),
                looks,
                f"Latency at an equal rate, {name}",
                subtitle,
                f"{name} of the latency",
                "Open loop: requests are sent at a fixed rate, and latency counts from when each was due.",
                f"latency-{name.replace('.', '-')}",
            )
            for name in ("p50", "p99", "p99.9")
        ),
        side_by_side(
            [g for g in closed if g.subject != "floor"] if not fixed else [],
            ("latency_us", "p99"),
            looks,
            "Latency in a closed loop, p99",
            subtitle,
            "p99 of the latency",
            "Closed loop: a slow reply delays the next request, so that stalls count less than they hurt.",
            "latency-closed-p99",
        ),
    ]
    return [picture for picture in found if picture]
