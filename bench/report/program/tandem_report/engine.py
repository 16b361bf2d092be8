"""The store in process: throughput by workload, and time per task of a query."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from . import style
from .model import Group, Results, Spread, clean, group, in_order
from .peers import IN_PROCESS as SECTION
from .peers import label_rows, side_by_side
from .picture import Cell, Picture
from .schema import TASKS
from .style import Looks

OTHER_TASKS = (style.OCHRE, style.CYAN, style.BROWN, style.GREEN)
HATCHES = ("", "///", "...", "xxx")  # by processor


def tasks_of(g: Group) -> dict[tuple[str, str], tuple[Spread | None, Spread | None, Spread | None]]:
    """Time, share and cache misses by task and processor, over the rounds."""
    columns: dict[tuple[str, str], list[dict]] = {}
    for run in g.runs:
        for task in run.result.get("tasks", []):
            columns.setdefault((clean(task["task"]), clean(task.get("processor", "cpu"))), []).append(task)
    return {
        key: (
            Spread.of(t.get("ns_per_query") for t in some),
            Spread.of(t.get("share") for t in some),
            Spread.of(t.get("cache_misses_per_query") for t in some),
        )
        for key, some in columns.items()
    }


def tasks(groups: list[Group], subtitle: str) -> Picture | None:
    known = [(g, tasks_of(g)) for g in groups]
    known = [(g, some) for g, some in known if any(ns for ns, _, _ in some.values())]
    if not known:
        return None
    names = label_rows([g for g, _ in known])
    subjects = in_order(g.subject for g, _ in known)
    labels = [names[id(g)] + (f" ({g.subject})" if len(subjects) > 1 else "") for g, _ in known]
    order = {name: i for i, name in enumerate(TASKS)}
    found = sorted(
        in_order(key[0] for _, some in known for key in some), key=lambda name: (order.get(name, len(order)), name)
    )
    processors = in_order(key[1] for _, some in known for key in some)
    others = [name for name in found if name not in style.TASK_COLOURS]
    colours = {
        name: style.TASK_COLOURS.get(name) or OTHER_TASKS[others.index(name) % len(OTHER_TASKS)] for name in found
    }
    title = "Time of a query by task"

    def draw() -> Figure:
        figure = style.new_figure(title, subtitle, 0.7 + 0.36 * max(2, len(known)))
        axes = figure.subplots()
        most = max(sum(ns.median for ns, _, _ in some.values() if ns) for _, some in known)
        for row, (_, some) in enumerate(known):
            left = 0.0
            for name in found:
                for processor in processors:
                    spread = some.get((name, processor), (None, None, None))[0]
                    if not spread:
                        continue
                    axes.barh(
                        row,
                        spread.median,
                        left=left,
                        height=0.66,
                        color=colours[name],
                        edgecolor=style.PAPER,
                        linewidth=1,
                        hatch=HATCHES[processors.index(processor) % len(HATCHES)],
                    )
                    if spread.median > most * 0.035:
                        axes.text(
                            left + spread.median / 2,
                            row,
                            style.plain(name, 8),
                            color="#ffffff",
                            ha="center",
                            va="center",
                            size=8,
                        )
                    left += spread.median
        axes.set_ylim(len(known) - 0.4, -0.6)
        style.tick_at(axes, "y", range(len(known)), labels)
        axes.tick_params(axis="y", length=0, labelcolor=style.INK)
        axes.grid(axis="y", visible=False)
        style.linear_axis(axes, "x")
        axes.set_xlabel("ns per query")
        handles = [Patch(color=colours[name]) for name in found]
        shown = list(found)
        if len(processors) > 1:
            handles += [
                Patch(facecolor=style.PAPER, edgecolor=style.MUTED, hatch=HATCHES[i % len(HATCHES)])
                for i in range(len(processors))
            ]
            shown += [f"on {p}" for p in processors]
        style.finish(figure, handles, shown)
        return figure

    rows: list[list[Cell]] = []
    for label, (g, some) in zip(labels, known, strict=True):
        for name in found:
            for processor in processors:
                if (name, processor) in some:
                    rows.append([label, name, processor, *some[name, processor], g.runs])
    return Picture(
        "tasks",
        SECTION,
        title,
        draw,
        ["workload", "task", "processor", "ns per query", "share", "cache misses per query", "runs"],
        rows,
        "RV receive, PP parse, MM memory management, IN index, KC key comparison, RD read value, WR write response, "
        "SD send. Bars are medians of the rounds; the table has the spread. A dash: not counted.",
        [run for g, _ in known for run in g.runs],
    )


def pictures(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    groups = group(results.select(machine, "engine"))
    throughput = side_by_side(
        groups,
        ("ops_per_s",),
        looks,
        "Throughput in process",
        subtitle,
        "operations per second",
        "Requests in wire format in memory, replies in wire format in memory: no network.",
        "engine-throughput",
    )
    if throughput:
        throughput.section = SECTION
    return [picture for picture in (throughput, tasks(groups, subtitle)) if picture]
