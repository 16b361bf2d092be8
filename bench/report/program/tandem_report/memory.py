"""Memory per item, resident memory beside the limit, and energy per operation."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import style
from .model import CLOSED, Group, Results, Run, Spread, at, by, by_purpose, clean, group, in_order
from .peers import label_rows, side_by_side
from .picture import Dots, Picture, dots_table, draw_dots, whiskers
from .style import Looks

MEMORY = "Memory"
ENERGY = "Energy"
MIB = 1 << 20


def bytes_per_item(run: Run) -> float | None:
    """From the run, or resident memory divided by items."""
    memory = run.result.get("memory")
    if not memory:
        return None
    if "bytes_per_item" in memory:
        return memory["bytes_per_item"]
    return memory["resident_bytes"] / memory["items"] if memory["items"] else None


def per_item(groups: list[Group], looks: Looks, subtitle: str) -> Picture | None:
    names = label_rows(groups)
    values = {(names[id(g)], g.subject): Spread.of(map(bytes_per_item, g.runs)) for g in groups}
    behind = {(names[id(g)], g.subject): g.runs for g in groups}
    rows = in_order(row for (row, _), spread in values.items() if spread)
    if not rows:
        return None
    subjects = sorted({subject for _, subject in values}, key=list(looks.looks).index)
    dots = Dots(rows, {s: [values.get((row, s)) for row in rows] for s in subjects})
    header, lines = dots_table("cell", dots, lambda i, s: behind.get((rows[i], s), []))
    items = {
        (names[id(g)], g.subject): (Spread.of(at(run.result, "memory", "items") for run in g.runs)) for g in groups
    }
    header[-1:] = [*(f"items, {s}" for s in subjects), "runs"]
    for row, line in zip(rows, lines, strict=True):
        line[-1:] = [*(items.get((row, s)) for s in subjects), line[-1]]
    title = "Memory per item"
    return Picture(
        "memory-per-item",
        MEMORY,
        title,
        lambda: draw_dots(title, subtitle, "resident bytes per item", dots, looks),
        header,
        lines,
        "What the items added to the resident memory of the server's process, divided by their number; key and value "
        "included; less is better. " + whiskers([s.rounds for s in values.values() if s]),
        [run for g in groups for run in g.runs],
    )


def resident(groups: list[Group], looks: Looks, subtitle: str) -> Picture | None:
    limits = {id(g): g.spread("memory", "limit_bytes") for g in groups}
    groups = [g for g in groups if limits[id(g)] and g.spread("memory", "resident_bytes")]
    if not groups:
        return None
    names = label_rows(groups)
    rows = in_order(names[id(g)] for g in groups)
    subjects = sorted({g.subject for g in groups}, key=list(looks.looks).index)
    table = {(names[id(g)], g.subject): g for g in groups}

    def mib(spread: Spread | None) -> Spread | None:
        return spread and Spread(spread.median / MIB, spread.low / MIB, spread.high / MIB, spread.rounds)

    def of(row: str, subject: str, key: str) -> Spread | None:
        g = table.get((row, subject))
        return mib(g.spread("memory", key)) if g else None

    title = "Resident memory beside the limit"

    def draw() -> Figure:
        figure = style.new_figure(title, subtitle, 0.62 + max(2, len(rows)) * (0.1 + 0.26 * len(subjects)))
        axes = figure.subplots()
        height = 0.7 / len(subjects)
        for i, subject in enumerate(subjects):
            for row, name in enumerate(rows):
                value, limit = of(name, subject, "resident_bytes"), of(name, subject, "limit_bytes")
                if not value or not limit:
                    continue
                y = row + (i - (len(subjects) - 1) / 2) * height
                axes.barh(
                    y,
                    value.median,
                    height=height * 0.86,
                    color=looks[subject].colour,
                    xerr=style.whisker([(value.median, value.low, value.high)]),
                    error_kw={"ecolor": style.INK, "elinewidth": 1, "capsize": 2},
                )
                axes.plot(
                    [limit.median] * 2, [y - height / 2, y + height / 2], color=style.INK, linewidth=1.8, zorder=5
                )
        axes.set_ylim(len(rows) - 0.4, -0.6)
        style.tick_at(axes, "y", range(len(rows)), rows)
        axes.tick_params(axis="y", length=0, labelcolor=style.INK)
        axes.grid(axis="y", visible=False)
        style.linear_axis(axes, "x")
        axes.set_xlabel("MiB resident")
        handles = [
            Line2D([], [], color=looks[s].colour, marker="s", markersize=8, linestyle="none") for s in subjects
        ] + [style.tick_handle()]
        style.finish(figure, handles, [*subjects, "the limit that was asked for"])
        return figure

    lines: list[list] = []
    for row in rows:
        for subject in subjects:
            if (row, subject) in table:
                resident_mib, limit_mib = of(row, subject, "resident_bytes"), of(row, subject, "limit_bytes")
                share = Spread.of(
                    at(run.result, "memory", "resident_bytes") / at(run.result, "memory", "limit_bytes")
                    for run in table[row, subject].runs
                    if at(run.result, "memory", "limit_bytes")
                )
                lines.append([row, subject, limit_mib, resident_mib, share, table[row, subject].runs])
    return Picture(
        "memory-limit",
        MEMORY,
        title,
        draw,
        ["cell", "subject", "limit, MiB", "resident, MiB", "resident / limit", "runs"],
        lines,
        "Resident memory of the whole process when the store is full; code, buffers and connections come on top of "
        "what the limit counts. Bars are medians of the rounds.",
        [run for g in groups for run in g.runs],
    )


def energy(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    runs = [run for run in results.select(machine, "load", "engine") if "uj_per_op" in run.result.get("energy", {})]
    found = []
    for source, some in by(runs, lambda run: clean(run.result["energy"]["source"])).items():
        picture = side_by_side(
            group(some),
            ("energy", "uj_per_op"),
            looks,
            f"Energy per operation, by {source}",
            subtitle,
            "µJ per operation",
            f"Energy of the whole machine as {source} counts it, client included; less is better.",
            f"energy-{source}",
        )
        if picture:
            picture.section = ENERGY
            found.append(picture)
    return found


def pictures(results: Results, machine: int, looks: Looks, subtitle: str) -> list[Picture]:
    groups = group(run for run in results.select(machine, "memory") if "memory" in run.result)
    found = [per_item(groups, looks, subtitle), resident(groups, looks, subtitle)]
    loaded = side_by_side(
        group(by_purpose(results.select(machine, "load"))[CLOSED]),
        ("server", "resident_bytes"),
        looks,
        "Resident memory under load",
        subtitle,
        "bytes resident",
        "Resident memory of the server's process after a closed loop; its keys are in the command lines.",
        "resident",
    )
    if loaded:
        loaded.section = MEMORY
        found.append(loaded)
    return [picture for picture in found if picture] + energy(results, machine, looks, subtitle)


def without_energy(results: Results) -> list[tuple[str, str]]:
    """Why there are no energy figures, each reason once."""
    reasons = by(
        (run for run in results.runs if "unavailable" in run.result.get("energy", {})),
        lambda run: clean(run.result["energy"]["unavailable"]),
    )
    return [(f"Energy per operation: {reason}", f"{len(runs)} runs") for reason, runs in reasons.items()]
