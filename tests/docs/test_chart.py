"""The chart of the README: scripts/chart on documents of `tandem bench compare`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.examples import ROOT


def run(subject: str, cell: str, rate: int, number: float) -> dict:
    result = {"ops_per_s": number, "latency_us": {"p99": number}, "server": {"foreign_share": 0.0}}
    return {"subject": subject, "cell": cell, "settings": {"rate": rate}, "result": result}


def document() -> dict:
    subjects, cells = ("memcached 1.6.18", "tandem", "floor"), ("text-p1", "text-p16")
    runs = [run(s, c, rate, 1e6) for s in subjects for c in cells for rate in (0, 1000) for _ in range(2)]
    return {"machine": {"cpu": "a processor"}, "started": "2026-11-24T00:00:00Z", "runs": runs}


def draw(folder: Path, document: dict) -> subprocess.CompletedProcess[str]:
    (folder / "d.json").write_text(json.dumps(document))
    command = [sys.executable, ROOT / "scripts/chart", folder / "d.json", folder / "p.png"]
    return subprocess.run(command, capture_output=True, text=True)


def test_it_is_drawn(tmp_path: Path) -> None:
    done = draw(tmp_path, document())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_both_protocols_stand_beside_each_other(tmp_path: Path) -> None:
    """Cells are in the order of the chart, not of the runs, and each median stands beside its mark."""
    whole = document()
    for cell, number in (("text-p128", 717.0), ("meta-p16", 28.0)):
        whole["runs"] += [run(s, cell, rate, number) for s in ("memcached 1.6.18", "tandem") for rate in (0, 1000)]
    (tmp_path / "d.json").write_text(json.dumps(whole))
    command = [sys.executable, ROOT / "scripts/chart", tmp_path / "d.json", tmp_path / "p.svg"]
    subprocess.run(command, check=True)
    texts = re.findall(r"<!-- ([^>]*?) -->", (tmp_path / "p.svg").read_text())
    assert texts.index("meta") < texts.index("128")
    assert texts.index("28") < texts.index("717")
    assert {"million operations per second", "99th percentile, µs (logarithmic)"} <= set(texts)


@pytest.mark.parametrize(("share", "code"), [(0.1, 0), (0.11, 1)])
def test_a_busy_machine_is_refused(share: float, code: int, tmp_path: Path) -> None:
    whole = document()
    for r in whole["runs"]:
        r["result"]["server"]["foreign_share"] = share
    done = draw(tmp_path, whole)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "p.png").exists() == (code == 0)
    assert code == 0 or done.stderr == (
        "chart: other processes took 11% of the servers' processors, more than 10%: measure on a quiet machine\n"
    )


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        (lambda r: r["settings"]["rate"] and r["subject"] == "tandem", "no runs at a rate of tandem in text-p1"),
        (
            lambda r: not r["settings"]["rate"] and r["cell"] == "text-p16",
            "no closed loops of memcached 1.6.18 in text-p16",
        ),
        (lambda r: r["subject"] == "tandem", "two servers are wanted, not memcached 1.6.18"),
    ],
)
def test_what_is_missing_is_said(left_out: object, message: str, tmp_path: Path) -> None:
    whole = document()
    whole["runs"] = [r for r in whole["runs"] if not left_out(r)]
    done = draw(tmp_path, whole)
    assert (done.returncode, done.stderr) == (1, f"chart: {message}\n")
    assert not (tmp_path / "p.png").exists()
