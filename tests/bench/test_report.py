"""`tandem bench report`: every kind of picture, numbers that are the documents' own, errors and gaps that are said, bad
documents that are refused, a page that loads nothing."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import random
import re
import statistics
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import html5lib
import pytest
from conftest import ROOT, tandem_binary

DOCUMENTS = Path(__file__).parent / "documents"
PROGRAM = ROOT / "bench/report/program"
NAMES = ("alternate", "compare", "engine", "memory", "paper", "sweep")
DEADLINE_S = 240
SVG = "{http://www.w3.org/2000/svg}"
EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_CANTCREAT = 64, 65, 66, 69, 73


def report(
    out: Path, *files: Path, python: str = sys.executable, **keywords: object
) -> subprocess.CompletedProcess[str]:
    command = [str(tandem_binary()), "bench", "report", "--python", python, "--out", str(out), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, **keywords)


def document(name: str) -> dict:
    return json.loads((DOCUMENTS / f"{name}.json").read_text())


def save(folder: Path, value: object, name: str = "document.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


class Page:
    """A parsed page. Parsing is strict: whatever a browser would have to repair is an error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = (folder / "index.html").read_text()
        self.root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(self.text)

    def element(self, anchor: str) -> ElementTree.Element:
        found = [e for e in self.root.iter() if e.get("id") == anchor]
        assert len(found) == 1, f"{len(found)} elements named {anchor}"
        return found[0]

    def anchors(self, tag: str) -> list[str]:
        return [e.get("id") for e in self.root.iter(tag) if e.get("id")]

    def words(self, anchor: str) -> str:
        return " ".join("".join(self.element(anchor).itertext()).split())

    def table(self, anchor: str) -> list[dict[str, object]]:
        """Rows by their headings: texts, numbers, or (median, low, high)."""
        table = next(self.element(anchor).iter("table"))
        header = ["".join(cell.itertext()) for cell in table.iter("th")]
        rows = []
        for row in table.iter("tr"):
            cells = list(row.iter("td"))
            if cells:
                rows.append(dict(zip(header, map(value_of, cells), strict=True)))
        return rows


def value_of(cell: ElementTree.Element) -> object:
    value = cell.get("data-value")
    if value is None:
        return "".join(cell.itertext())
    if cell.get("data-low") is None:
        return float(value)
    return float(value), float(cell.get("data-low")), float(cell.get("data-high"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    out = tmp_path_factory.mktemp("report")
    run = report(out, *(DOCUMENTS / f"{name}.json" for name in NAMES))
    assert (run.returncode, run.stderr) == (0, "")
    assert "1 RUNS WITH ERRORS" in run.stdout
    return Page(out)


def spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def runs_of(name: str, **wanted: object) -> list[dict]:
    return [run for run in document(name)["runs"] if all(run.get(key) == value for key, value in wanted.items())]


# --- pictures and their numbers ---------------------------------------------------------------------------------------

# By the document that alone makes a report which draws it.
PICTURES = {
    "throughput": ("compare", "throughput of servers"),
    "server-cpu": ("compare", "CPU time of servers"),
    "latency-p99-9": ("compare", "latency at an equal rate"),
    "latency-distribution": ("compare", "distributions, six in one"),
    "pipeline": ("compare", "pipeline depth"),
    "latency-throughput-text-c50": ("sweep", "throughput against latency"),
    "latency-distribution-text-c50": ("sweep", "distributions, one"),
    "threads": ("engine", "scaling"),
    "batch": ("engine", "batch size"),
    "engine-throughput": ("engine", "in process"),
    "ratio-ops-per-s-copy": ("engine", "ratios"),
    "tasks": ("engine", "stacked bars of tasks"),
    "paper-mega-kv-figure-1": ("paper", "a paper's figure with names on its axis"),
    "paper-mega-kv-figure-2": ("paper", "a paper's figure with numbers on its axis"),
    "memory-per-item": ("memory", "memory"),
    "memory-limit": ("memory", "memory beside the limit"),
    "energy-rapl": ("alternate", "energy"),
    "timeline-alternate-256ms": ("alternate", "a timeline"),
}


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Page]:
    """The report of one document, made once."""

    @functools.cache
    def make(name: str) -> Page:
        out = tmp_path_factory.mktemp(name)
        assert report(out, DOCUMENTS / f"{name}.json").returncode == 0
        return Page(out)

    return make


@pytest.mark.parametrize("slug", PICTURES, ids=[told for _, told in PICTURES.values()])
def test_every_kind_of_picture_appears(page_of: Callable[[str], Page], slug: str) -> None:
    page = page_of(PICTURES[slug][0])
    figure = page.element(slug)
    assert figure.tag == "figure"
    assert next(figure.iter(f"{SVG}svg")).get("role") == "img"
    assert "".join(next(figure.iter("figcaption")).itertext()).strip()
    # The machine, and the command lines that the numbers come from.
    assert "cores" in page.words(slug) and "tandem bench " in page.words(slug)
    png = (page.folder / f"{slug}.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width == 1382 and 200 < height < 2500
    svg = ElementTree.fromstring((page.folder / f"{slug}.svg").read_text())
    assert svg.tag == f"{SVG}svg"


def test_files_are_those_of_the_page(page: Page) -> None:
    drawn = {f.get("id") for f in page.root.iter("figure") if next(f.iter(f"{SVG}svg"), None) is not None}
    assert {p.stem for p in page.folder.glob("*.png")} == {p.stem for p in page.folder.glob("*.svg")} == drawn
    assert len(list(page.folder.iterdir())) == 2 * len(drawn) + 1


def drawn_in(page: Page) -> list[str]:
    return [f.get("id") for f in page.root.iter("figure") if next(f.iter(f"{SVG}svg"), None) is not None]


def test_at_most_eight_and_papers_figures_are_drawn(page: Page, page_of: Callable[[str], Page]) -> None:
    drawn = [slug for slug in drawn_in(page) if not slug.startswith("paper-")]
    assert len(drawn) == 8
    assert {"paper-mega-kv-figure-1", "paper-mega-kv-figure-2"} <= set(drawn_in(page))
    # Of each section the first, of as many as there is room for; ratios of one base come last.
    assert {"throughput", "latency-throughput-text-c50", "resident", "timeline-alternate-256ms"} <= set(drawn)
    assert not any(slug.startswith("ratio") for slug in [*drawn, *drawn_in(page_of("compare"))])
    others = [slug for slug in page.anchors("figure") if slug not in drawn]
    assert {"server-cpu-2", "threads", "memory-limit"} <= set(others)
    for slug in others:
        assert page.table(slug), f"{slug} is neither drawn nor a table"
    assert sum("Not drawn: a report draws the 8 pictures" in page.words(slug) for slug in others) >= 10


def test_all_servers_are_on_one_axis(page_of: Callable[[str], Page]) -> None:
    page = page_of("compare")
    for slug in ("throughput", "server-cpu", "latency-p50", "latency-p99", "latency-p99-9", "resident"):
        svg = (page.folder / f"{slug}.svg").read_text()
        assert svg.count('id="axes_') == 1, slug
        for server in ("memcached 1.6.18", "tandem"):
            assert f">{server}<" in svg or server in page.words(slug), (slug, server)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("engine", r"wire: [\d.]+ M operations per second in process \(K\S+\)"),
        ("sweep", r"tandem: [\d.]+ k operations per second \(text-c50\)"),
        ("memory", r"Bytes of memory per item: [\d.]+ \(tandem\), [\d.]+ \(\S.*"),
    ],
)
def test_headline_of_what_was_not_compared(page_of: Callable[[str], Page], name: str, expected: str) -> None:
    assert re.fullmatch(expected, page_of(name).words("headline")), page_of(name).words("headline")


def test_headline_is_that_of_bench_compare(page_of: Callable[[str], Page], page: Page) -> None:
    """The geometric mean over the loads, of Tandem beside memcached; the same that `bench compare` prints."""

    def mean(metric: str, phase: str) -> float:
        ratios = [
            entry["ratio"]["median"]
            for entry in document("compare")["comparisons"]
            if (entry["metric"], entry["phase"], entry["subject"]) == (metric, phase, "tandem")
            and entry["base"].startswith("memcached")
        ]
        return math.exp(statistics.fmean(map(math.log, ratios)))

    line = page_of("compare").words("headline")
    assert line == page.words("headline")
    rate, tail = mean("ops_per_s", "closed"), mean("latency_p99_us", "equal rate")
    assert line == f"{rate:.1f}\N{MULTIPLICATION SIGN} memcached\N{RIGHT SINGLE QUOTATION MARK}s throughput, " + (
        f"p99 {tail:.2f}\N{MULTIPLICATION SIGN} (geometric means of 6 loads)"
    )
    command = [str(tandem_binary()), "bench", "compare", "--render", str(DOCUMENTS / "compare.json")]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
    plain = line.replace("\N{MULTIPLICATION SIGN}", "x").replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    assert printed.splitlines()[0] == plain
    assert len(plain) <= 80
    assert (
        plain.split(",")[0].replace("x", "\N{MULTIPLICATION SIGN}", 1)[:4]
        in page_of("compare").text.split("</title>")[0]
    )


@pytest.mark.parametrize(
    ("slug", "phase", "path"),
    [
        ("throughput-2", "closed", ("ops_per_s",)),
        ("server-cpu-2", "closed", ("server", "cpu_us_per_op")),
        ("latency-p50", "equal rate", ("latency_us", "p50")),
        ("latency-p99", "equal rate", ("latency_us", "p99")),
        ("latency-p99-9", "equal rate", ("latency_us", "p99.9")),
    ],
)
def test_peers_are_medians_of_their_rounds(page: Page, slug: str, phase: str, path: tuple[str, ...]) -> None:
    rows = page.table(slug)
    assert [row["cell"] for row in rows] == ["text-p1", "text-p16", "text-p128", "meta-p16", "set50-p16", "udp-p16"]
    for row in rows:
        for subject in ("floor", "memcached 1.6.18", "tandem"):
            values = []
            for run in runs_of("compare", cell=row["cell"], subject=subject, phase=phase):
                value = run["result"]
                for key in path:
                    value = value[key]
                values.append(value)
            assert len(values) == 3
            assert row[subject] == spread(values)


def test_ratios_are_the_documents(page: Page) -> None:
    goals = 0
    for entry in document("compare")["comparisons"]:
        slug = f"ratio-{entry['metric']}-{entry['base']}-{entry['phase']}"
        slug = re.sub(r"[^a-z0-9]+", "-", slug.lower())
        ratio = entry["ratio"]
        expected = (ratio["median"], ratio["low"], ratio["high"])
        if slug in page.anchors("figure"):
            row = next(row for row in page.table(slug) if row["cell"] == entry["cell"])
            assert row[entry["subject"]] == expected
            if "goal" in entry:
                goals += 1
                assert row["goal"] == entry["goal"]
        else:
            others = [
                row["ratio"]
                for row in page.table("ratios")
                if (row["cell"], row["subject"], row["base"]) == (entry["cell"], entry["subject"], entry["base"])
            ]
            assert expected in others
    assert goals == 6


def test_curves_are_the_sweeps(page: Page) -> None:
    rows = page.table("latency-throughput-text-c50")
    assert len(rows) == 20
    for row in rows:
        runs = [
            run["result"]
            for run in runs_of("sweep", subject=row["subject"])
            if run["settings"]["rate"] == row["wanted ops/s"]
        ]
        assert row["ops/s"] == spread([run["ops_per_s"] for run in runs])
        for name in ("p50", "p99", "p99.9"):
            assert row[f"{name}, µs"] == spread([run["latency_us"][name] for run in runs])
    for search in document("sweep")["searches"]:
        assert f"{search['subject']}: {search['highest_rate']:,.0f} ops/s is the highest rate" in page.words(
            "latency-throughput-text-c50"
        )


def test_distributions_are_the_histograms(page: Page) -> None:
    rows = page.table("latency-distribution-1")
    assert len(rows) == 18
    for row in rows:
        histograms = [
            run["result"]["histogram"]
            for run in runs_of("compare", cell=row["cell"], subject=row["subject"], phase="equal rate")
            if "histogram" in run["result"]
        ]
        values = sorted((upper, n) for h in histograms for upper, n in zip(h["upper"], h["counts"], strict=True))
        total = sum(n for _, n in values)
        assert row["requests"] == total
        for percent in (50, 90, 99, 99.9, 99.99):
            behind = [upper for upper, n in values for _ in range(n)]
            assert row[f"p{percent:g}, µs"] == behind[math.ceil(total * percent / 100) - 1]


@pytest.mark.parametrize(
    ("slug", "setting", "label"), [("threads", "threads", "threads"), ("batch", "batch", "queries per batch")]
)
def test_sweeps_of_settings(page: Page, slug: str, setting: str, label: str) -> None:
    rows = page.table(slug)
    assert len(rows) == {"threads": 24, "batch": 5}[slug]
    for row in rows:
        workload = re.search(r"workload (\S+)", str(row["of"]))
        values = [
            run["result"]["ops_per_s"]
            for run in runs_of("engine", subject=row["subject"])
            if run["settings"][setting] == row[label]
            and run["settings"]["protocol"] == ("meta" if slug == "batch" else "text")
            and run["settings"]["workload"] == (workload[1].rstrip(",") if workload else run["settings"]["workload"])
        ]
        assert len(values) == 3
        assert row["ops/s"] == spread(values)
    if slug == "threads":
        first, second = rows[:2]
        assert second["times the first"] == second["ops/s"][0] / first["ops/s"][0]


def test_tasks_are_the_engines(page: Page) -> None:
    rows = page.table("tasks")
    assert len(rows) == 8 * 6
    for row in rows:
        tasks = [
            task
            for run in runs_of("engine", cell=row["workload"], subject="wire")
            for task in run["result"]["tasks"]
            if task["task"] == row["task"]
        ]
        assert row["ns per query"] == spread([task["ns_per_query"] for task in tasks])
        assert row["share"] == spread([task["share"] for task in tasks])
        assert row["cache misses per query"] == "–"  # noqa: RUF001 (null in the document)


def test_papers_values_stand_beside_ours(page: Page, page_of: Callable[[str], Page]) -> None:
    for figure in document("paper")["figures"][:2]:
        slug = f"paper-mega-kv-figure-{figure['figure']}"
        points = [
            (series["name"], point["x"], point["y"], point.get("low"))
            for series in figure["series"]
            for point in series["points"]
        ]
        rows = page.table(slug)
        assert len(rows) == len(points)
        for row, (name, x, y, low) in zip(rows, points, strict=True):
            values = list(row.values())
            assert values[:3] == [name, x, y]
            assert values[3] == ("–" if low is None else low)  # noqa: RUF001
        words = page.words(slug)
        for text in [series["source"] for series in figure["series"] if "source" in series] + figure.get("missing", []):
            assert text in words
        # Marks in the picture: one for each point, and one in the legend for each series (bars have no marks).
        if figure["figure"] == "2":
            marks = [e for e in page_of("paper").element(slug).iter(f"{SVG}use") if "stroke" in (e.get("style") or "")]
            assert len([m for m in marks if float(m.get("x")) > 0]) >= len(points) + len(figure["series"])


def figure_of(*series: dict, **keys: object) -> dict:
    points = [{"x": 1, "y": 2.0}, {"x": 64, "y": 3.0}]
    all_series = [{"name": f"series {i}", "points": points, **one} for i, one in enumerate(series)]
    axes = {"x": "x", "y": "rate", "unit": "Mops/s"}
    return {"paper": "mega-kv", "figure": "1", "title": "t", **axes, **keys, "series": all_series}


def test_a_series_with_a_unit_of_its_own_has_a_panel(tmp_path: Path) -> None:
    one = document("paper")
    one["figures"] = [figure_of({}, {"y": "speed-up", "unit": "times"}, {})]
    assert report(tmp_path / "out", save(tmp_path, one)).returncode == 0
    page = Page(tmp_path / "out")
    (drawn,) = drawn_in(page)
    words = "".join(page.element(drawn).itertext())
    assert "rate (Mops/s)" in words and "speed-up (times)" in words
    assert [(row["series"], row["of"]) for row in page.table(drawn)[::2]] == [
        ("series 0", "rate (Mops/s)"),
        ("series 1", "speed-up (times)"),
        ("series 2", "rate (Mops/s)"),
    ]
    svg = (tmp_path / "out" / f"{drawn}.svg").read_text()
    assert svg.count('id="axes_') == 2


def test_a_quick_run_says_so(tmp_path: Path, page_of: Callable[[str], Page]) -> None:
    quick = document("paper")
    quick["command"] += " --quick"
    assert report(tmp_path / "out", save(tmp_path, quick)).returncode == 0
    assert "Measured with --quick: not for figures" in Page(tmp_path / "out").words("paper-mega-kv-figure-1")
    assert "Measured with --quick: not for" in (tmp_path / "out/paper-mega-kv-figure-1.svg").read_text()
    assert "--quick" not in page_of("paper").words("paper-mega-kv-figure-1")


def crowded() -> dict:
    """Figures with long names, many series and many values."""
    one = document("paper")
    long = "a name that is rather long, of a plan with a device, raw frames, 95 % GETs"
    many = [{"name": f"{i} {long}"} for i in range(11)]
    values = [{"x": x, "y": 10.0**i} for i, x in enumerate((1, 2, 4, 6, 8, 10))]
    names = [{"x": f"K128-G{i}-U, and more words", "y": 1.0 + i, "low": 0.0, "high": 9.0} for i in range(24)]
    told = (
        "throughput of a single node in operations a second, of 95 % reads, keys of 8 bytes, values of 512, theta 0.5"
    )
    one["figures"] = [
        figure_of(*many, y=told, x=told, title=told),
        figure_of({"points": values}, {"points": values, "y": told, "unit": "us"}, figure="2"),
        figure_of({"points": names}, {"points": names[:3], "y": "speed-up", "unit": "times"}, figure="3"),
        figure_of({"points": [{"x": 5, "y": 0.0}]}, figure="4"),
    ]
    return one


def test_pictures_have_room_for_their_texts(tmp_path: Path) -> None:
    """No text reaches over an edge, no legend into the axes, and both axes tell at least two values."""
    from matplotlib.ticker import FixedLocator

    drawn = []

    def draw(picture: object, folder: Path) -> str:
        figure = picture.draw()
        figure.draw_without_rendering()
        drawn.append(picture.slug)
        told = (*figure.texts, *(t for legend in figure.legends for t in legend.get_texts()))
        for axes in (axes for axes in figure.axes if axes.get_visible()):
            told += (axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label)
            for at, axis in enumerate((axes.xaxis, axes.yaxis)):
                low, high = sorted(axis.get_view_interval())
                labels = [t for t in axis.get_ticklabels() if t.get_text() and low <= t.get_position()[at] <= high]
                told += tuple(labels)
                is_shared = not axis.get_tick_params()[("labelbottom", "labelleft")[at]]
                values = {float(v) for line in axes.lines for v in (line.get_xdata(), line.get_ydata())[at]}
                least = 1 if isinstance(axis.get_major_locator(), FixedLocator) else min(2, len(values))
                assert is_shared or len({t.get_text() for t in labels}) >= least, (picture.slug, at)
            for legend in figure.legends:
                edge = legend.get_window_extent().y0
                assert axes._left_title.get_window_extent().y1 <= edge + 1, picture.slug
        for text in told:
            box = text.get_window_extent()
            if text.get_text():
                assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1, (picture.slug, text.get_text())
                assert box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1, (picture.slug, text.get_text())
        return ""

    with report_modules() as module, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "draw", draw)
        patch.setattr("tandem_report.headline.DRAWN_MOST", 99)
        module.build([("crowded.json", crowded()), *((f"{n}.json", document(n)) for n in NAMES)], tmp_path)
    assert len(drawn) > 20


def test_measured_figures_of_a_gpu_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    command = [
        tandem_binary(),
        "bench",
        "paper",
        "mega-kv",
        "10",
        "12",
        "17",
        "--quick",
        "--gpu",
        "sim",
        "--threads",
        "1",
    ]
    subprocess.run([*command, "--json", path], check=True, timeout=DEADLINE_S, stdout=subprocess.DEVNULL)
    run = report(tmp_path / "out", path)
    assert (run.returncode, run.stderr) == (0, "")
    page = Page(tmp_path / "out")
    for figure in json.loads(path.read_text())["figures"]:
        slug = f"paper-mega-kv-figure-{figure['figure']}"
        points = [(s["name"], p["x"], p["y"]) for s in figure["series"] for p in s["points"]]
        assert [tuple(row.values())[:3] for row in page.table(slug)] == points
        assert all(isinstance(x, int) for _, x, _ in points)
        for series in figure["series"]:
            assert series["source"] in page.words(slug)


def test_memory_and_energy(page: Page) -> None:
    for row in page.table("memory-per-item"):
        for subject in ("memcached 1.6.18", "tandem"):
            memory = runs_of("memory", cell=row["cell"], subject=subject)[0]["result"]["memory"]
            assert row[subject][0] == memory["bytes_per_item"]
            assert row[f"items, {subject}"][0] == memory["items"]
    for row in page.table("memory-limit"):
        memory = runs_of("memory", cell=row["cell"], subject=row["subject"])[0]["result"]["memory"]
        assert row["resident, MiB"][0] == memory["resident_bytes"] / 2**20
        assert row["limit, MiB"][0] == memory["limit_bytes"] / 2**20
    row = page.table("energy-rapl")[0]
    for run in document("alternate")["runs"]:
        assert row[run["subject"]][0] == run["result"]["energy"]["uj_per_op"]


def test_timeline_is_the_runs(page: Page) -> None:
    rows = page.table("timeline-alternate-256ms")
    points = [
        (run["subject"], p["t"], p["ops_per_s"], p["p99"])
        for run in document("alternate")["runs"]
        for p in run["result"]["timeline"]
    ]
    assert [(r["subject"], r["s"], r["ops/s"], r["p99, µs"]) for r in rows] == points


def test_every_run_is_listed_with_its_command(page: Page) -> None:
    rows = page.table("runs")
    runs = [run for name in NAMES for run in document(name)["runs"]]
    assert [row["run"] for row in rows] == [f"R{i + 1}" for i in range(len(runs))]
    for row, run in zip(rows, runs, strict=True):
        assert (row["kind"], row["cell"], row["subject"]) == (run["kind"], run["cell"], run["subject"])
        assert row["command"] == run["command"]
        if "ops_per_s" in run["result"]:
            assert row["ops/s"] == run["result"]["ops_per_s"]


# --- what is said -----------------------------------------------------------------------------------------------------


def test_errors_are_loud(page: Page, tmp_path: Path) -> None:
    errors = page.element("errors")
    assert errors.get("role") == "alert" and "errors" in errors.get("class")
    words = page.words("errors")
    assert "Errors in 1 of 267 runs" in words and "37 timeouts" in words
    assert "udp request 1187: no reply within 1 s" in words
    assert "Includes runs with errors: R106" in page.words("latency-p99")
    assert "with errors" not in page.words("throughput")
    assert [row["errors"] for row in page.table("runs")].count("37 timeouts") == 1

    assert report(tmp_path / "fine", DOCUMENTS / "memory.json").returncode == 0
    fine = Page(tmp_path / "fine")
    assert "errors" not in fine.anchors("section")
    assert "no errors" in fine.words("summary")


def test_each_kind_of_error_is_said(tmp_path: Path) -> None:
    broken = document("memory")
    for run, count in zip(
        broken["runs"], ("wrong_values", "wrong_replies", "unexpected_misses", "connection"), strict=False
    ):
        run["result"]["errors"] = {count: 3}
    run = report(tmp_path / "out", save(tmp_path, broken))
    assert run.returncode == 0 and "4 RUNS WITH ERRORS" in run.stdout
    words = Page(tmp_path / "out").words("errors")
    for text in ("3 wrong values", "3 wrong replies", "3 unexpected misses", "3 connection errors"):
        assert text in words


def test_what_is_missing_is_said(page: Page) -> None:
    words = page.words("not-measured")
    for text in (
        "redis-server and valkey-server are not installed",
        "perf_event_open is not permitted",
        "no RAPL counter in /sys/class/powercap, no NVML",
        "dido, figure 17 (Speedup over Mega-KV): GPU placement: not built yet",
    ):
        assert text in words


def test_void_runs_are_listed_but_not_drawn(tmp_path: Path) -> None:
    void = document("memory")
    void["runs"][0]["void"] = "the client was late"
    void["runs"][1]["result"]["server"] = {"foreign_share": 0.25}
    assert report(tmp_path / "out", save(tmp_path, void)).returncode == 0
    page = Page(tmp_path / "out")
    assert "void: the client was late" in page.words("runs")
    assert page.table("memory-per-item")[0]["tandem"] == "–"  # noqa: RUF001
    assert "Other processes took 25% (most: 25%)" in page.words("not-measured")


def test_machines_and_documents_are_told_apart(page: Page) -> None:
    words = page.words("summary")
    for text in (
        "Intel(R) Xeon(R) Platinum 8480+",
        "112 cores",
        "2,048 GiB",
        "NVIDIA H100",
        "AMD EPYC 9R14",
        "6ab9a8f0c1d2",
    ):
        assert text in words
    for name in NAMES:
        assert document(name)["command"] in words
    headings = ["".join(h.itertext()) for h in page.root.iter("h2")]
    assert "Side by side, machine 1" in headings and "Side by side, machine 2" in headings


def test_two_builds_are_two_subjects(tmp_path: Path) -> None:
    older = document("memory")
    older["commit"] = "0123456789ab"
    run = report(tmp_path / "out", DOCUMENTS / "memory.json", save(tmp_path, older))
    assert run.returncode == 0
    header = page_header(Page(tmp_path / "out"), "memory-per-item")
    assert "tandem 0.3.0 (6ab9a8f0c1d2)" in header and "tandem 0.3.0 (0123456789ab)" in header
    assert header.count("memcached 1.6.18") == 1


def page_header(page: Page, anchor: str) -> list[str]:
    return ["".join(cell.itertext()) for cell in page.element(anchor).iter("th")]


# --- the page ---------------------------------------------------------------------------------------------------------


def check_loads_nothing(page: Page) -> None:
    anchors = {e.get("id") for e in page.root.iter() if e.get("id")}
    assert len(anchors) == len([e for e in page.root.iter() if e.get("id")]), "a name is there twice"
    for element in page.root.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag.rsplit("}")[-1] not in {
            "script",
            "link",
            "iframe",
            "object",
            "embed",
            "img",
            "image",
            "base",
            "form",
        }
        for name, value in element.attrib.items():
            name = str(name).rsplit("}")[-1]
            assert not name.startswith("on"), f"{element.tag} {name}"
            if name in {"href", "src", "srcset", "action", "data", "poster", "background"}:
                assert value[1:] in anchors if value.startswith("#") else (page.folder / value).is_file(), value
            for address in re.findall(r"url\(([^)]*)\)", value):
                assert address[1:] in anchors and address[0] == "#", value
    for style in page.root.iter("style"):
        assert not re.search(r"@import|url\(|//", "".join(style.itertext()))
    assert "http-equiv" in page.text and "default-src 'none'" in page.text


def test_page_loads_nothing(page: Page) -> None:
    check_loads_nothing(page)
    assert not re.search(r"(?:https?:)?//\w", page.text)


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=http://evil.example/x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "]]><!-- --> --!> </style></svg></table>",
    "$\\frac{1$ _^ $x$ \\undefined $$",
    "_hidden",
    "&amp; &lt; &#x3c;",
    "\u202eright to left \u0000\u0007\u001b[31m\r\n\t",
    "\U0001f40c \u4e2d\u6587 e\u0301",
    "long " * 400,
    "",
)


@pytest.mark.parametrize("first", range(0, len(HOSTILE), 4))
def test_texts_of_documents_stay_texts(tmp_path: Path, first: int) -> None:
    """Every text of a document is one of the hostile ones, another each time."""
    used: set[str] = set()
    order = itertools.cycle(HOSTILE[first:] + HOSTILE[:first])

    def text() -> str:
        used.add(chosen := next(order))
        return chosen

    hostile = document("memory")
    hostile["runs"] += document("alternate")["runs"]
    hostile["figures"] = document("paper")["figures"][:1]
    hostile["figures"][0]["series"][0]["points"] = [{"x": text(), "y": 1}, {"x": "b", "y": 2}]
    for figure in hostile["figures"]:
        for key in ("paper", "figure", "title", "x", "y", "unit"):
            figure[key] = text()
        for series in figure["series"]:
            series["name"] = text()
    hostile["notes"] = [text()]
    for key in ("command", "version", "commit"):
        hostile[key] = text()
    for key in ("cpu", "os", "kernel"):
        hostile["machine"][key] = text()
    hostile["machine"].update(gpus=[text()], caches={text(): 1})
    for i, run in enumerate(hostile["runs"]):
        run.update(cell=f"{text()}{i // 2}", subject=f"{text()} {i % 2}", command=text())
        run["settings"][text() or "setting"] = text()
        if "errors" in run["result"]:
            run["result"]["errors"].update(first=text(), timeouts=1)
        if "energy" in run["result"]:
            run["result"]["energy"]["source"] = text()
    hostile["comparisons"] = [
        {
            "cell": text(),
            "metric": text(),
            "subject": text(),
            "base": text(),
            "ratio": {"median": 0.5},
            "better": "less",
        }
    ]
    run = report(tmp_path / "out", save(tmp_path, hostile))
    assert (run.returncode, run.stderr) == (0, "")
    page = Page(tmp_path / "out")
    check_loads_nothing(page)
    assert used == set(HOSTILE)
    words = " ".join("".join(page.root.itertext()).split())
    for chosen in used:
        shown = "".join(c if c.isprintable() else " " for c in chosen)
        assert " ".join(shown.split()) in words


def test_halves_of_surrogate_pairs_are_shown_somehow(tmp_path: Path) -> None:
    odd = save(tmp_path, json.dumps(document("memory")).replace("tandem -m", "\\ud800 -m"))
    run = report(tmp_path / "out", odd)
    assert (run.returncode, run.stderr) == (0, "")
    assert "? -m 1024" in Page(tmp_path / "out").words("runs")


def test_same_documents_same_report(tmp_path: Path) -> None:
    """Byte for byte: from the program and from its sources, a second time over the first."""
    files = [DOCUMENTS / "memory.json", DOCUMENTS / "paper.json"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert report(first, *files).returncode == 0
    contents = {path.name: path.read_bytes() for path in first.iterdir()}
    assert report(first, *files).returncode == 0
    subprocess.run(
        [sys.executable, "-B", PROGRAM, "--out", second, *files],
        check=True,
        timeout=DEADLINE_S,
        stdout=subprocess.DEVNULL,
    )
    for folder in (first, second):
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


# --- what is refused --------------------------------------------------------------------------------------------------


def put(path: str, value: object) -> Callable[[dict], None]:
    """Sets what a path such as runs.0.result names; `del` removes it."""

    def change(target: dict) -> None:
        *parents, last = [int(word) if word.isdigit() else word for word in path.split("/")]
        for word in parents:
            target = target[word]
        if value is DELETE:
            del target[last]
        else:
            target[last] = value

    return change


DELETE = object()
BAD = [
    (put("format", "tandem-bench/2"), "format: expected "),
    (put("format", DELETE), "format: missing"),
    (put("machine", DELETE), "machine: missing"),
    (put("surprise", 1), "surprise: unknown key"),
    (put("started", "yesterday"), "started: expected a time"),
    (put("runs/1/kind", "dance"), "runs[1].kind: expected one of load, engine"),
    (put("runs/1/subject", 5), "runs[1].subject: expected a string, found 5"),
    (put("runs/1/cell", DELETE), "runs[1].cell: missing"),
    (put("runs/1/colour", "red"), "runs[1].colour: unknown key"),
    (put("runs/1/round", -1), "runs[1].round: expected a whole number"),
    (put("runs/1/settings/keys", [1]), "runs[1].settings.keys: expected a string, a number"),
    (put("runs/1/result/ops_per_s", "many"), 'runs[1].result.ops_per_s: expected a number of 0 or more, found "many"'),
    (put("runs/1/result/ops", 1.5), "runs[1].result.ops: expected a whole number"),
    (put("runs/1/result/ops", True), "runs[1].result.ops: expected a whole number"),
    (put("runs/1/result/ops", 10**400), "runs[1].result.ops: expected a whole number"),
    (put("runs/1/result/speed", 1), "runs[1].result.speed: unknown key"),
    (put("runs/1/result/errors/wrong", 1), "runs[1].result.errors.wrong: unknown key"),
    (put("runs/1/result/latency_us/p98", 1), "runs[1].result.latency_us.p98: unknown key"),
    (put("runs/1/result/latency_us/p50", 1e9), "runs[1].result.latency_us.p90: "),
    (put("runs/1/result/histogram/unit", "ms"), "runs[1].result.histogram.unit: expected one of us"),
    (put("runs/1/result/histogram/counts", [1]), "runs[1].result.histogram.counts: 1 of them for "),
    (put("runs/1/result/histogram/upper/3", 0.5), "runs[1].result.histogram.upper[3]: "),
    (put("runs/1/result/timeline/0/t", DELETE), "runs[1].result.timeline[0].t: missing"),
    (put("runs/1/result/energy", {"source": "rapl"}), "runs[1].result.energy.joules: missing"),
    (put("runs/1/result/energy", {"unavailable": "no", "joules": 1}), "runs[1].result.energy.joules: unknown key"),
    (put("comparisons", [{"cell": "a"}]), "comparisons[0].metric: missing"),
    (put("searches", [{}]), "searches[0].cell: missing"),
    (
        put(
            "figures",
            [
                {
                    "paper": "x",
                    "figure": "1",
                    "title": "t",
                    "series": [{"name": "a", "points": [{"x": 1, "y": 1, "runs": [9]}]}],
                }
            ],
        ),
        "figures[0].series[0].points[0].runs[0]: there is no run 9",
    ),
    (put("machine/cores", "two"), "machine.cores: expected a whole number"),
    (put("runs/1/result/planner", [1]), "runs[1].result.planner: expected an object"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_documents_are_refused(tmp_path: Path, change: Callable[[dict], None], message: str) -> None:
    bad = document("alternate")
    change(bad)
    path = save(tmp_path, bad)
    run = report(tmp_path / "out", path)
    assert (run.returncode, run.stdout) == (EX_DATAERR, "")
    assert f"skipped {path}: {message}" in run.stderr
    assert not (tmp_path / "out").exists()


def test_what_a_planner_says_is_accepted(tmp_path: Path) -> None:
    """It is as `stats planner` has it, whatever that has."""
    good = document("alternate")
    put("runs/0/result/planner", {"reason": "measured", "batch_min": 2048, "share": 0.5})(good)
    run = report(tmp_path / "out", save(tmp_path, good))
    assert (run.returncode, run.stderr) == (0, "")


def test_a_bad_document_is_skipped(tmp_path: Path) -> None:
    """The rest are drawn; output, page and exit code say what is missing, whichever comes first."""
    bad = document("alternate")
    put("runs/0/result/opps", 1)(bad)
    path, fine, none = save(tmp_path, bad), DOCUMENTS / "memory.json", tmp_path / "none.json"
    for files, code in (((path, fine), EX_DATAERR), ((fine, path), EX_DATAERR), ((none, fine, path), EX_NOINPUT)):
        run = report(tmp_path / "out", *files)
        assert run.returncode == code
        assert f"skipped {path}: runs[0].result.opps: unknown key" in run.stderr
        assert f"{len(files) - 1} DOCUMENTS SKIPPED" in run.stdout
        page = Page(tmp_path / "out")
        assert "memory-per-item" in page.anchors("figure")
        assert f"{path}: runs[0].result.opps: unknown key" in page.words("not-measured")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "format: missing"),
        ("[" * 100_000, "not JSON that can be read"),
        ('{"format": "tandem-bench/1", "format": "tandem-bench/1"}', "format: twice in one object"),
        ('{"format": "tandem-bench/1", "x": NaN}', "NaN is no JSON number"),
        ("9" * 5000, "not JSON that can be read"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, text: str, message: str) -> None:
    run = report(tmp_path / "out", save(tmp_path, text))
    assert run.returncode == EX_DATAERR
    assert message in run.stderr and "Traceback" not in run.stderr


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"format": "\xff"}')
    run = report(tmp_path / "out", path)
    assert run.returncode == EX_DATAERR and "not UTF-8: byte 12" in run.stderr


@contextmanager
def report_modules() -> Iterator[object]:
    sys.path.insert(0, str(PROGRAM))
    try:
        from tandem_report import report as module

        yield module
    finally:
        sys.path.remove(str(PROGRAM))


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, element in items:
        yield (*path, key)
        yield from places(element, (*path, key))


ODD = (None, True, -1, 0, 1, 1.5, 1e308, 2**63, "", "x", [], {}, [{}], {"x": 1}, [0], "text-p16")


DRAWN = 10


def test_whatever_is_accepted_is_drawn(tmp_path: Path) -> None:
    """Documents changed at random are refused with a DocumentError or make a report."""
    chance = random.Random(5)
    accepted = refused = 0
    with report_modules() as module:
        from tandem_report.schema import DocumentError, parse

        for _ in range(1500):
            changed = document(chance.choice(("memory", "paper", "alternate")))
            for _ in range(chance.choice((1, 1, 2, 3))):
                path = chance.choice(list(places(changed)))
                target = changed
                for key in path[:-1]:
                    target = target[key]
                if chance.random() < 0.3:
                    del target[path[-1]]
                else:
                    target[path[-1]] = copy.deepcopy(chance.choice(ODD))
            try:
                parse(json.dumps(changed).encode())
            except DocumentError:
                refused += 1
                continue
            accepted += 1
            if accepted <= DRAWN:
                module.build([("x.json", changed)], tmp_path)
                Page(tmp_path)
    assert accepted > DRAWN and refused > 500


def test_files_and_options_that_are_not_there(tmp_path: Path) -> None:
    fine = DOCUMENTS / "memory.json"
    run = report(tmp_path / "out", tmp_path / "none.json")
    assert run.returncode == EX_NOINPUT and f"{tmp_path}/none.json: No such file" in run.stderr
    blocked = save(tmp_path, "", "file")
    run = report(blocked, fine)
    assert run.returncode == EX_CANTCREAT and str(blocked) in run.stderr
    assert report(tmp_path / "out").returncode == EX_USAGE
    command = [str(tandem_binary()), "bench", "report", str(fine)]
    assert subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False).returncode == EX_USAGE
    assert not (tmp_path / "out").exists()


def test_missing_matplotlib_and_python_are_said(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without site-packages
    bare.chmod(0o755)
    run = report(tmp_path / "out", DOCUMENTS / "memory.json", python=str(bare))
    assert run.returncode == EX_UNAVAILABLE and "python3-matplotlib" in run.stderr
    run = report(tmp_path / "out", DOCUMENTS / "memory.json", python=str(tmp_path / "none"))
    assert run.returncode == EX_UNAVAILABLE and "install python3 and python3-matplotlib" in run.stderr
    command = [str(tandem_binary()), "bench", "report", "--out", str(tmp_path / "out"), str(DOCUMENTS / "memory.json")]
    environment = {"TANDEM_PYTHON": str(tmp_path / "other")}
    run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, env=environment)
    assert run.returncode == EX_UNAVAILABLE and f"cannot run {tmp_path}/other" in run.stderr


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Neither the written-out program nor half-written files; a strange working directory changes nothing."""
    temporary, odd = tmp_path / "temporary", tmp_path / "odd"
    temporary.mkdir()
    odd.mkdir()
    for name in ("json.py", "matplotlib.py", "html.py"):
        (odd / name).write_text("raise SystemExit('the working directory was imported from')\n")
    environment = {"TMPDIR": str(temporary), "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    run = report(tmp_path / "out", DOCUMENTS / "memory.json", cwd=odd, env=environment)
    assert (run.returncode, run.stderr) == (0, "")
    assert list(temporary.iterdir()) == []
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


# --- the page about the format ----------------------------------------------------------------------------------------


def test_the_example_of_the_docs_is_a_document(tmp_path: Path) -> None:
    text = (ROOT / "docs/bench-format.md").read_text()
    example = re.search(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert example is not None
    run = report(tmp_path / "out", save(tmp_path, example[1]))
    assert (run.returncode, run.stderr) == (0, "")


def test_the_docs_name_every_key() -> None:
    """And the schema has no key that the page has not."""
    text = (ROOT / "docs/bench-format.md").read_text()
    source = (PROGRAM / "tandem_report/schema.py").read_text()
    source = source[source.index("LATENCY = ") : source.index("def check_runs_exist")]
    keys = set(re.findall(r'"([a-z_0-9.]+)"(?=[:,)])', source)) - {"us", "less", "more"}
    assert len(keys) > 80
    assert {key for key in keys if f"`{key}`" not in text and f'"{key}"' not in text} == set()
