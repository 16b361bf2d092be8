"""The table of mutants fits the sources, and its runner sees what does not. Trying them: `make test-mutants`."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.run import Mutant, MutantError, check, read_table, sample


def test_every_mutant_applies() -> None:
    mutants = read_table()
    check(mutants)
    assert len(mutants) >= 30


def mutant(**fields: str) -> Mutant:
    row = {"name": "m", "file": "f.cpp", "old": "a < b", "new": "a <= b", "target": "t", "test": "T.*", "why": "w"}
    return Mutant(**(row | fields))


@pytest.mark.parametrize("text", ["a > b", "a < b; a < b", ""])
def test_old_text_that_is_not_there_once_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "f.cpp").write_text(text)
    with pytest.raises(MutantError, match=r"m: its old text is in f\.cpp [02] times"):
        check([mutant()], tmp_path)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MutantError, match=r"f\.cpp"):
        check([mutant()], tmp_path)


ROW = '[[mutant]]\nname = "{name}"\nfile = "f"\nold = "o"\nnew = "{new}"\ntarget = "t"\ntest = "T.*"\nwhy = "{why}"\n'


def test_a_table_that_says_too_little_is_an_error(tmp_path: Path) -> None:
    table = tmp_path / "table.toml"
    table.write_text(ROW.format(name="a", new="n", why="w") * 2)
    with pytest.raises(MutantError, match="two mutants"):
        read_table(table)
    table.write_text(ROW.format(name="a", new="o", why="w"))
    with pytest.raises(MutantError, match="changes nothing"):
        read_table(table)
    table.write_text(ROW.format(name="a", new="n", why=""))
    with pytest.raises(MutantError, match="a field is empty"):
        read_table(table)


def test_samples_come_round_to_all() -> None:
    mutants = [mutant(name=str(i)) for i in range(7)]
    seen = {m.name for day in range(739_000, 739_004) for m in sample(mutants, 2, day)}
    assert len(seen) == 7
