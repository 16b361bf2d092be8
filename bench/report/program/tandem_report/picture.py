"""A picture with its table, and elements shared by several pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from . import style
from .model import Run, Spread
from .style import Looks

# A cell of a table: a number or Spread is shown rounded, and the page keeps it exactly; runs become links.
Cell = str | int | float | Spread | list[Run] | None


@dataclass
class Picture:
    slug: str  # file name and anchor; made unique by the report
    section: str
    title: str
    draw: Callable[[], Figure] | None  # None: only a table
    header: list[str]
    rows: list[list[Cell]]
    caption: str
    runs: list[Run]
    notes: list[str] = field(default_factory=list)
    is_minor: bool = False  # drawn only where there is room
    is_always_drawn: bool = False


def slug_of(*words: str) -> str:
    """Makes a file name from any texts."""
    slug = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
    return slug[:72].strip("-") or "picture"


@dataclass
class Dots:
    """Values of rows by subject, as dots with whiskers. Whiskers reach from the lowest to the highest round."""

    rows: list[str]
    values: dict[str, list[Spread | None]]  # by subject, one for each row

    def all(self) -> list[float]:
        return [v for some in self.values.values() for s in some if s for v in (s.median, s.low, s.high)]


def draw_dots(
    title: str,
    subtitle: str,
    label: str,
    dots: Dots,
    looks: Looks,
    formatter=style.short,
    line_at: float | None = None,
    goals: Sequence[float | None] | None = None,
) -> Figure:
    """line_at: the value of equality, for ratios, which have a logarithmic axis. goals: by row."""
    subjects = list(dots.values)
    figure = style.new_figure(title, subtitle, 0.62 + max(2, len(dots.rows)) * (0.18 + 0.09 * len(subjects)))
    axes = figure.subplots()
    for i, subject in enumerate(subjects):
        shift = (i - (len(subjects) - 1) / 2) * (0.62 / max(1, len(subjects)))
        known = [(row + shift, s) for row, s in enumerate(dots.values[subject]) if s]
        if not known:
            continue
        look = looks[subject]
        middle = [s.median for _, s in known]
        axes.errorbar(
            middle,
            [y for y, _ in known],
            xerr=style.whisker([(s.median, s.low, s.high) for _, s in known]),
            fmt=look.marker,
            color=look.colour,
            elinewidth=1.3,
            capsize=2.2,
            linestyle="none",
        )
    values = dots.all() + ([line_at] if line_at is not None else [])
    for row, goal in enumerate(goals or []):
        if goal is not None:
            axes.plot([goal, goal], [row - 0.42, row + 0.42], color=style.INK, linewidth=1.8)
            values.append(goal)
    if line_at is not None:
        style.log_axis(axes, "x", values, formatter)
        axes.axvline(line_at, color=style.INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        wide = True
    else:
        wide = style.value_axis(axes, "x", values, formatter)
    axes.set_ylim(len(dots.rows) - 0.4, -0.6)
    style.tick_at(axes, "y", range(len(dots.rows)), dots.rows)
    axes.tick_params(axis="y", length=0, labelcolor=style.INK)
    axes.set_xlabel(f"{label}; logarithmic" if wide else label)
    for edge in range(1, len(dots.rows)):
        axes.axhline(edge - 0.5, color=style.GRID, linewidth=0.6, zorder=0)
    axes.grid(axis="y", visible=False)
    handles = [style.line_handle(looks[s], linestyle="none") for s in subjects]
    if goals:
        handles.append(style.tick_handle())
    style.finish(figure, handles, [*subjects, "goal"][: len(handles)])
    return figure


def dots_table(first: str, dots: Dots, runs: Callable[[int, str], list[Run]]) -> tuple[list[str], list[list[Cell]]]:
    """A row for each row of dots, a column for each subject, and the runs behind them."""
    header = [first, *dots.values, "runs"]
    rows: list[list[Cell]] = []
    for i, name in enumerate(dots.rows):
        behind = [run for subject in dots.values for run in runs(i, subject)]
        rows.append([name, *(some[i] for some in dots.values.values()), behind])
    return header, rows


def whiskers(rounds: Sequence[int]) -> str:
    """Explains the whiskers of a picture."""
    most = max(rounds, default=1)
    if most <= 1:
        return "One round: no spread is known."
    least = min(rounds)
    told = f"{most}" if least == most else f"{least} to {most}"
    return f"Dots are medians of {told} rounds, whiskers go from the least to the greatest."
