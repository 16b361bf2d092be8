"""Colours, axes and numbers of all pictures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from .model import clean

# The page replaces these by its own colours, light or dark (page.py).
PAPER, INK, MUTED, GRID = "#fefefe", "#1f2329", "#5b6470", "#d9dee5"

# After Okabe and Ito, "Color universal design" (2008): distinguishable for the colour-blind, light ones darkened so
# that each has a contrast of 3:1 on white and on the page's dark ground.
BLUE, VERMILLION, GREEN, PURPLE, GREY, OCHRE, CYAN, BROWN = (
    "#0072b2",
    "#d55e00",
    "#009268",
    "#c06a9c",
    "#808791",
    "#b07c00",
    "#2d93c8",
    "#a0705a",
)
PAGE_COLOURS = {PAPER: "--paper", INK: "--ink", MUTED: "--muted", GRID: "--grid", BLUE: "--blue"}
KNOWN_SUBJECTS = {
    "tandem": BLUE,
    "memcached": VERMILLION,
    "redis": PURPLE,
    "valkey": GREEN,
    "floor": GREY,
    "wire": BLUE,
    "embedded": GREEN,
    "copy": OCHRE,
    "two-lines": BROWN,
    "two-line": BROWN,
}
OTHER_SUBJECTS = (OCHRE, GREEN, BROWN, PURPLE, VERMILLION, CYAN, BLUE)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
TASK_COLOURS = {
    "RV": "#808791",
    "PP": "#0072b2",
    "MM": "#b07c00",
    "IN": "#d55e00",
    "KC": "#009268",
    "RD": "#2d93c8",
    "WR": "#c06a9c",
    "SD": "#a0705a",
}

WIDTH_IN = 9.6
TITLE_IN = 0.5  # above each picture; cut off in the page, which has the title as text
LEGEND_ABOVE_IN, LEGEND_IN = 0.12, 0.195  # a row of it
LEGEND_HANDLE_IN, LETTER_IN = 0.56, 0.08
TITLES_AT_IN = {"title": 0.17, "subtitle": 0.38}  # below the upper edge

RC = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "tandem",
    "hatch.linewidth": 0.7,
}


def apply() -> None:
    """Ignores the user's own settings: the same document gives the same picture."""
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(RC)


def plain(text: str, longest: int = 60) -> str:
    """Escapes a text so that matplotlib shows it literally, and shortens it."""
    text = clean(text)
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return text.replace("$", r"\$")


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str


class Looks:
    """The same colour and marker for the same subject everywhere."""

    def __init__(self, subjects: Sequence[str]) -> None:
        self.looks: dict[str, Look] = {}
        taken: set[str] = set()
        others = []
        for subject in subjects:
            colour = KNOWN_SUBJECTS.get(re.split(r"[ ,:/]", subject, maxsplit=1)[0])
            if colour and colour not in taken:
                taken.add(colour)
                self.looks[subject] = Look(colour, MARKERS[len(self.looks) % len(MARKERS)])
            else:
                others.append(subject)
        free = [c for c in OTHER_SUBJECTS if c not in taken] or list(OTHER_SUBJECTS)
        for i, subject in enumerate(others):
            self.looks[subject] = Look(free[i % len(free)], MARKERS[len(self.looks) % len(MARKERS)])

    def __getitem__(self, subject: str) -> Look:
        return self.looks[subject]


def new_figure(title: str, subtitle: str, height_in: float) -> Figure:
    """height_in: of the part below title and legend."""
    figure = Figure(figsize=(WIDTH_IN, TITLE_IN + height_in))
    figure.text(0.012, 0, plain(title, 92), size=11.5, weight="bold", va="center", gid="title")
    figure.text(0.012, 0, plain(subtitle, 132), size=8.5, color=MUTED, va="center", gid="subtitle")
    return figure


def legend_columns(labels: Sequence[str]) -> int:
    """As many as fit the width, by a generous estimate of the texts'."""
    for columns in range(len(labels), 1, -1):
        rows, longer = divmod(len(labels), columns)  # a legend fills its columns in turn, the first ones higher
        starts = [rows * i + min(i, longer) for i in range(columns + 1)]
        widest = [max(map(len, labels[a:b])) for a, b in pairwise(starts)]
        if sum(LEGEND_HANDLE_IN + LETTER_IN * letters for letters in widest) < WIDTH_IN:
            return columns
    return 1


def finish(figure: Figure, handles: Sequence[Line2D | Patch], labels: Sequence[str]) -> None:
    """Legend below the title, axes below the legend, for which the figure grows."""
    labels = [plain(label, 104) for label in labels]
    columns = legend_columns(labels) if handles else 1
    legend_in = LEGEND_ABOVE_IN + LEGEND_IN * math.ceil(len(labels) / columns)
    height = figure.get_figheight() + legend_in
    figure.set_figheight(height)
    for text in figure.texts:
        if text.get_gid() in TITLES_AT_IN:
            text.set_y(1 - TITLES_AT_IN[text.get_gid()] / height)
    if handles:
        legend = figure.legend(
            handles,
            [str(i) for i in range(len(handles))],  # labels that begin with _ would be omitted
            loc="upper left",
            bbox_to_anchor=(0.004, 1 - TITLE_IN / height),
            ncol=columns,
            frameon=False,
            borderpad=0.2,
            handlelength=1.8,
            columnspacing=1.6,
        )
        for shown, label in zip(legend.get_texts(), labels, strict=True):
            shown.set_text(label)
    figure.tight_layout(rect=(0.004, 0, 0.996, 1 - (TITLE_IN + legend_in) / height), w_pad=2.0)


def whisker(points: Sequence[tuple[float, float, float]]) -> list[list[float]] | None:
    """For errorbar(), from (middle, low, high); nothing without a spread."""
    if all(low >= middle >= high for middle, low, high in points):
        return None
    return [[max(0, m - low) for m, low, _ in points], [max(0, high - m) for m, _, high in points]]


def tick_handle() -> Line2D:
    """A legend entry for a limit or goal."""
    return Line2D([], [], color=INK, marker="|", markersize=10, markeredgewidth=1.8, linestyle="none")


def line_handle(look: Look, **style: object) -> Line2D:
    return Line2D([], [], color=look.colour, marker=look.marker, **{"linestyle": "-", **style})


# Numbers -------------------------------------------------------------------------------------------------------------


def significant(value: float, digits: int = 4) -> str:
    """Rounded, with thousands separated: 1,234,567; 0.0123; 12.35."""
    if value == 0:
        return "0"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    rounded = f"{value:,.{min(decimals, 9)}f}"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded


def short(value: float, _: object = None) -> str:
    """For axes: 250 k, 1.5 M."""
    for limit, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"


def duration_us(value: float, _: object = None) -> str:
    """For axes of microseconds."""
    for limit, unit in ((1e6, "s"), (1e3, "ms"), (1, "µs")):
        if value >= limit:
            return f"{value / limit:.4g} {unit}"
    return f"{value * 1e3:.4g} ns" if value > 0 else "0"


def is_wide(values: Iterable[float]) -> bool:
    """Whether values need a logarithmic axis."""
    known = [v for v in values if v > 0]
    return bool(known) and max(known) > 12 * min(known)


def log_axis(axes: Axes, which: str, values: Iterable[float], formatter=short) -> None:
    known = [v for v in values if v > 0] or [1.0]
    low, high = min(known), max(known)
    decades = math.log10(high / low) if high > low else 0
    margin = max(1.12, (high / low) ** 0.05)
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low / margin, high * margin)
    if decades > 2.2:
        axis.set_major_locator(LogLocator(subs=(1,), numticks=12))
    elif decades > 0.8:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    else:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(formatter))


def linear_axis(axes: Axes, which: str, formatter=short, from_zero: bool = True) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(formatter))
    if from_zero:
        (axes.set_xlim if which == "x" else axes.set_ylim)(0, None)


def value_axis(axes: Axes, which: str, values: Sequence[float], formatter=short) -> bool:
    """Linear from 0, or logarithmic if the values are far apart. Returns whether it is logarithmic."""
    if is_wide(values):
        log_axis(axes, which, values, formatter)
        return True
    linear_axis(axes, which, formatter)
    return False


def tick_at(axes: Axes, which: str, places: Sequence[float], labels: Sequence[str]) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([plain(label, 40) for label in labels])
