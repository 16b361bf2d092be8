"""Makes a folder with the page and its pictures from documents."""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from .schema import DocumentError, read

if TYPE_CHECKING:  # without matplotlib there is a message instead of a report
    from .picture import Picture

EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_CANTCREAT = 64, 65, 66, 69, 73
PNG_DPI = 144


class Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        self.exit(EX_USAGE, f"bench report: {message}\n")


def complain(message: str, code: int) -> int:
    print(f"bench report: {message}", file=sys.stderr)
    return code


def write(path: Path, data: bytes) -> None:
    """Writes atomically."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def draw(picture: Picture, folder: Path) -> str:
    """Writes a picture's files; returns its SVG."""
    figure = picture.draw()
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": None})
    write(folder / f"{picture.slug}.svg", svg.getvalue().encode())
    write(folder / f"{picture.slug}.png", png.getvalue())
    return svg.getvalue()


def build(files: list[tuple[str, dict]], folder: Path, skipped: list[str] | None = None) -> str:
    """Writes the report; returns messages about it. skipped: why documents are not in it."""
    from . import engine, headline, latency, memory, page, papers, peers, style, sweeps
    from .model import Results, clean
    from .picture import slug_of

    style.apply()
    results = Results(files)
    looks = style.Looks(results.subjects)
    planned: list[tuple[str, str, list[Picture]]] = []  # heading, description of the machine, pictures
    taken: set[str] = {"summary", "errors", "runs", "not-measured"}

    def unique(slug: str) -> str:
        name, n = slug, 1
        while name in taken:
            n += 1
            name = f"{slug}-{n}"
        taken.add(name)
        return name

    for index, machine in enumerate(results.machines):
        documents = [d for d in results.documents if d.machine == index]
        builds = ", ".join(sorted({d.label for d in documents}))
        days = sorted({d.raw["started"][:10] for d in documents})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        where = f"tandem {builds}, {when}; {page.machine_line(machine)}"
        found = [
            *papers.pictures(results, index, looks, where),
            *peers.pictures(results, index, looks, where),
            *latency.curves(results, index, looks, where),
            *latency.distributions(results, index, looks, where),
            *sweeps.pictures(results, index, looks, where),
            *engine.pictures(results, index, looks, where),
            *memory.pictures(results, index, looks, where),
            *latency.timelines(results, index, looks, where),
        ]
        order = [
            peers.SECTION,
            latency.CURVES,
            latency.DISTRIBUTIONS,
            sweeps.SCALING,
            sweeps.DEPTH,
            engine.SECTION,
            papers.SECTION,
            memory.MEMORY,
            memory.ENERGY,
            latency.TIMELINES,
        ]
        for section in order:
            heading = f"{section}, {machine.name}" if machine.name else section
            if some := [picture for picture in found if picture.section == section]:
                planned.append((heading, where, some))
    headline.choose([some for _, _, some in planned])

    sections = []
    for heading, where, some in planned:
        drawn = []
        for picture in some:
            picture.slug = unique(slug_of(picture.slug))
            drawn.append((picture, draw(picture, folder) if picture.draw else ""))
        sections.append((unique(slug_of("section", heading)), heading, where, drawn))

    missing = [(clean(why), "skipped") for why in skipped or []]
    missing += [
        (clean(note), document.path.rsplit("/", 1)[-1])
        for document in results.documents
        for note in document.raw.get("notes", [])
    ]
    missing += [(text, "no value yet") for text in papers.without_values(results)]
    missing += memory.without_energy(results) + results.disturbance()
    text = page.render(results, headline.headline(results), sections, missing)
    write(folder / "index.html", text.encode())
    pictures = sum(bool(svg) for *_, drawn in sections for _, svg in drawn)
    told = f"{folder / 'index.html'}: {pictures} pictures of {len(results.runs)} runs"
    wrong = sum(bool(run.errors) for run in results.runs)
    told += f"; {wrong} RUNS WITH ERRORS" if wrong else ""
    return told + (f"; {len(skipped)} DOCUMENTS SKIPPED" if skipped else "")


def read_all(paths: list[str]) -> tuple[list[tuple[str, dict]], list[str], int]:
    """The documents that can be read, why other ones cannot, and the exit code that the first of these gives."""
    files, skipped, code = [], [], 0
    for path in paths:
        try:
            files.append((path, read(path)))
            continue
        except DocumentError as error:
            why, found = str(error), EX_DATAERR
        except OSError as error:
            why, found = f"{path}: {error.strerror}", EX_NOINPUT
        skipped.append(why)
        complain(f"skipped {why}", found)
        code = code or found
    return files, skipped, code


def main(arguments: list[str]) -> int:
    parser = Arguments(prog="tandem bench report", add_help=False, allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args(arguments)
    files, skipped, code = read_all(options.files)
    if not files:
        return code
    try:
        import matplotlib
    except ImportError as error:
        return complain(
            f"{sys.executable} has no matplotlib ({error}): install the package python3-matplotlib, or "
            "`pip install matplotlib` and name that Python with --python or TANDEM_PYTHON",
            EX_UNAVAILABLE,
        )
    matplotlib.use("agg")
    warnings.filterwarnings("ignore", message=r"Glyph .* missing from")  # a document may contain any text
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        print(build(files, options.out, skipped))
    except OSError as error:
        return complain(f"{error.filename or options.out}: {error.strerror}", EX_CANTCREAT)
    return code
