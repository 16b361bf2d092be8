#!/usr/bin/env python3
"""Mutants: small faults put into the sources one at a time, each of which a named unit test must find.

mutants.toml is the table; tests/reliability.md says what it is for. The sources are copied to build/mutants/tree,
and only the copy is changed and built. First the copy as it is must pass every test of the mutants that are asked for;
then each mutant must build, and its test must fail, crash, or not end within the time limit. It is an error if a
mutant's old text is not in its file exactly once, if its test runs nothing, or if it does not compile. Mutants of the
Python package have the target "python" and name pytest nodes below python/tests, which may not need a server.

    run.py                  all of them
    run.py --sample 2       so many of them, as the tree of sources decides
    run.py --only NAME ...  these
    run.py --check          no build: only whether all of them still apply
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
from harness.shares import turn_of_tree  # noqa: E402

TABLE = Path(__file__).with_name("mutants.toml")
TREE = ROOT / "build/mutants/tree"
JOBS = os.cpu_count() or 2
LIMIT_S = 60  # of a test; a mutant that hangs it is found
# What configuring and building unit tests reads.
COPIED = (
    "CMakeLists.txt",
    "LICENSE",
    "cmake",
    "src",
    "include",
    "bench",
    "tests",
    "examples",
    "deploy",
    "scripts",
    "rtl",
    "python",
)
PYTHON = "python"  # the target
TOOLS = ROOT / "build/mutants/venv/bin"
PACKAGE = TREE / "build/python/package"
PYTEST_RAN = re.compile(r"(\d+) passed")
PYTEST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
GTEST_RAN = re.compile(r"^\[=+\] (\d+) tests? from", re.MULTILINE)
GTEST_FAILED = re.compile(r"^\[  FAILED  \] (\S+)", re.MULTILINE)


class MutantError(Exception):
    """The table does not fit the sources, or a build or test failed that must not."""


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str  # below the root
    old: str  # in the file exactly once
    new: str
    target: str  # the test program
    test: str  # its --gtest_filter, or the pytest nodes
    why: str  # what would go wrong

    def applied(self, text: str) -> str:
        found = text.count(self.old)
        if found != 1:
            raise MutantError(f"{self.name}: its old text is in {self.file} {found} times, not once")
        return text.replace(self.old, self.new)


def read_table(path: Path = TABLE) -> list[Mutant]:
    mutants = [Mutant(**row) for row in tomllib.loads(path.read_text())["mutant"]]
    names = [m.name for m in mutants]
    for m in mutants:
        if names.count(m.name) > 1:
            raise MutantError(f"{m.name}: two mutants have the name")
        if m.old == m.new or not (m.why and m.test and m.target):
            raise MutantError(f"{m.name}: changes nothing, or a field is empty")
    return mutants


def check(mutants: list[Mutant], root: Path = ROOT) -> None:
    wrong = []
    for m in mutants:
        try:
            m.applied((root / m.file).read_text())
        except (MutantError, OSError) as error:
            wrong.append(str(error))
    if wrong:
        raise MutantError("\n".join(wrong))


def sample(mutants: list[Mutant], count: int, turn: int) -> list[Mutant]:
    """All have had their turn after len / count turns."""
    return [mutants[(turn * count + i) % len(mutants)] for i in range(min(count, len(mutants)))]


def copy_tree() -> None:
    """Brings the copy up to date; what has not changed keeps its time, so that it is not built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *COPIED],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    wanted = {name for name in listed if name and (ROOT / name).is_file()}
    for folder in COPIED:
        for path in (TREE / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(TREE)) not in wanted:
                path.unlink()
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if copy.is_file() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)


def run(command: list[str], limit_s: float | None = None) -> tuple[int, str]:
    """Exit code and output; -1 past the limit. Compilers' results are shared with the main build by ccache."""
    environment = os.environ | {"CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
    try:
        done = subprocess.run(
            command, cwd=TREE, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, ""
    return done.returncode, done.stdout


def build(targets: set[str]) -> tuple[int, str]:
    native = {"tandem_shared" if target == PYTHON else target for target in targets}
    code, output = run(["cmake", "--build", "build", "-j", str(JOBS), "--target", *sorted(native)])
    return build_package() if code == 0 and PYTHON in targets else (code, output)


def build_package() -> tuple[int, str]:
    requirements = [ROOT / f"scripts/requirements-{name}.txt" for name in ("wheel", "python-tests")]
    subprocess.run([ROOT / "scripts/venv", TOOLS.parent, sys.executable, *requirements], check=True)
    library = f"-DTANDEM_LIBRARY={TREE}/build/libtandem.so.0"
    output = ""
    for command in (
        ["cmake", "-S", "python", "-B", "build/python", "-G", "Ninja", f"-DPython_EXECUTABLE={TOOLS}/python", library],
        ["cmake", "--build", "build/python"],
        ["cmake", "--install", "build/python", "--prefix", str(PACKAGE)],
    ):
        code, output = run(command)
        if code != 0:
            return code, output
    shutil.copytree(TREE / "python/tandem", PACKAGE / "tandem", dirs_exist_ok=True)
    return 0, output


def test(m: Mutant) -> tuple[int, str]:
    if m.target != PYTHON:
        return run([f"build/test/{m.target}", f"--gtest_filter={m.test}", "--gtest_brief=1"], LIMIT_S)
    # The source's folder of the same name has no module: Python must not look there first.
    pytest = [f"PYTHONPATH={PACKAGE}", f"{TOOLS}/pytest", "-q", "-p", "no:cacheprovider", "-p", "tandem.pytest_plugin"]
    return run(["env", *pytest, *(f"python/tests/{node}" for node in m.test.split())], LIMIT_S)


def prepare(mutants: list[Mutant]) -> None:
    """The sources as they are: built, and passing."""
    copy_tree()
    if not (TREE / "build/build.ninja").is_file():
        code, output = run(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DTANDEM_TESTS=ON", "-DTANDEM_UNITY=ON"])
        if code != 0:
            raise MutantError(f"the copy cannot be configured:\n{output[-3000:]}")
    code, output = build({m.target for m in mutants})
    if code != 0:
        raise MutantError(f"the copy does not build:\n{output[-3000:]}")
    for m in {(m.target, m.test): m for m in mutants}.values():
        code, output = test(m)
        ran = (PYTEST_RAN if m.target == PYTHON else GTEST_RAN).search(output)
        if code != 0:
            raise MutantError(f"{m.name}: its test fails without it:\n{output[-3000:]}")
        if ran is None or ran[1] == "0":
            raise MutantError(f"{m.name}: {m.target} has no test {m.test}")


def is_killed(m: Mutant) -> tuple[bool, str]:
    """Whether its test finds it, and how."""
    path = TREE / m.file
    original = path.read_text()
    path.write_text(m.applied(original))
    try:
        code, output = build({m.target})
        if code != 0:
            raise MutantError(f"{m.name}: does not compile:\n{output[-3000:]}")
        code, output = test(m)
    finally:
        path.write_text(original)
    if code == 0:
        return False, "survived"
    names = list(dict.fromkeys((PYTEST_FAILED if m.target == PYTHON else GTEST_FAILED).findall(output)))
    if code < 0:
        return True, "hangs" if not output else f"ends by signal {-code}"
    return True, f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if names[3:] else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    try:
        mutants = read_table()
        check(mutants)
        if options.check:
            print(f"{len(mutants)} mutants apply")
            return 0
        if options.only:
            unknown = set(options.only) - {m.name for m in mutants}
            if unknown:
                raise MutantError(f"no such mutant: {', '.join(sorted(unknown))}")
            mutants = [m for m in mutants if m.name in options.only]
        elif options.sample:
            mutants = sample(mutants, options.sample, turn_of_tree())
        prepare(mutants)
        survived = 0
        for m in mutants:
            began = time.monotonic()
            try:
                killed, how = is_killed(m)
            except MutantError as error:
                killed, how = False, str(error)
            survived += not killed
            # Counted by scripts/gates.py.
            print(f"{'passed' if killed else 'failed'} {m.name} ({time.monotonic() - began:.0f} s): {how}", flush=True)
            if not killed:
                print(f"    {m.file}: {m.why}\n    not found by {m.target}: {m.test}")
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(mutants) - survived} of {len(mutants)} mutants found")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())
