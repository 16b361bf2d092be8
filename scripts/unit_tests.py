#!/usr/bin/env python3
"""Runs the unit tests of a build folder by ctest, except programs that have passed just as they are: the same bytes,
arguments, settings of gtest and sanitizers, and files that they read. TANDEM_ALL=1: all of them. A test that fails is
run again alone, twice (results.py).

usage: unit_tests.py BUILD_FOLDER JOBS"""

import hashlib
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from results import Failure, failures, run_again

ROOT = Path(__file__).resolve().parent.parent
# Read by tests of src/options and bench/papers.
FILES = ("docs/options.md", "deploy/tandem.toml", "docs/bench-format.md")
SETTINGS = re.compile(r"^(GTEST|ASAN|UBSAN|TSAN|TANDEM)_")
RUN = ("TANDEM_RUN", "TANDEM_FLAKY_FILE")  # which change nothing
# A program that took longer is not run again as a whole: it would not end sooner.
ALONE_MAX_S = 600
SHARDS = ("GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX")


@dataclass
class Program:
    """A test of ctest's."""

    command: list[str]
    environment: dict[str, str]
    folder: str | None
    took_s: float = 0


@cache
def hash_of(program: Path) -> bytes:
    return hashlib.sha256(program.read_bytes()).digest() if program.is_file() else b""


def key_of(program: Program) -> str:
    digest = hashlib.sha256(hash_of(Path(program.command[0])) + "\0".join(program.command).encode())
    for name in FILES:
        digest.update((ROOT / name).read_bytes())
    settings = {name: value for name, value in os.environ.items() if SETTINGS.match(name) and name not in RUN}
    for name, value in sorted((settings | program.environment).items()):
        digest.update(f"{name}={value}\0".encode())
    return digest.hexdigest()


def programs_of(build: Path) -> dict[str, Program]:
    listed = subprocess.check_output(["ctest", "--test-dir", build, "--show-only=json-v1"])
    programs = {}
    for test in json.loads(listed)["tests"]:
        said = {each["name"]: each["value"] for each in test.get("properties", [])}
        environment = dict(setting.split("=", 1) for setting in said.get("ENVIRONMENT", []))
        programs[test["name"]] = Program(
            test.get("command", [test["name"]]), environment, said.get("WORKING_DIRECTORY")
        )
    return programs


def failures_of(name: str, build: Path, output: str) -> list[Failure]:
    """Those of a program that failed; the program itself, where its results do not say which."""
    found = []
    path = build / f"test/{name}.xml"
    if path.is_file():
        try:
            found = failures(path)
        except ElementTree.ParseError:
            path.unlink()
    return found or [Failure(name, "\n".join(output.splitlines()[-5:]))]


def run_alone(program: Program, failure: Failure) -> bool:
    """Whether the test passes; the program, if the failure is the program's."""
    command, environment = list(program.command), os.environ | program.environment
    if failure.path is not None:
        # Not the results of the whole program.
        command = [argument for argument in command if not argument.startswith("--gtest_output=")]
        command.append(f"--gtest_filter={failure.name}")
        environment = {name: value for name, value in environment.items() if name not in SHARDS}
    elif program.took_s > ALONE_MAX_S:
        return False
    print(f"again: {failure.name}", flush=True)
    try:
        ran = subprocess.run(command, env=environment, cwd=program.folder, timeout=ALONE_MAX_S, check=False)
        return ran.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def leave_out(name: str, build: Path, output: str) -> None:
    """Notes a program that has said that it cannot run here, for whoever reads the results."""
    said = [line for line in output.splitlines() if line.startswith("left out: ")]
    why = said[0].removeprefix("left out: ") if said else "it is disabled"
    suite = ElementTree.Element("testsuite", tests="1", skipped="1", failures="0", errors="0")
    case = ElementTree.SubElement(suite, "testcase", classname="ctest", name=name, time="0")
    ElementTree.SubElement(case, "skipped", message=why)
    ElementTree.ElementTree(suite).write(build / f"test/{name}.xml")
    print(f"left out: {name}, {why}", flush=True)


def main() -> int:
    build, jobs = Path(sys.argv[1]), sys.argv[2]
    programs = programs_of(build)
    marks = build / "test/passed"
    marks.mkdir(parents=True, exist_ok=True)
    keys = {name: key_of(program) for name, program in programs.items()}

    def has_passed(name: str) -> bool:
        mark = marks / name
        return not os.environ.get("TANDEM_ALL") and mark.is_file() and mark.read_text() == keys[name]

    todo = [name for name in programs if not has_passed(name)]
    print(f"{len(programs)} programs, {len(programs) - len(todo)} of them as when they passed", flush=True)
    for path in (build / "test").glob("*.xml"):  # those of the others still count
        if path.stem in todo or path.stem not in programs:
            path.unlink()
    if not todo:
        return not programs
    for name in todo:
        (marks / name).unlink(missing_ok=True)
    names = "^({})$".format("|".join(map(re.escape, todo)))
    results = (build / "test/ctest.junit").resolve()
    results.unlink(missing_ok=True)
    run = ["ctest", "--test-dir", build, "-j", jobs, "-R", names, "--output-on-failure", "--no-tests=error"]
    status = subprocess.run([*run, "--output-junit", results], check=False).returncode
    if not results.is_file():
        return status or 1
    failed: dict[str, list[Failure]] = {}
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        name, output = case.get("name"), case.findtext("system-out") or ""
        programs[name].took_s = float(case.get("time") or 0)
        if case.get("status") == "run":
            (marks / name).write_text(keys[name])
        elif case.get("status") == "fail":
            failed[name] = failures_of(name, build, output)
        elif case.find("skipped") is not None and "left out: " in output:
            leave_out(name, build, output)
            (marks / name).write_text(keys[name])
    if not failed:
        return status
    owner = {id(failure): name for name, list_of in failed.items() for failure in list_of}
    all_failed = [failure for list_of in failed.values() for failure in list_of]
    return int(bool(run_again(all_failed, lambda failure: run_alone(programs[owner[id(failure)]], failure))))


if __name__ == "__main__":
    sys.exit(main())
