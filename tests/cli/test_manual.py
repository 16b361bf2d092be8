"""The manual pages: two formatters find no fault, and they name what the program has."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cli.programs import EX_USAGE, call, tandem

PAGES = ["tandem", "tandem.toml"]


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.write_text(tandem("manual", request.param).stdout)
    return path


def formatter(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is missing: run scripts/setup test", pytrace=False)
    return found


def shown(page: Path) -> str:
    """The page as a reader sees it, without bold."""
    result = call(formatter("mandoc"), "-T", "utf8", "-O", "width=500", page)
    assert result.returncode == 0, result.stderr
    return re.sub(".\x08", "", result.stdout)


def test_groff_warns_of_nothing(page: Path) -> None:
    result = call(formatter("groff"), "-man", "-Tutf8", "-ww", "-z", page)
    assert (result.returncode, result.stderr) == (0, "")


def test_mandoc_warns_of_nothing(page: Path) -> None:
    result = call(formatter("mandoc"), "-T", "lint", "-W", "warning", page)
    assert (result.returncode, result.stdout) == (0, "")


def test_a_fault_would_be_found(page: Path) -> None:
    page.write_text(page.read_text() + ".nosuchmacro\n")
    assert "nosuchmacro" in call(formatter("groff"), "-man", "-Tutf8", "-ww", "-z", page).stderr
    assert "nosuchmacro" in call(formatter("mandoc"), "-T", "lint", "-W", "warning", page).stdout


def test_every_option_is_explained(page: Path) -> None:
    text = shown(page)
    options = re.findall(r"--(\[no-\])?([a-z][a-z-]+)", tandem("serve", "--help").stdout)
    assert len(options) > 20
    for _, option in options:
        if page.name == "tandem":
            assert re.search(rf"^ +(-\w, )?--{option}\b", text, re.MULTILINE), option
        elif option not in ("config", "check", "help"):
            assert re.search(rf"^ +{option}\b", text, re.MULTILINE), option


def test_memcacheds_letters_and_the_commands_are_explained(tmp_path: Path) -> None:
    page = tmp_path / "tandem"
    page.write_text(tandem("manual", "tandem").stdout)
    text = shown(page)
    for letter in re.findall(r"^(-\w)\b", tandem("memcached", "-h").stdout, re.MULTILINE):
        assert re.search(rf"^ +{letter}\b", text, re.MULTILINE), letter
    for command in re.findall(r"^  (\w+) ", tandem("help").stdout, re.MULTILINE):
        assert re.search(rf"^ +{command}\b", text, re.MULTILINE), command


@pytest.mark.parametrize("arguments", [[], ["memcached"], ["tandem", "tandem.toml"]])
def test_bad_calls(arguments: list[str]) -> None:
    result = tandem("manual", *arguments)
    assert (result.returncode, result.stdout) == (EX_USAGE, "")
    assert "tandem.toml" in result.stderr
