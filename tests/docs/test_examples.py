"""Every example of README and docs runs, or says why it cannot."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import free_port

from docs.examples import (
    ROOT,
    RUN,
    Example,
    ExampleError,
    Session,
    commands,
    examples,
    is_foreground_server,
    matches,
)

pytestmark = pytest.mark.timeout(600)

# Records of what was decided and measured; their commands are of that day.
RECORDS = {"decisions", "benchmarks"}
PAGES = sorted(
    path
    for pattern in ("README.md", "SECURITY.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
    if not RECORDS & set(path.relative_to(ROOT).parts)
)


def session(folder: Path) -> Session:
    return Session(folder, Path(tandem_binary()).resolve(), (free_port(), free_port()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_a_page(page: Path, tmp_path: Path) -> None:
    with session(tmp_path) as shell:
        for example in examples(page):
            if example.runs:
                shell.run(example)


def test_each_example_that_cannot_run_says_why() -> None:
    found = [example for page in PAGES for example in examples(page)]
    assert [f"{e.page}:{e.line}" for e in found if e.why_not is not None and len(e.why_not) < 8] == []
    # A fence of another language would be left out without a word.
    known = RUN | {"", "text", "ini"}
    assert [f"{e.page}:{e.line}: {e.language}" for e in found if e.language not in known] == []
    assert sum(e.runs for e in found) >= 30


def test_what_pages_call_exists() -> None:
    """Also in blocks that do not run, in records, and within a line."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True).split()
    assert pages
    for page in pages:
        assert what_is_missing((ROOT / page).read_text(), targets) == [], page


def what_is_missing(text: str, targets: set[str]) -> list[str]:
    """Make targets and files of this tree that a page calls at the start of a line or of code."""
    start = r"(?:^(?:\$ )?(?:[A-Z_]+=\S* )*(?:sudo )?|`)"
    calls = re.findall(rf"{start}make((?: [a-z]+(?:-[a-z]+)*(?![\w=*-]))+)", text, re.MULTILINE)
    files = re.findall(rf"{start}((?:scripts|tests|deploy|rtl|python)/[\w./-]+\w)", text, re.MULTILINE)
    called = {target for call in calls for target in call.split()}
    return sorted(called - targets) + [file for file in files if not (ROOT / file).exists()]


def test_the_packages_to_build_with_are_those_that_make_build_installs() -> None:
    setup = (ROOT / "scripts/setup").read_text()
    libraries = re.search(r"^libraries=\((.*?)\)", setup, re.MULTILINE | re.DOTALL)
    wanted = re.search(r"^packages=\((.*?) \"\$\{libraries", setup, re.MULTILINE)
    printed = re.search(r"^sudo apt-get install (g\+\+.*?[^\\])\n", (ROOT / "docs/install.md").read_text(), re.M | re.S)
    assert wanted is not None and libraries is not None and printed is not None
    assert printed[1].replace("\\", "").split() == wanted[1].split() + libraries[1].split()


def test_a_server_in_the_foreground_ends_its_block() -> None:
    """What comes behind it would not run when the block is pasted."""
    shells = [e for page in PAGES for e in examples(page) if e.runs and e.language in {"sh", "console"}]
    wrong = [f"{e.page}:{e.line}" for e in shells for command, _ in commands(e)[:-1] if is_foreground_server(command)]
    assert wrong == []


# --- the examples' own test -------------------------------------------------------------------------------------------


def example(language: str, text: str) -> Example:
    return Example("page.md", 1, language, text, None)


def test_blocks_are_found(tmp_path: Path) -> None:
    page = tmp_path / "p.md"
    page.write_text("a\n```sh\nmake\n```\n<!-- not run: needs root -->\n```sh\nb\n```\n\n```\nc\n```\n")
    first, second, third = examples(page)
    assert (first.language, first.text, first.runs, first.line) == ("sh", "make\n", True, 2)
    assert (second.why_not, second.runs) == ("needs root", False)
    assert not third.runs


def test_console_blocks_have_commands_and_output() -> None:
    found = commands(example("console", "$ a \\\n  b\n1\n2\n$ c\n"))
    assert found == [("a \\\n  b", "1\n2"), ("c", "")]
    assert matches("x 17 y\r\n", "x ... y")
    assert not matches("x 17 z", "x ... y")
    assert not matches("x", "")


def test_a_call_of_what_is_not_there_is_found() -> None:
    text = "`make a b`, `make c-*`\n\n```sh\n$ X=1 make test no X=2\nscripts/no --x\nscripts/format\n```\n"
    assert what_is_missing(text, {"a", "test"}) == ["b", "no", "scripts/no"]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sh", "false | true\n"),
        ("sh", "build/bin/tandem serve --no-such-option\n"),
        ("sh", "make no-such-goal\n"),
        ("console", "$ echo 1\n2\n"),
        ("console", "1\n"),
        ("python", "assert False\n"),
        ("python", "import no_such_module\n"),
        ("cpp", "int x = ;\n"),
        ("cpp", "return 1;\n"),
        ("toml", "prot = 1\n"),
        ("yaml", "a: [\n"),
        ("json", "{\n"),
    ],
)
def test_an_example_that_is_wrong_is_found(language: str, text: str, tmp_path: Path) -> None:
    with session(tmp_path) as shell, pytest.raises(ExampleError, match=r"page\.md:1: "):
        shell.run(example(language, text))


def test_a_server_serves_until_another_does(tmp_path: Path) -> None:
    with session(tmp_path) as shell:
        ask = "printf 'version\\r\\nquit\\r\\n' | nc 127.0.0.1 11211 | grep VERSION\n"
        shell.run(example("sh", f"build/bin/tandem serve --threads 1 # a comment\n{ask}"))
        shell.run(example("sh", 'make run ARGS="--memory 64MiB"\n'))
        shell.run(example("console", "$ printf 'get a\\r\\nquit\\r\\n' | nc 127.0.0.1 11211\nEND\n"))
