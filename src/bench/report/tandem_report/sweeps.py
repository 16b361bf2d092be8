"""Throughput against one setting: threads, pipeline depth, batch size and the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from . import style
from .model import CLOSED, Group, Results, Run, Spread, by, by_purpose, clean, in_order, settings_key
from .picture import Cell, Picture, slug_of, whiskers
from .style import Looks

SCALING = "Scaling with threads"
DEPTH = "Batches and pipelines"


@dataclass(frozen=True)
class Sweep:
    """A setting to draw against, and the settings that follow from it."""

    setting: str
    label: str
    section: str
    follows: tuple[str, ...] = ()
    is_threads: bool = False


SWEEPS = (
    Sweep("threads", "threads", SCALING, ("processors", "connections"), is_threads=True),
    Sweep(
        "server_threads", "threads of the server", SCALING, ("processors", "threads", "connections"), is_threads=True
    ),
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
    """Groups whose settings differ in nothing but the setting, for each such family."""
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
    """What tells a family from the others of its sweep."""
    own = families[index][0].settings
    keys = in_order(k for family in families for k in family[0].settings)
    keys = [k for k in keys if k != sweep.setting and k not in sweep.follows]
    differing = [k for k in keys if len({str(f[0].settings.get(k)) for f in families}) > 1]
    if not differing:
        return told(own, [k for k in ("workload", "protocol") if k in own])
    return told(own, differing)


def picture(families: list[list[Group]], index: int, sweep: Sweep, looks: Looks, subtitle: str) -> Picture:
    groups = families[index]
    subjects = sorted({g.subject for g in groups}, key=list(looks.looks).index)
    name = name_of(families, index, sweep)
    title = f"Throughput against {sweep.label}" + (f": {name}" if name else "")
    lines: dict[str, list[tuple[float, Spread, Group]]] = {
        s: sorted(
            ((g.settings[sweep.setting], g.spread("ops_per_s"), g) for g in groups if g.subject == s),
            key=lambda p: p[0],
        )
        for s in subjects
    }
    xs = sorted({x for points in lines.values() for x, _, _ in points})

    def draw() -> Figure:
        figure = style.new_figure(title, subtitle, 3.2)
        axes = figure.subplots()
        for subject, points in lines.items():
            look = looks[subject]
            axes.errorbar(
                [x for x, _, _ in points],
                [s.median for _, s, _ in points],
                yerr=[[s.median - s.low for _, s, _ in points], [s.high - s.median for _, s, _ in points]],
                color=look.colour,
                marker=look.marker,
                elinewidth=1.1,
                capsize=2.5,
            )
            if sweep.is_threads and len(points) > 1:
                first_x, first, _ = points[0]
                scaled = [first.median * x / first_x for x in xs if x >= first_x]
                axes.plot([x for x in xs if x >= first_x], scaled, color=look.colour, linewidth=0.9, linestyle=":")
        heights = [v for points in lines.values() for _, s, _ in points for v in (s.low, s.high)]
        wide = style.value_axis(axes, "y", heights)
        axes.set_ylabel("operations per second" + ("; logarithmic" if wide else ""))
        if style.is_wide(xs):
            axes.set_xscale("log")
        style.tick_at(axes, "x", xs, [style.short(x) for x in xs])
        axes.set_xlabel(sweep.label + ("; logarithmic" if style.is_wide(xs) else ""))
        style.finish(figure, [style.line_handle(looks[s]) for s in subjects], subjects)
        return figure

    rows: list[list[Cell]] = []
    for subject, points in lines.items():
        for x, spread, g in points:
            row: list[Cell] = [subject, x, spread]
            if sweep.is_threads:
                row.append(spread.median / points[0][1].median)
            rows.append([*row, g.runs])
    speedup = ["times the first"] if sweep.is_threads else []
    ideal = " Dotted: as many times the first as there are threads." if sweep.is_threads else ""
    return Picture(
        slug_of(sweep.setting, str(index + 1) if len(families) > 1 else ""),
        sweep.section,
        title,
        draw,
        ["subject", sweep.label, "ops/s", *speedup, "runs"],
        rows,
        whiskers([len(g.runs) for g in groups]) + ideal,
        [run for g in groups for run in g.runs],
    )


def pictures(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    runs = results.select(machine, "load", "engine")
    runs = by_purpose(runs)[CLOSED]
    found = []
    for sweep in SWEEPS:
        families = find(runs, sweep)
        found += [picture(families, i, sweep, looks, subtitle) for i in range(len(families))]
    return found
