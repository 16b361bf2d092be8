#!/usr/bin/env python3
"""Runs the unit tests of a build folder by ctest, except programs that have passed just as they are: the same bytes,
arguments, settings of gtest and sanitizers, and files that they read. TANDEM_ALL=1: all of them.

usage: unit_tests.py BUILD_FOLDER JOBS"""

import hashlib
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Read by tests of src/cli and bench/papers.
FILES = ("docs/options.md", "deploy/tandem.toml", "docs/bench-format.md")
SETTINGS = re.compile(r"^(GTEST|ASAN|UBSAN|TSAN|TANDEM)_")


@cache
def hash_of(program: Path) -> bytes:
    return hashlib.sha256(program.read_bytes()).digest() if program.is_file() else b""


def key_of(command: list[str]) -> str:
    digest = hashlib.sha256(hash_of(Path(command[0])) + "\0".join(command).encode())
    for name in FILES:
        digest.update((ROOT / name).read_bytes())
    for name in sorted(filter(SETTINGS.match, os.environ)):
        digest.update(f"{name}={os.environ[name]}\0".encode())
    return digest.hexdigest()


def main() -> int:
    build, jobs = Path(sys.argv[1]), sys.argv[2]
    listed = subprocess.check_output(["ctest", "--test-dir", build, "--show-only=json-v1"])
    commands = {test["name"]: test["command"] for test in json.loads(listed)["tests"]}
    marks = build / "test/passed"
    marks.mkdir(parents=True, exist_ok=True)
    keys = {name: key_of(command) for name, command in commands.items()}

    def has_passed(name: str) -> bool:
        mark = marks / name
        return not os.environ.get("TANDEM_ALL") and mark.is_file() and mark.read_text() == keys[name]

    todo = [name for name in commands if not has_passed(name)]
    print(f"{len(commands)} programs, {len(commands) - len(todo)} of them as when they passed", flush=True)
    for path in (build / "test").glob("*.xml"):  # those of the others still count
        if path.stem in todo or path.stem not in commands:
            path.unlink()
    if not todo:
        return not commands
    for name in todo:
        (marks / name).unlink(missing_ok=True)
    names = "^({})$".format("|".join(map(re.escape, todo)))
    results = (build / "test/ctest.junit").resolve()
    results.unlink(missing_ok=True)
    run = ["ctest", "--test-dir", build, "-j", jobs, "-R", names, "--output-on-failure", "--no-tests=error"]
    status = subprocess.run([*run, "--output-junit", results], check=False).returncode
    if results.is_file():
        for case in ElementTree.parse(results).getroot().iter("testcase"):
            if case.get("status") == "run":
                (marks / case.get("name")).write_text(keys[case.get("name")])
    return status


if __name__ == "__main__":
    sys.exit(main())
