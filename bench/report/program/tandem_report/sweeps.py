"""Throughput against one setting: threads, pipeline depth, batch size and the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import style
from .model import CLOSED, Group, Results, Run, Spread, by, by_purpose, clean, in_order, settings_key
from .picture import Cell, Picture, slug_of, whiskers
from .style import Looks

SCALING = "Scaling with threads"
DEPTH = "Batches and pipelines"


@dataclass(frozen=True)
class Sweep:
    """A setting to draw against, and the settings that depend on it."""

    setting: str
    label: str
    section: str
    follows: tuple[str, ...] = ()
    is_threads: bool = False


PLACES = ("processors", "load_processors", "connections")
SWEEPS = (
    Sweep("threads", "threads", SCALING, PLACES, is_threads=True),
    Sweep("server_threads", "threads of the server", SCALING, (*PLACES, "threads"), is_threads=True),
    Sweep("pipeline", "requests in flight per connection", DEPTH),
    Sweep("multiget", "keys per get", DEPTH),
    Sweep("batch", "queries per batch", DEPTH),
    Sweep("strip", "queries per strip", DEPTH),
    Sweep("connections", "connections", DEPTH),
)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def base_of(run: Run, sweep: Sweep) -> str:
    return settings_key(run.settings, (sweep.setting, *sweep.follows, "name"))


def told(settings: dict, keys: Sequence[str]) -> str:
    return ", ".join(f"{clean(k).replace('_', ' ')} {clean(settings[k])}" for k in keys if k in settings)


def find(runs: list[Run], sweep: Sweep) -> list[list[Group]]:
    """Families of groups that differ only in this setting."""
    runs = [run for run in runs if is_number(run.settings.get(sweep.setting)) and "ops_per_s" in run.result]
    families = []
    for some in by(runs, lambda run: (run.kind, base_of(run, sweep))).values():
        merged: dict[tuple[str, float], Group] = {}
        for run in some:
            key = (run.subject, run.settings[sweep.setting])
            merged.setdefault(key, Group(run.cell, run.subject, run.settings)).runs.append(run)
        if len({x for _, x in merged}) > 1:
            families.append(list(merged.values()))
    return families


def name_of(families: list[list[Group]], index: int, sweep: Sweep) -> str:
    """The settings that distinguish a family within its sweep."""
    own = families[index][0].settings
    keys = in_order(k for family in families for k in family[0].settings)
    keys = [k for k in keys if k != sweep.setting and k not in sweep.follows]
    differing = [k for k in keys if len({str(f[0].settings.get(k)) for f in families}) > 1]
    if not differing:
        return told(own, [k for k in ("workload", "protocol") if k in own])
    return told(own, differing)


PANELS = 6
Points = dict[str, list[tuple[float, Spread, Group]]]  # by subject


def points_of(groups: list[Group], sweep: Sweep, subjects: Sequence[str]) -> Points:
    points = {
        s: [(g.settings[sweep.setting], g.spread("ops_per_s"), g) for g in groups if g.subject == s] for s in subjects
    }
    return {s: sorted(some, key=lambda p: p[0]) for s, some in points.items() if some}


def draw_panel(axes: Axes, lines: Points, sweep: Sweep, looks: Looks, name: str) -> None:
    xs = sorted({x for points in lines.values() for x, _, _ in points})
    for subject, points in lines.items():
        look = looks[subject]
        axes.errorbar(
            [x for x, _, _ in points],
            [s.median for _, s, _ in points],
            yerr=style.whisker([(s.median, s.low, s.high) for _, s, _ in points]),
            color=look.colour,
            marker=look.marker,
            elinewidth=1.1,
            capsize=2.5,
        )
        if sweep.is_threads and len(points) > 1:
            first_x, first, _ = points[0]
            later = [x for x in xs if x >= first_x]
            axes.plot(
                later, [first.median * x / first_x for x in later], color=look.colour, linewidth=0.9, linestyle=":"
            )
    heights = [v for points in lines.values() for _, s, _ in points for v in (s.low, s.high)]
    wide = style.value_axis(axes, "y", heights)
    axes.set_ylabel("operations per second" + ("; logarithmic" if wide else ""))
    is_wide = style.is_wide(xs) and min(xs) > 0
    if is_wide:
        axes.set_xscale("log")
    style.tick_at(axes, "x", xs, [style.significant(x) for x in xs])
    axes.set_xlabel(sweep.label + ("; logarithmic" if is_wide else ""))
    axes.set_title(style.plain(name, 60))


def picture(families: list[list[Group]], first: int, sweep: Sweep, looks: Looks, subtitle: str) -> Picture:
    """Up to PANELS families from `first` on."""
    chosen = families[first : first + PANELS]
    groups = [g for family in chosen for g in family]
    subjects = sorted({g.subject for g in groups}, key=list(looks.looks).index)
    names = [name_of(families, first + i, sweep) for i in range(len(chosen))]
    panels = [points_of(family, sweep, subjects) for family in chosen]
    title = f"Throughput against {sweep.label}"
    if len(chosen) == 1 and names[0]:
        title += f": {names[0]}"
    elif len(families) > PANELS:
        title += f" ({first // PANELS + 1})"

    def draw() -> Figure:
        columns = min(2, len(chosen))
        rows = -(-len(chosen) // columns)
        figure = style.new_figure(title, subtitle, 3.2 if rows == 1 else 2.5 * rows)
        grid = figure.subplots(rows, columns, squeeze=False).flat
        for axes, lines, name in zip(grid, panels, names, strict=False):
            draw_panel(axes, lines, sweep, looks, name if len(chosen) > 1 else "")
        for axes in list(figure.axes)[len(chosen) :]:
            axes.set_visible(False)
        style.finish(figure, [style.line_handle(looks[s]) for s in subjects], subjects)
        return figure

    table: list[list[Cell]] = []
    for lines, name in zip(panels, names, strict=True):
        for subject, points in lines.items():
            for x, spread, g in points:
                row: list[Cell] = [name, subject, x, spread]
                if sweep.is_threads:
                    row.append(spread.median / points[0][1].median)
                table.append([*row, g.runs])
    speedup = ["times the first"] if sweep.is_threads else []
    ideal = " Dotted: as many times the first as there are threads." if sweep.is_threads else ""
    return Picture(
        slug_of(sweep.setting),
        sweep.section,
        title,
        draw,
        ["of", "subject", sweep.label, "ops/s", *speedup, "runs"],
        table,
        whiskers([len(g.runs) for g in groups]) + ideal,
        [run for g in groups for run in g.runs],
    )


def pictures(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    runs = by_purpose(results.select(machine, "load", "engine"))[CLOSED]
    found = []
    for sweep in SWEEPS:
        families = find(runs, sweep)
        found += [picture(families, first, sweep, looks, subtitle) for first in range(0, len(families), PANELS)]
    return found
