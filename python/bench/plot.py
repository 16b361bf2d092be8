"""Bars of what run.py measured: nanoseconds of the processor an operation, medians with the least and the greatest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from turns import spread

if TYPE_CHECKING:
    from run import Measured


def draw(measured: Iterable[Measured], folder: Path) -> list[Path]:
    """A plot of each kind of call, PNG and SVG."""
    paths = []
    for each in measured:
        spreads = {name: spread(times.processor) for name, times in each.times.items()}
        middles = [one.middle for one in spreads.values()]
        below = [one.middle - one.least for one in spreads.values()]
        above = [one.greatest - one.middle for one in spreads.values()]
        figure = Figure(figsize=(7, 0.5 * len(spreads) + 1.2), layout="constrained")
        axes = figure.subplots()
        colours = ["tab:blue" if name.startswith("tandem") else "tab:gray" for name in spreads]
        bars = axes.barh(list(spreads), middles, xerr=[below, above], color=colours, capsize=3)
        axes.bar_label(bars, [f"{middle:,.0f}" for middle in middles], padding=6)
        axes.invert_yaxis()
        if max(middles) > 20 * min(middles):
            axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.set_xlabel("nanoseconds of the processor, an operation")
        axes.set_title(f"{each.name}, {each.keys:,} keys")
        for form in ("png", "svg"):
            path = folder / f"{each.name}-{each.keys}.{form}"
            figure.savefig(path, dpi=120)
            paths.append(path)
    return paths
