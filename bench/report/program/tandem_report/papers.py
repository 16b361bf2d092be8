"""Experiments of the papers: their values compared with ours."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import style
from .model import Document, Results, Run, clean, in_order
from .picture import Cell, Picture, slug_of
from .style import Looks

SECTION = "Experiments of the papers"
NOT_FOR_FIGURES = "Measured with --quick: not for figures"
OURS = (style.BLUE, style.GREEN, style.PURPLE, style.OCHRE)
THEIRS = (style.GREY, style.BROWN, style.VERMILLION, style.CYAN)


def is_paper(series: dict) -> bool:
    return series["name"].lower().startswith("paper")


def colours_of(entry: dict, series: list[dict]) -> list[str]:
    """Different ones, or, of more series than there are colours, different ones in a panel."""
    taken: dict[tuple[str, bool], int] = {}
    result = []
    for one in series:
        colours = THEIRS if is_paper(one) else OURS
        are_enough = sum(is_paper(other) == is_paper(one) for other in series) <= len(colours)
        key = "" if are_enough else axis_of(entry, one), is_paper(one)
        result.append(colours[taken.get(key, 0) % len(colours)])
        taken[key] = taken.get(key, 0) + 1
    return result


def axis_of(entry: dict, one: dict) -> str:
    """What a series measures, and its unit: the figure's but for a series with its own."""
    y, unit = (clean(one.get(key, entry.get(key, ""))) for key in ("y", "unit"))
    return y + (f" ({unit})" if unit else "")


def values_of(series: Iterable[dict]) -> list[float]:
    points = [p for one in series for p in one["points"]]
    return [v for p in points for v in (p["y"], p.get("low", p["y"]), p.get("high", p["y"]))]


def is_wide(values: list[float]) -> bool:
    return min(values) > 0 and style.is_wide(values)


def draw_panel(axes: Axes, series: list[tuple[dict, str, str]], xs: list, by_number: bool, label: str) -> None:
    """Series with their colours and markers."""
    values = values_of(one for one, _, _ in series)
    wide = is_wide(values)
    width = 0.8 / len(series)
    for i, (one, colour, marker) in enumerate(series):
        points = sorted(one["points"], key=lambda p: xs.index(p["x"]))
        shift = 0 if by_number else (i - (len(series) - 1) / 2) * width
        px = [(p["x"] if by_number else xs.index(p["x"])) + shift for p in points]
        py = [p["y"] for p in points]
        whisker = style.whisker([(p["y"], p.get("low", p["y"]), p.get("high", p["y"])) for p in points])
        if by_number or wide:
            looks = {"linestyle": line_of(one) if by_number else "none", "elinewidth": 1.1, "capsize": 2.5}
            axes.errorbar(px, py, yerr=whisker, color=colour, marker=marker, **looks)
        else:
            looks = {"hatch": "///" if is_paper(one) else "", "edgecolor": style.PAPER}
            errors = {"ecolor": style.INK, "elinewidth": 1, "capsize": 2}
            axes.bar(px, py, width * 0.9, yerr=whisker, color=colour, error_kw=errors, **looks)
    if wide:
        style.log_axis(axes, "y", values)
    else:
        style.linear_axis(axes, "y", from_zero=min(values) >= 0)
        if min(values) >= 0 < max(values):
            axes.set_ylim(0, max(values) * 1.07)
    axes.set_title(style.plain(label + ("; logarithmic" if wide else ""), 110))
    if not by_number:
        style.tick_at(axes, "x", range(len(xs)), [clean(x) for x in xs])
        axes.set_xlim(-0.6, len(xs) - 0.4)
        axes.grid(axis="x", visible=False)
        if max(len(clean(x)) for x in xs) * len(xs) > 110:
            axes.tick_params(axis="x", labelrotation=30)
            for tick in axes.get_xticklabels():
                tick.set_horizontalalignment("right")


def line_of(one: dict) -> object:
    return (0, (4, 2)) if is_paper(one) else "-"


def number_axis(axes: Axes, xs: list[float]) -> bool:
    """Ticks at the values themselves, where there is room. Returns whether the axis is logarithmic."""
    steps = [b - a for a, b in pairwise(xs)]
    wide = min(xs) > 0 and style.is_wide(xs) and (len(steps) == 1 or max(steps) > 2 * min(steps))
    if wide:
        axes.set_xscale("log")
    places = [math.log10(x) if wide else x for x in xs]
    span = max(places) - min(places) or 1
    shown = [0]
    for i, place in enumerate(places):
        if place - places[shown[-1]] > 0.045 * span:
            shown.append(i)
    style.tick_at(axes, "x", [xs[i] for i in shown], [style.significant(xs[i]) for i in shown])
    return wide


def picture(results: Results, document: Document, entry: dict, subtitle: str) -> Picture:
    series = [one for one in entry["series"] if one["points"]]
    where = f" (section {clean(entry['section'])})" if entry.get("section") else ""
    title = f"{clean(entry['paper'])}, figure {clean(entry['figure'])}: {clean(entry['title'])}"
    is_quick = "--quick" in document.raw["command"].split()
    if is_quick:
        subtitle = f"{NOT_FOR_FIGURES}; {subtitle}"
    xs = in_order(point["x"] for one in series for point in one["points"])
    by_number = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in xs)
    if by_number:
        xs.sort()
    colours = colours_of(entry, series)
    names = [clean(one["name"]) for one in series]
    labels = in_order(axis_of(entry, one) for one in series)

    def draw() -> Figure:
        figure = style.new_figure(title, subtitle, 3.3 if len(labels) == 1 else 2.5 * len(labels))
        marks = len(style.MARKERS)
        looks = [
            (one, colour, style.MARKERS[(i + i // marks) % marks])
            for i, (one, colour) in enumerate(zip(series, colours, strict=True))
        ]
        panels = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, label in zip(panels, labels, strict=True):
            draw_panel(axes, [look for look in looks if axis_of(entry, look[0]) == label], xs, by_number, label)
        wide = number_axis(panels[-1], xs) if by_number else False
        panels[-1].set_xlabel(style.plain(clean(entry.get("x", "")) + ("; logarithmic" if wide else ""), 110))
        handles = []
        for one, colour, marker in looks:
            beside = values_of(other for other in series if axis_of(entry, other) == axis_of(entry, one))
            is_bar = not by_number and not is_wide(beside)
            line = line_of(one) if by_number else "none"
            handles.append(Line2D([], [], color=colour, marker="s" if is_bar else marker, linestyle=line))
        style.finish(figure, handles, names)
        return figure

    rows: list[list[Cell]] = []
    behind: list[Run] = []
    for one, name in zip(series, names, strict=True):
        for point in one["points"]:
            runs = [results.run_of(document.number, index) for index in point.get("runs", [])]
            behind += runs
            x = point["x"] if by_number else clean(point["x"])
            told = [axis_of(entry, one)] if len(labels) > 1 else []
            rows.append([name, *told, x, point["y"], point.get("low"), point.get("high"), runs])
    notes = [f"{NOT_FOR_FIGURES}."] if is_quick else []
    notes += [f"The paper: {clean(entry['machine'])}."] if entry.get("machine") else []
    notes += [f"{name}: {clean(one['source'])}" for one, name in zip(series, names, strict=True) if "source" in one]
    notes += [f"Missing: {clean(text)}" for text in entry.get("missing", [])]
    notes += [
        f"Missing: {clean(one['name'])}" + (f" ({clean(one['source'])})" if one.get("source") else "")
        for one in entry["series"]
        if not one["points"]
    ]
    value = labels[0] or "value" if len(labels) == 1 else "value"
    return Picture(
        slug_of("paper", entry["paper"], "figure", entry["figure"]),
        SECTION,
        title,
        draw,
        ["series", *(["of"] if len(labels) > 1 else []), clean(entry.get("x", "x")), value, "low", "high", "runs"],
        rows,
        f"The paper's values{where} are its own, of its machine: hatched or dashed. Whiskers go from the least to the "
        "greatest round.",
        in_order_of_number(behind),
        notes,
        is_always_drawn=True,
    )


def in_order_of_number(runs: list[Run]) -> list[Run]:
    return list({run.number: run for run in sorted(runs, key=lambda run: run.number)}.values())


def pictures(results: Results, machine: int, _: Looks, subtitle: str) -> list[Picture]:
    return [
        picture(results, document, entry, subtitle)
        for document in results.documents
        if document.machine == machine
        for entry in document.raw.get("figures", [])
        if any(one["points"] for one in entry["series"])
    ]


def without_values(results: Results) -> list[str]:
    """Figures without any values to draw."""
    return [
        f"{clean(entry['paper'])}, figure {clean(entry['figure'])} ({clean(entry['title'])}): "
        + ("; ".join(clean(text) for text in entry.get("missing", [])) or "no values")
        for document in results.documents
        for entry in document.raw.get("figures", [])
        if not any(one["points"] for one in entry["series"])
    ]
