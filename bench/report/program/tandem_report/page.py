"""The page: one file that loads no other resource."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from . import style
from .model import Machine, Results, Run, Spread, at, by, clean, in_order
from .picture import Cell, Picture
from .schema import PERCENTILES

POINTS_PER_INCH = 72
OPEN_ROWS = 14  # longer tables are folded
RUNS_NAMED = 12
# The page runs no script and loads no resource, whatever a document contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


# --- pictures ---------------------------------------------------------------------------------------------------------


def inline_svg(text: str, prefix: str, title: str) -> str:
    """Prepares a picture for the page: without title and metadata, with unique names, in the page's colours."""
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.rsplit("}", 1)[-1]
        for name in list(element.attrib):
            value = element.attrib.pop(name)
            name = name.rsplit("}", 1)[-1]
            if name == "id":
                value = f"{prefix}-{value}"
            elif name == "href":
                value = re.sub(r"^#", f"#{prefix}-", value)
            element.set(name, re.sub(r"url\(#", f"url(#{prefix}-", value))
    parts = [("metadata",), ("style",), ("g", f"{prefix}-title"), ("g", f"{prefix}-subtitle")]
    for parent in list(root.iter()):
        for child in list(parent):
            is_empty = child.tag == "defs" and not len(child)
            if is_empty or (child.tag,) in parts or (child.tag, child.get("id")) in parts:
                parent.remove(child)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    cut = style.TITLE_IN * POINTS_PER_INCH
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("viewBox", f"0 {cut:g} {width:g} {height - cut:g}")
    root.set("role", "img")
    root.set("aria-label", title)
    result = ElementTree.tostring(root, encoding="unicode")
    # Only matplotlib wrote the attributes with numbers and colours; texts cannot contain `style="`.
    result = re.sub(r'(style="[^"]*?font: [^"\']*?)\'[^"]*?sans-serif', r"\1var(--font)", result)
    for colour, variable in style.PAGE_COLOURS.items():  # fill and stroke
        result = re.sub(rf'(style="[^"]*?: ){colour}', rf"\1var({variable})", result)
        result = re.sub(rf'(style="[^"]*?: ){colour}', rf"\1var({variable})", result)
    return result


# --- tables -----------------------------------------------------------------------------------------------------------


def links(runs: Iterable[Run]) -> str:
    names = in_order(run.number for run in runs)
    shown = " ".join(f'<a href="#R{n}">R{n}</a>' for n in names[:RUNS_NAMED])
    more = len(names) - RUNS_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def number(value: float) -> str:
    return f'<td class="number" data-value="{value!r}">{style.significant(value)}</td>'


def table_cell(value: Cell) -> str:
    if value is None:
        return '<td class="number">&ndash;</td>'
    if isinstance(value, Spread):
        exact = f'data-value="{value.median!r}" data-low="{value.low!r}" data-high="{value.high!r}"'
        told = style.significant(value.median)
        if value.rounds > 1:
            told += f" <small>({style.significant(value.low)}&ndash;{style.significant(value.high)})</small>"
        return f'<td class="number" {exact}>{told}</td>'
    if isinstance(value, list):
        return f'<td class="runs">{links(value)}</td>'
    if isinstance(value, (int, float)):
        return number(value)
    return f"<td>{escape(value)}</td>"


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    numeric = [any(isinstance(row[i], (int, float, Spread)) for row in rows) for i in range(len(header))]
    head = "".join(
        f'<th class="number">{escape(name)}</th>' if is_number else f"<th>{escape(name)}</th>"
        for name, is_number in zip(header, numeric, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(map(table_cell, row))}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def folded(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{content}</details>"


def commands(runs: Iterable[Run]) -> str:
    items = "\n".join(
        f"<li>{links(some)}: <code>{escape(command)}</code></li>"
        for command, some in by(runs, lambda r: r.command).items()
    )
    return f'<ul class="commands">\n{items}\n</ul>'


def figure(picture: Picture, svg: str, where: str) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in picture.notes)
    runs = list({run.number: run for run in picture.runs}.values())
    lines = len({run.command for run in runs})
    wrong = [run for run in runs if run.errors]
    files = f'<a href="{picture.slug}.png">PNG</a>, <a href="{picture.slug}.svg">SVG</a>.'
    parts = [
        f'<figure class="card" id="{picture.slug}">',
        f"<h3>{escape(picture.title)}</h3>",
        f'<div class="plot">{inline_svg(svg, picture.slug, picture.title)}</div>' if svg else "",
        f"<figcaption>{escape(picture.caption)} {files if svg else ''}<br><small>{escape(where)}</small></figcaption>",
        f'<p class="bad">Includes runs with errors: {links(wrong)}</p>' if wrong else "",
        f'<ul class="notes">{notes}</ul>' if notes else "",
        folded("Numbers", table(picture.header, picture.rows), bool(svg) and len(picture.rows) <= OPEN_ROWS),
        folded(f"Command lines ({lines})", commands(runs)) if runs else "",
        "</figure>",
    ]
    return "\n".join(part for part in parts if part)


# --- the top ----------------------------------------------------------------------------------------------------------


def machine_line(machine: Machine) -> str:
    d = machine.description
    words = [clean(d.get("cpu", "processor unknown"))]
    if "cores" in d:
        words.append(f"{d['cores']} core{'s' if d['cores'] != 1 else ''}")
    if "memory_bytes" in d:
        words.append(f"{style.significant(d['memory_bytes'] / (1 << 30), 3)} GiB")
    words += [clean(gpu) for gpu in d.get("gpus", [])]
    words += [clean(d[key]) for key in ("os",) if key in d]
    words += [f"kernel {clean(d['kernel'])}"] if "kernel" in d else []
    return ", ".join(words)


def machine_facts(machine: Machine) -> list[tuple[str, str]]:
    d = machine.description
    facts = [("machine", machine_line(machine))]
    for key in ("sockets", "threads_per_core", "processors"):
        if key in d:
            facts.append((key.replace("_", " "), str(d[key])))
    if d.get("caches"):
        facts.append(("caches", ", ".join(f"{clean(k)} {v / 1024:g} KiB" for k, v in d["caches"].items())))
    if d.get("virtual_machine"):
        facts.append(("kind", "virtual machine"))
    for key in ("governor", "huge_pages", "load_average"):
        if d.get(key) is not None:
            facts.append((key.replace("_", " "), clean(d[key])))
    return facts


def facts_list(facts: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in facts) + "</dl>"


def errors_box(results: Results) -> str:
    """Prominent: a run with errors did not measure what was requested."""
    wrong = [run for run in results.runs if run.errors]
    if not wrong:
        return ""
    items = []
    for run in wrong:
        first = clean(at(run.result, "errors", "first") or "")
        items.append(
            f"<li>{links([run])} {escape(run.subject)}, {escape(run.cell)}, round {run.round}: "
            f"<strong>{escape(', '.join(run.errors))}</strong>"
            + (f"; first: {escape(first)}" if first else "")
            + "</li>"
        )
    count = f"{len(wrong)} of {len(results.runs)} runs"
    return (
        f'<section class="card errors" id="errors" role="alert"><h2>Errors in {count}</h2>'
        "<p>Figures of these runs are not to be relied on.</p><ul>" + "\n".join(items) + "</ul></section>"
    )


def summary(results: Results) -> str:
    parts = ['<section id="summary"><h2>Summary</h2>', errors_box(results)]
    for machine in results.machines:
        name = f"<h3>{escape(machine.name)}</h3>" if machine.name else ""
        facts = [(k, escape(v)) for k, v in machine_facts(machine)]
        parts.append(f'<div class="card">{name}{facts_list(facts)}</div>')
    several = len(results.machines) > 1
    head = ["file", "command", "tandem", "started", "runs", *(["machine"] if several else [])]
    rows = []
    for document in results.documents:
        raw = document.raw
        runs = [run for run in results.runs if run.document == document.number]
        bad = sum(bool(run.errors) for run in runs)
        state = f'<span class="bad">{bad} with errors</span>' if bad else '<span class="fine">no errors</span>'
        cells = [
            escape(document.path.rsplit("/", 1)[-1]),
            f"<code>{escape(clean(raw['command']))}</code>",
            escape(document.label),
            escape(raw["started"].replace("T", " ").replace("Z", " UTC")),
            f"{len(runs)}, {state}" if runs else "0",
            *([escape(results.machines[document.machine].name)] if several else []),
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    header = "".join(f"<th>{name}</th>" for name in head)
    body = "\n".join(rows)
    parts.append(
        f'<div class="card"><div class="table"><table class="documents"><thead><tr>{header}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div></div>"
    )
    return "\n".join(part for part in parts if part) + "</section>"


def not_measured(entries: list[tuple[str, str]]) -> str:
    """Missing measurements, and why."""
    if not entries:
        return ""
    items = "\n".join(f"<li>{escape(what)} <small>({escape(where)})</small></li>" for what, where in entries)
    return (
        '<section id="not-measured"><h2>Notes, and what was not measured</h2>'
        f'<div class="card"><ul class="notes">{items}</ul></div></section>'
    )


def all_runs(runs: list[Run]) -> str:
    shown = [p for p in PERCENTILES if p not in ("p90", "p95")]
    head = ["run", "kind", "cell", "subject", "round", "ops/s", *(f"{p}, µs" for p in shown), "errors", "command"]
    rows = []
    for run in runs:
        values = [at(run.result, "ops_per_s"), *(at(run.result, "latency_us", p) for p in shown)]
        settings = ", ".join(f"{clean(k)}={clean(v)}" for k, v in run.settings.items())
        wrong = f'<td class="bad">{escape(", ".join(run.errors))}</td>' if run.errors else "<td>none</td>"
        if run.void:
            wrong = f"<td>void: {escape(run.void)}</td>"
        elif "errors" not in run.result:
            wrong = "<td>&ndash;</td>"
        rows.append(
            f'<tr id="{run.name}"><td>{run.name}</td><td>{escape(run.kind)}</td><td>{escape(run.cell)}</td>'
            f"<td>{escape(run.subject)}</td><td>{run.round}</td>{''.join(map(table_cell, values))}{wrong}"
            f'<td title="{escape(settings)}"><code>{escape(run.command)}</code></td></tr>'
        )
    header = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "\n".join(rows)
    return (
        '<section id="runs"><h2>All runs</h2><div class="card"><div class="table"><table>'
        f"<thead><tr>{header}</tr></thead><tbody>\n{body}\n</tbody></table></div></div></section>"
    )


def render(
    results: Results,
    headline: str,
    sections: list[tuple[str, str, str, list[tuple[Picture, str]]]],
    missing: list[tuple[str, str]],
) -> str:
    """headline: the result in one line. sections: anchor, heading, description of the machine, and pictures with their
    SVG."""
    css = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    machines = "; ".join(machine_line(machine) for machine in results.machines)
    places = [(anchor, heading) for anchor, heading, _, _ in sections]
    if missing:
        places.append(("not-measured", "Notes"))
    places.append(("runs", "All runs"))
    alarm = '<li><a class="alarm" href="#errors">Errors</a></li>' if any(run.errors for run in results.runs) else ""
    nav = '<li><a href="#summary">Summary</a></li>' + "".join(
        f'<li><a href="#{anchor}">{escape(heading)}</a></li>' for anchor, heading in places
    )
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(headline)} - Tandem benchmark report</title>\n<style>\n{css}</style>\n</head>\n<body>",
        '<header><div><p class="kicker">Benchmark report</p>'
        f'<h1 id="headline">{escape(headline)}</h1>'
        f'<p class="muted">{escape(machines)}</p></div></header>',
        f"<nav><ul>{alarm}{nav}</ul></nav>\n<main>",
        summary(results),
    ]
    for anchor, heading, where, pictures in sections:
        parts.append(f'<section id="{anchor}"><h2>{escape(heading)}</h2>')
        parts += [figure(picture, svg, where) for picture, svg in pictures]
        parts.append("</section>")
    parts.append(not_measured(missing))
    parts.append(all_runs(results.runs))
    parts.append("</main>\n<footer>Made by <code>tandem bench report</code>.</footer>\n</body>\n</html>\n")
    return "\n".join(part for part in parts if part)
