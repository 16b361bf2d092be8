"""What `make test` does not run again is what has passed with the same inputs, and nothing else."""

from __future__ import annotations

import importlib.util
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("gates", ROOT / "scripts/gates.py")
gates = importlib.util.module_from_spec(spec)
sys.modules["gates"] = gates  # dataclasses look their module up
spec.loader.exec_module(gates)


class Programs:
    """A build folder with programs that note each run and exit as they are told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran = folder / "ran"
        (folder / "test").mkdir()
        lines = []
        for name in ("one_test", "two_test"):
            self.write(name)
            lines.append(f'add_test({name} "{folder / name}")\n')
        (folder / "CTestTestfile.cmake").write_text("".join(lines))

    def write(self, name: str, code: int = 0, text: str = "") -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n# {text}\necho {name} >>{shlex.quote(str(self.ran))}\nexit {code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, **settings: str) -> tuple[int, list[str]]:
        """Exit code, and which programs ran."""
        self.ran.write_text("")
        plain = {name: value for name, value in os.environ.items() if name != "TANDEM_ALL"}
        command = [sys.executable, ROOT / "scripts/unit_tests.py", self.folder, "2"]
        done = subprocess.run(command, env=plain | settings, capture_output=True, check=False)
        return done.returncode, sorted(self.ran.read_text().split())


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


BOTH = ["one_test", "two_test"]


def test_a_program_that_passed_is_not_run_again_until_it_changes(programs: Programs) -> None:
    assert programs.run() == (0, BOTH)
    assert programs.run() == (0, [])
    programs.write("two_test", text="changed")
    assert programs.run() == (0, ["two_test"])
    assert programs.run(TANDEM_ALL="1") == (0, BOTH)
    assert programs.run(GTEST_FILTER="x") == (0, BOTH), "another question"


def test_a_program_that_failed_is_run_again(programs: Programs) -> None:
    programs.write("one_test", code=1)
    assert programs.run()[0] != 0
    code, ran = programs.run()
    assert code != 0 and ran == ["one_test"]
    programs.write("one_test")
    assert programs.run() == (0, ["one_test"])


def test_a_program_that_is_not_built_fails(programs: Programs) -> None:
    (programs.folder / "one_test").unlink()
    assert programs.run()[0] != 0


def test_every_python_test_is_in_one_part() -> None:
    """tests/debug and tests/schedules run with the sanitizers' builds; what needs a target of its own says so."""
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    elsewhere = ("tests/debug/", "tests/schedules/")
    found: list[str] = []
    for part in gates.python_parts():
        words = part.what.split()
        ignored = [word.removeprefix("--ignore=") for word in words if word.startswith("--")]
        roots = [word for word in words if not word.startswith("--")]
        found += [
            file for file in files
            if any(file == root or file.startswith(f"{root}/") for root in roots)
            and not any(file == out or file.startswith(f"{out}/") for out in ignored)
        ]  # fmt: skip
    twice = {file for file in found if found.count(file) > 1}
    assert all(file.startswith("tests/conformance/") for file in twice), twice
    assert set(found) == {file for file in files if not file.startswith(elsewhere)}


def test_inputs_are_there_and_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in gates.python_parts():
        for name in part.inputs:
            listed = subprocess.check_output(["git", "ls-files", "--", name], cwd=ROOT)
            assert listed, f"{part.name}: no file is {name}"
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr(gates, "ROOT", tmp_path)
    monkeypatch.setattr(gates, "PASSED", tmp_path / "passed")
    monkeypatch.delenv("TANDEM_ALL", raising=False)
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("1")
    key = gates.key_of("script", ("a",))
    assert not gates.has_passed("step", key)
    gates.mark_passed("step", key)
    assert gates.has_passed("step", gates.key_of("script", ("a",)))
    (tmp_path / "b").write_text("2")
    assert gates.has_passed("step", gates.key_of("script", ("a",)))
    assert not gates.has_passed("step", gates.key_of("another", ("a",)))
    (tmp_path / "a").write_text("2")
    assert not gates.has_passed("step", gates.key_of("script", ("a",)))


@pytest.mark.parametrize("shares", [3])
def test_shares_are_all_of_it_once(shares: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/mutants"]
    plain = {name: value for name, value in os.environ.items() if name != "TANDEM_SHARE"}

    def names(**settings: str) -> list[str]:
        output = subprocess.check_output(command, cwd=ROOT, env=plain | settings, text=True)
        return [line for line in output.splitlines() if "::" in line]

    parts = [names(TANDEM_SHARE=f"{i}/{shares}") for i in range(shares)]
    assert sorted(name for part in parts for name in part) == sorted(names())
