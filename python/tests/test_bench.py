"""python/bench runs: every subject does its calls, and each goal gets a ratio. What the figures are is not asked."""

import json
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "bench/run.py"


def test_each_subject_takes_its_turns(tmp_path: Path) -> None:
    command = [sys.executable, str(RUN), "--keys", "200", "--rounds", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    measured = {each["name"]: each["times"] for each in json.loads((tmp_path / "times.json").read_text())["measured"]}
    assert set(measured) == {"get", "set", "get_rows", "set_rows"}
    seen = {name for times in measured.values() for name in times}
    assert {"tandem", "tandem, two threads", "the C call"} <= seen
    assert {"dict", "diskcache", "cachetools LRU", "lmdb getmulti", "lmdb, one transaction each"} <= seen
    for times in measured.values():
        assert all(len(each["processor"]) == 2 and min(each["processor"]) > 0 for each in times.values())
    goals = (tmp_path / "goals.md").read_text().splitlines()
    assert len(goals) == 2 + 4 + 2 + 4 + 3
    assert all(line.endswith(("| met |", "| missed |")) for line in goals[2:])
    assert goals[2].startswith("| get | 200 | lmdb, in one transaction / tandem | >= 2 | ")


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in (["--keys", "0"], ["--rounds", "0"], ["--batch", "0"], ["--batch", "1000000"]):
        done = subprocess.run([sys.executable, str(RUN), *wrong], capture_output=True, text=True)
        assert done.returncode == 2 and "at least 1" in done.stderr
