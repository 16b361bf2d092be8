"""Latency: against throughput, as distributions, and over time."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import style
from .model import (
    CLOSED,
    FIXED,
    SWEEP,
    Group,
    Results,
    Run,
    at,
    by,
    by_purpose,
    clean,
    group,
    in_order,
    merged_histogram,
    percentile,
)
from .picture import Cell, Picture, slug_of, whiskers
from .style import Looks

CURVES = "Latency under load"
DISTRIBUTIONS = "Distributions of the latency"
TIMELINES = "Over time"
SHOWN = ("p50", "p99", "p99.9")


def curves(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    runs = by_purpose(results.select(machine, "load"))[SWEEP]
    return [
        curve(results, machine, cell, group(some), looks, subtitle)
        for cell, some in by(runs, lambda run: run.cell).items()
    ]


def curve(results: Results, machine: int, cell: str, groups: list[Group], looks: Looks, subtitle: str) -> Picture:
    subjects = sorted({g.subject for g in groups}, key=list(looks.looks).index)
    names = [name for name in SHOWN if any(g.spread("latency_us", name) for g in groups)]
    searches = [
        (results.shown_subject(search["subject"], document.raw, results.builds), search)
        for document in results.documents
        if document.machine == machine
        for search in document.raw.get("searches", [])
        if clean(search["cell"]) == cell
    ]
    title = f"Throughput against latency: {cell}"

    def draw() -> Figure:
        figure = style.new_figure(title, subtitle, 3.3)
        panels = figure.subplots(1, max(1, len(names)), sharey=True, squeeze=False)[0]
        everything = []
        for axes, name in zip(panels, names, strict=False):
            for subject in subjects:
                points = sorted(
                    (g.spread("ops_per_s").median, g.spread("latency_us", name))
                    for g in groups
                    if g.subject == subject and g.spread("ops_per_s") and g.spread("latency_us", name)
                )
                look = looks[subject]
                everything += [v for _, s in points for v in (s.low, s.high)]
                axes.errorbar(
                    [x for x, _ in points],
                    [s.median for _, s in points],
                    yerr=style.whisker([(s.median, s.low, s.high) for _, s in points]),
                    color=look.colour,
                    marker=look.marker,
                    elinewidth=1,
                    capsize=2,
                )
            style.linear_axis(axes, "x")
            axes.set_title(name)
            axes.set_xlabel("operations per second")
            for subject, search in searches:
                if f"p{search['percentile']:g}" == name:
                    everything.append(search["limit_us"])
                    axes.axhline(search["limit_us"], color=style.INK, linewidth=1, linestyle=(0, (4, 3)))
                    if search["highest_rate"]:
                        axes.axvline(search["highest_rate"], color=looks[subject].colour, linewidth=1, linestyle=":")
        for axes in panels:
            style.log_axis(axes, "y", everything, style.duration_us)
        panels[0].set_ylabel("latency; logarithmic")
        style.finish(figure, [style.line_handle(looks[s]) for s in subjects], subjects)
        return figure

    rows: list[list[Cell]] = []
    for subject in subjects:
        for g in sorted((g for g in groups if g.subject == subject), key=lambda g: g.rate):
            row: list[Cell] = [subject, g.rate, g.spread("ops_per_s")]
            rows.append(row + [g.spread("latency_us", name) for name in names] + [g.runs])
    notes = []
    for subject, search in searches:
        wanted = f"p{search['percentile']:g} of at most {style.significant(search['limit_us'])} µs"
        if search["highest_rate"]:
            notes.append(
                f"{subject}: {style.significant(search['highest_rate'], 6)} ops/s is the highest rate at {wanted}."
            )
        else:
            notes.append(f"{subject}: no rate that was tried has a {wanted}.")
    return Picture(
        slug_of("latency-throughput", cell),
        CURVES,
        title,
        draw,
        ["subject", "wanted ops/s", "ops/s", *(f"{name}, µs" for name in names), "runs"],
        rows,
        "Open loop: requests are sent at a fixed rate, and latency counts from when each was due. "
        + whiskers([len(g.runs) for g in groups])
        + (" Dashed: the limit of the search; dotted: the highest rate within it." if searches else ""),
        [run for g in groups for run in g.runs],
        notes,
    )


# --- distributions ----------------------------------------------------------------------------------------------------

PANELS = 6
TAIL = (50, 90, 99, 99.9, 99.99)


def comparable(runs: list[Run]) -> tuple[list[Run], str]:
    """The runs of a cell with comparable distributions: open loops if there are any, of each subject at the highest
    rate that is no higher than what every subject was tried at."""
    purposes = by_purpose(runs)
    if purposes[FIXED]:
        return purposes[FIXED], f"open loop, {rates_of(purposes[FIXED])}"
    if not purposes[SWEEP]:
        return purposes[CLOSED], "closed loop"
    of_subject = by(purposes[SWEEP], lambda run: run.subject)
    common = min(max(run.rate for run in some) for some in of_subject.values())
    chosen = []
    for some in of_subject.values():
        best = max((run.rate for run in some if run.rate <= common), default=min(run.rate for run in some))
        chosen += [run for run in some if run.rate == best]
    return chosen, f"open loop, {rates_of(chosen)}"


def rates_of(runs: list[Run]) -> str:
    rates = sorted(run.rate for run in runs)
    return " to ".join(in_order([style.short(rates[0]), style.short(rates[-1])])) + " ops/s"


def distributions(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    runs = [run for run in results.select(machine, "load") if at(run.result, "histogram", "counts")]
    cells = []
    for cell, some in by(runs, lambda run: run.cell).items():
        chosen, loop = comparable(some)
        cells.append((cell, loop, chosen))
    return [
        distribution(cells[first : first + PANELS], looks, subtitle, first // PANELS + 1, len(cells) > PANELS)
        for first in range(0, len(cells), PANELS)
    ]


def distribution(
    cells: list[tuple[str, str, list[Run]]], looks: Looks, subtitle: str, number: int, numbered: bool
) -> Picture:
    names = [cell for cell, _, _ in cells]
    title = "Distribution of the latency: " + (names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}")
    subjects = sorted({run.subject for _, _, runs in cells for run in runs}, key=list(looks.looks).index)
    merged = {
        (cell, subject): merged_histogram(run for run in runs if run.subject == subject)
        for cell, _, runs in cells
        for subject in subjects
    }

    def draw() -> Figure:
        columns = 1 if len(cells) == 1 else 2
        lines = -(-len(cells) // columns)
        figure = style.new_figure(title, subtitle, 3.4 if lines == 1 else 2.5 * lines)
        grid = figure.subplots(lines, columns, squeeze=False).flat
        for axes, (cell, loop, _) in zip(grid, cells, strict=False):
            everything = []
            for subject in subjects:
                bounds, counts = merged[cell, subject]
                if not bounds:
                    continue
                total, above, xs, ys = sum(counts), sum(counts), [bounds[0]], [1.0]
                for upper, n in zip(bounds, counts, strict=True):
                    above -= n
                    xs.append(upper)
                    ys.append(max(above / total, 1e-9))
                everything += bounds
                axes.step(xs, ys, where="post", color=looks[subject].colour)
                places = [percentile(bounds, counts, p) for p in TAIL]
                axes.plot(
                    places,
                    [1 - p / 100 for p in TAIL],
                    color=looks[subject].colour,
                    marker=looks[subject].marker,
                    linestyle="none",
                )
            style.log_axis(axes, "x", everything, style.duration_us)
            axes.set_yscale("log")
            axes.set_ylim(0.00005, 1.3)
            style.tick_at(
                axes, "y", [1, 0.5, 0.1, 0.01, 0.001, 0.0001], ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]
            )
            axes.invert_yaxis()
            axes.set_title(f"{style.plain(cell, 30)} ({loop})")
            axes.set_ylabel("requests answered")
            axes.set_xlabel("within a latency of; logarithmic")
        for axes in list(figure.axes)[len(cells) :]:
            axes.set_visible(False)
        style.finish(figure, [style.line_handle(looks[s]) for s in subjects], subjects)
        return figure

    rows: list[list[Cell]] = []
    for cell, loop, runs in cells:
        for subject in subjects:
            bounds, counts = merged[cell, subject]
            if bounds:
                behind = [run for run in runs if run.subject == subject]
                row: list[Cell] = [cell, loop, subject, sum(counts)]
                rows.append([*row, *(percentile(bounds, counts, p) for p in TAIL), bounds[-1], behind])
    return Picture(
        slug_of("latency-distribution", str(number) if numbered else "", names[0] if len(names) == 1 else ""),
        DISTRIBUTIONS,
        title,
        draw,
        ["cell", "loop", "subject", "requests", *(f"p{p:g}, µs" for p in TAIL), "most, µs", "runs"],
        rows,
        "The share of requests that were answered within a latency; the vertical axis stretches the slow end. Rounds "
        "are added up. Numbers are upper bounds of the histograms' buckets. Marks: p50, p90, p99, p99.9 and p99.99.",
        [run for _, _, runs in cells for run in runs],
    )


# --- timelines --------------------------------------------------------------------------------------------------------

TIMELINE_LEAST = 3  # points
# Draws series that change over time, and the rest if there is little of it.
CHANGING = ("every_us", "every_ops", "alternate_every_us", "shift_ops", "replay_speed")
TIMELINES_MOST = 6


def timelines(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    runs = [
        run
        for run in results.select(machine, "load", "engine", "restart")
        if len(run.result.get("timeline", [])) >= TIMELINE_LEAST
    ]
    cells = by(runs, lambda run: run.cell)
    if len(cells) > TIMELINES_MOST:
        cells = {cell: some for cell, some in cells.items() if any(some[0].settings.get(key) for key in CHANGING)}
    found = []
    for cell, some in cells.items():
        firsts: dict[str, Run] = {}
        for run in some:
            firsts.setdefault(run.subject, run)
        found.append(timeline(cell, list(firsts.values()), looks, subtitle))
    return found


def timeline(cell: str, runs: list[Run], looks: Looks, subtitle: str) -> Picture:
    title = f"Over time: {cell}"
    has_tail = any("p99" in point for run in runs for point in run.result["timeline"])
    loops = {run.rate > 0 for run in runs}
    loop = "open loop" if loops == {True} else "closed loop" if loops == {False} else "open and closed loops"

    def draw() -> Figure:
        figure = style.new_figure(title, subtitle, 4.2 if has_tail else 2.6)
        panels = figure.subplots(2 if has_tail else 1, 1, sharex=True, squeeze=False)[:, 0]
        tails = []
        for run in runs:
            points = run.result["timeline"]
            look = looks[run.subject]
            rates = [(p["t"], p["ops_per_s"]) for p in points if "ops_per_s" in p]
            panels[0].plot([t for t, _ in rates], [y for _, y in rates], color=look.colour)
            tail = [(p["t"], p["p99"]) for p in points if p.get("p99")]
            tails += [y for _, y in tail]
            if has_tail:
                panels[1].plot([t for t, _ in tail], [y for _, y in tail], color=look.colour)
        style.linear_axis(panels[0], "y")
        panels[0].set_ylabel("operations per second")
        if has_tail:
            style.log_axis(panels[1], "y", tails, style.duration_us)
            panels[1].set_ylabel("p99; logarithmic")
        panels[-1].set_xlabel("seconds")
        panels[-1].set_xlim(0, None)
        handles = [Line2D([], [], color=looks[run.subject].colour) for run in runs]
        style.finish(figure, handles, [run.subject for run in runs])
        return figure

    keys = [
        k for k in ("ops_per_s", "p50", "p99", "max") if any(k in p for run in runs for p in run.result["timeline"])
    ]
    rows: list[list[Cell]] = [
        [run.subject, p["t"], *(p.get(k) for k in keys), [run]] for run in runs for p in run.result["timeline"]
    ]
    units = {"ops_per_s": "ops/s", "p50": "p50, µs", "p99": "p99, µs", "max": "most, µs"}
    return Picture(
        slug_of("timeline", cell),
        TIMELINES,
        title,
        draw,
        ["subject", "s", *(units[k] for k in keys), "run"],
        rows,
        f"The first round of each subject, {loop}.",
        runs,
    )
