"""Results of tests as JUnit files say them, and of tests that failed once: run again alone, twice, one that passes both
times counts as passed and is noted in build/flaky.txt. A test that is noted there from an earlier run fails."""

from __future__ import annotations

import os
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAKY = Path(os.environ.get("TANDEM_FLAKY_FILE", ROOT / "build/flaky.txt"))
# More failures at once are not chance.
AGAIN_MAX = 10


def this_run() -> str:
    """What all steps of one run note their flaky tests under (set by gates.py)."""
    return os.environ.setdefault("TANDEM_RUN", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


@dataclass
class Failure:
    """Of a test by its name in a JUnit file; `path` is None where that says nothing of it."""

    name: str
    text: str
    path: Path | None = None


def count_xml(paths: Iterable[Path]) -> tuple[int, int, dict[str, list[str]]]:
    """What passed, what failed, and what was left out, by its reason."""
    tests = failed = 0
    left_out: dict[str, list[str]] = {}
    for path in paths:
        root = ElementTree.parse(path).getroot()
        for suite in root.iter("testsuite"):
            tests += int(suite.get("tests", 0)) - int(suite.get("skipped", 0)) - int(suite.get("disabled", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        for case in root.iter("testcase"):
            if (mark := case.find("skipped")) is not None:
                why = (mark.get("message") or "").strip().splitlines() or ["no reason given"]
                left_out.setdefault(why[-1], []).append(name_of(case))
    return tests - failed, failed, left_out


def name_of(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}.{case.get('name')}"


def complaints(case: ElementTree.Element) -> list[ElementTree.Element]:
    return case.findall("failure") + case.findall("error")


def failures(path: Path) -> list[Failure]:
    found: dict[str, Failure] = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if marks := complaints(case):
            text = marks[0].get("message") or marks[0].text or ""
            found.setdefault(name_of(case), Failure(name_of(case), text, path))
    return list(found.values())


def forgive(failure: Failure) -> None:
    """Its file says from now on that it passed."""
    if failure.path is None:
        return
    tree = ElementTree.parse(failure.path)
    for suite in tree.getroot().iter("testsuite"):
        for case in suite.findall("testcase"):
            if name_of(case) == failure.name:
                for mark in complaints(case):
                    case.remove(mark)
        bad = [[mark.tag for mark in complaints(case)] for case in suite.findall("testcase")]
        suite.set("failures", str(sum("failure" in tags for tags in bad)))
        suite.set("errors", str(sum("error" in tags for tags in bad)))
    tree.write(failure.path, encoding="utf-8", xml_declaration=True)


def noted() -> list[list[str]]:
    """Run, name and first failure of each line of build/flaky.txt."""
    if not FLAKY.is_file():
        return []
    return [line.split("\t", 2) for line in FLAKY.read_text().splitlines() if line.count("\t") >= 2]


def run_again(failed: list[Failure], passes: Callable[[Failure], bool]) -> list[Failure]:
    """Runs each again alone, twice. Returns those that count as failed; the others are noted and forgiven."""
    if len(failed) > AGAIN_MAX:
        print(f"{len(failed)} tests failed: none is run again", flush=True)
        return failed
    left = []
    for failure in failed:
        if not (passes(failure) and passes(failure)):
            left.append(failure)
            continue
        line = " ".join(failure.text.split())[:400]
        earlier = [run for run, name, _ in noted() if name == failure.name and run != this_run()]
        FLAKY.parent.mkdir(parents=True, exist_ok=True)
        with FLAKY.open("a") as out:
            out.write(f"{this_run()}\t{failure.name}\t{line}\n")
        if earlier:
            print(f"FAILED {failure.name}: flaky, and in the run of {earlier[0]}, too: {line}", flush=True)
            left.append(failure)
            continue
        print(f"flaky {failure.name}: {line}", flush=True)
        forgive(failure)
    return left


def report_flaky() -> None:
    """Those of this run."""
    lines = [(name, text) for run, name, text in noted() if run == this_run()]
    if lines:
        print("flaky: passed when run again alone, twice (build/flaky.txt; a second run in which one is flaky fails)")
        for name, text in lines:
            print(f"     {name}\n       {text}")


def report_slowest(paths: Iterable[Path], count: int = 10) -> None:
    slow: list[tuple[float, str]] = []
    for path in paths:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            slow.append((float(case.get("time") or 0), f"{name_of(case)} ({path.stem})"))
    for seconds, name in sorted(slow, reverse=True)[:count]:
        print(f"{seconds:9.1f} s {name}")
