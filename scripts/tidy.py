#!/usr/bin/env python3
"""Runs clang-tidy on every source of a compile database, several at a time, skipping those that were clean before:
a source is known by the hash of its text, its own includes' text, its command and the checks.

usage: tidy.py BUILD_FOLDER [--product]

--product leaves out tests, benchmarks and fuzz targets."""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APART = re.compile(r"_(test|bench|fuzz)\.cpp$|^/(tests|bench/micro|examples|rtl)/|_test\.dir/|/recorder\.dir/")
INCLUDE = re.compile(rb'^\s*#\s*include\s*(?:"([^"]+)"|<(tandem/[^>]+)>)', re.MULTILINE)


@cache
def own_includes(path: Path) -> frozenset[Path]:
    """The files of this tree that `path` names in its includes."""
    names = [(a or b).decode() for a, b in INCLUDE.findall(path.read_bytes())]
    places = [path.parent, ROOT / "src", ROOT / "include", ROOT]
    return frozenset(file for name in names for place in places if (file := (place / name).resolve()).is_file())


def with_includes(path: Path) -> list[Path]:
    found, waiting = set(), {path.resolve()}
    while waiting:
        found |= waiting
        waiting = {file for path in waiting for file in own_includes(path)} - found
    return sorted(found)


def key_of(entry: dict, common: bytes) -> str:
    digest = hashlib.sha256(common + entry["command"].encode())
    for path in with_includes(Path(entry["file"])):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> int:
    tidy, build = ROOT / "build/venv/bin/clang-tidy", Path(sys.argv[1])
    known = ROOT / "build/tidy-clean"
    known.mkdir(parents=True, exist_ok=True)
    common = subprocess.check_output([tidy, "--version"]) + (ROOT / ".clang-tidy").read_bytes()
    entries = json.loads((build / "compile_commands.json").read_text())
    if "--product" in sys.argv[2:]:
        entries = [entry for entry in entries if not APART.search(entry["file"].removeprefix(str(ROOT)))]
    todo = [(entry["file"], known / key_of(entry, common)) for entry in entries]
    todo = [(file, mark) for file, mark in todo if not mark.exists()]

    def check(job: tuple[str, Path]) -> str:
        file, mark = job
        command = [tidy, "--quiet", "-p", str(build), file]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if run.returncode == 0:
            mark.touch()
            return ""
        return run.stdout or f"{file}: clang-tidy exited with {run.returncode}\n"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [output for output in pool.map(check, todo) if output]
    print(f"{len(entries)} sources, {len(todo)} checked now, {len(failures)} with findings")
    print(*failures, sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
