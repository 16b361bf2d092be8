"""Experiments of the papers: their values compared with ours."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import style
from .model import Document, Results, Run, clean, in_order
from .picture import Cell, Picture, slug_of
from .style import Looks

SECTION = "Experiments of the papers"
OURS = (style.BLUE, style.GREEN, style.PURPLE, style.OCHRE)
THEIRS = (style.GREY, style.BROWN, style.VERMILLION, style.CYAN)


def is_paper(series: dict) -> bool:
    return series["name"].lower().startswith("paper")


def colours_of(series: list[dict]) -> list[str]:
    ours = theirs = 0
    result = []
    for one in series:
        if is_paper(one):
            result.append(THEIRS[theirs % len(THEIRS)])
            theirs += 1
        else:
            result.append(OURS[ours % len(OURS)])
            ours += 1
    return result


def picture(results: Results, document: Document, entry: dict, subtitle: str) -> Picture:
    series = [one for one in entry["series"] if one["points"]]
    where = f" (section {clean(entry['section'])})" if entry.get("section") else ""
    title = f"{clean(entry['paper'])}, figure {clean(entry['figure'])}: {clean(entry['title'])}"
    unit = clean(entry.get("unit", ""))
    y_label = clean(entry.get("y", "")) + (f" ({unit})" if unit else "")
    xs = in_order(point["x"] for one in series for point in one["points"])
    by_number = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in xs)
    if by_number:
        xs.sort()
    colours = colours_of(series)
    names = [clean(one["name"]) for one in series]

    def draw() -> Figure:
        figure = style.new_figure(title, subtitle, 3.3, legend_rows=-(-max(1, len(series)) // 3))
        axes = figure.subplots()
        values = [
            v for one in series for p in one["points"] for v in (p["y"], p.get("low", p["y"]), p.get("high", p["y"]))
        ]
        wide = min(values) >= 0 and style.is_wide(values)
        width = 0.8 / len(series)
        places = xs if by_number else range(len(xs))
        handles = []
        for i, (one, colour) in enumerate(zip(series, colours, strict=True)):
            points = sorted(one["points"], key=lambda p: xs.index(p["x"]))
            shift = 0 if by_number else (i - (len(series) - 1) / 2) * width
            px = [places[xs.index(p["x"])] + shift for p in points]
            py = [p["y"] for p in points]
            whisker = style.whisker([(p["y"], p.get("low", p["y"]), p.get("high", p["y"])) for p in points])
            marker = style.MARKERS[i % len(style.MARKERS)]
            lines = (0, (4, 2)) if is_paper(one) else "-"
            if by_number or wide:
                axes.errorbar(
                    px,
                    py,
                    yerr=whisker,
                    color=colour,
                    marker=marker,
                    linestyle=lines if by_number else "none",
                    elinewidth=1.1,
                    capsize=2.5,
                )
                handles.append(Line2D([], [], color=colour, marker=marker, linestyle=lines if by_number else "none"))
            else:
                axes.bar(
                    px,
                    py,
                    width * 0.9,
                    yerr=whisker,
                    color=colour,
                    hatch="///" if is_paper(one) else "",
                    edgecolor=style.PAPER,
                    error_kw={"ecolor": style.INK, "elinewidth": 1, "capsize": 2},
                )
                handles.append(Line2D([], [], color=colour, marker="s", markersize=8, linestyle="none"))
        if wide:
            style.log_axis(axes, "y", values)
        else:
            style.linear_axis(axes, "y", from_zero=min(values) >= 0)
        axes.set_ylabel(style.plain(y_label + ("; logarithmic" if wide else "")))
        x_label = clean(entry.get("x", ""))
        if by_number and min(xs) > 0 and style.is_wide(xs):
            axes.set_xscale("log")
            style.tick_at(axes, "x", xs, [style.significant(x) for x in xs])
            x_label += "; logarithmic"
        axes.set_xlabel(style.plain(x_label))
        if not by_number:
            style.tick_at(axes, "x", range(len(xs)), [clean(x) for x in xs])
            axes.grid(axis="x", visible=False)
            if max(len(clean(x)) for x in xs) * len(xs) > 90:
                axes.tick_params(axis="x", labelrotation=30)
                for label in axes.get_xticklabels():
                    label.set_horizontalalignment("right")
        style.finish(figure, handles, names, legend_rows=-(-max(1, len(series)) // 3))
        return figure

    rows: list[list[Cell]] = []
    behind: list[Run] = []
    for one, name in zip(series, names, strict=True):
        for point in one["points"]:
            runs = [results.run_of(document.number, index) for index in point.get("runs", [])]
            behind += runs
            x = point["x"] if by_number else clean(point["x"])
            rows.append([name, x, point["y"], point.get("low"), point.get("high"), runs])
    notes = [f"The paper: {clean(entry['machine'])}."] if entry.get("machine") else []
    notes += [f"{name}: {clean(one['source'])}" for one, name in zip(series, names, strict=True) if "source" in one]
    notes += [f"Missing: {clean(text)}" for text in entry.get("missing", [])]
    notes += [
        f"Missing: {clean(one['name'])}" + (f" ({clean(one['source'])})" if one.get("source") else "")
        for one in entry["series"]
        if not one["points"]
    ]
    return Picture(
        slug_of("paper", entry["paper"], "figure", entry["figure"]),
        SECTION,
        title,
        draw,
        ["series", clean(entry.get("x", "x")), y_label or "value", "low", "high", "runs"],
        rows,
        f"The paper's values{where} are its own, of its machine: hatched or dashed. Whiskers go from the least to the "
        "greatest round.",
        in_order_of_number(behind),
        notes,
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
