"""What `make test` does not run again is what has passed with the same inputs, and nothing else; what it runs again is
what has failed."""

from __future__ import annotations

import importlib.util
import os
import shlex
import stat
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import shares as shares_of_tests

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("gates", ROOT / "scripts/gates.py")
gates = importlib.util.module_from_spec(spec)
sys.modules["gates"] = gates  # dataclasses look their module up
spec.loader.exec_module(gates)
import results  # noqa: E402  beside gates.py


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
        plain = {name: value for name, value in os.environ.items() if name not in ("TANDEM_ALL", "TANDEM_RUN")}
        plain["TANDEM_FLAKY_FILE"] = str(self.folder / "flaky.txt")
        command = [sys.executable, ROOT / "scripts/unit_tests.py", self.folder, "2"]
        done = subprocess.run(command, env=plain | settings, capture_output=True, text=True, check=False)
        self.output = done.stdout
        return done.returncode, sorted(self.ran.read_text().split())

    def write_chancy(self, name: str, passes: str) -> None:
        """A program with a good and a bad test; passes: of the bad one, run by run, '.' or 'F'."""
        write_results(self.folder / "bad.xml", bad=True)
        write_results(self.folder / "good.xml", bad=False)
        (self.folder / "left").write_text(passes)
        path = self.folder / name
        path.write_text(f"""#!/bin/sh
            cd {shlex.quote(str(self.folder))}
            echo "{name} $*" >>ran
            left=$(cat left)
            echo "${{left#?}}" >left
            kind=good
            case $left in F*) kind=bad;; esac
            case "$*" in *gtest_filter*) ;; *) cp $kind.xml test/{name}.xml;; esac
            [ $kind = good ]""")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def flaky(self) -> list[str]:
        path = self.folder / "flaky.txt"
        return [line.split("\t")[1] for line in path.read_text().splitlines()] if path.is_file() else []


def write_results(path: Path, bad: bool) -> None:
    mark = '<failure message="Expected: 1&#10;  got: 2" type=""/>' * 2 if bad else ""
    path.write_text(f"""<testsuites tests="2" failures="{int(bad)}" errors="0">
        <testsuite name="Suite" tests="2" failures="{int(bad)}" disabled="0" skipped="0" errors="0">
        <testcase name="Bad/0" classname="Suite" status="run" time="2.5">{mark}</testcase>
        <testcase name="Good" classname="Suite" status="run" time="0.1"/>
        </testsuite></testsuites>""")


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
    assert code != 0 and ran == ["one_test"] * 2, "and once more, as that may be chance"
    programs.write("one_test")
    assert programs.run() == (0, ["one_test"])


def test_a_program_that_is_not_built_fails(programs: Programs) -> None:
    (programs.folder / "one_test").unlink()
    assert programs.run()[0] != 0


def test_a_test_that_passes_again_twice_is_flaky_and_counts_as_passed(programs: Programs) -> None:
    programs.write_chancy("one_test", "F..")
    code, ran = programs.run(TANDEM_RUN="first")
    assert code == 0, programs.output
    assert ran.count("--gtest_filter=Suite.Bad/0") == 2, "alone"
    assert programs.flaky == ["Suite.Bad/0"]
    assert "flaky Suite.Bad/0: Expected: 1 got: 2" in programs.output
    assert results.count_xml((programs.folder / "test").glob("*.xml"))[:2] == (2, 0)
    # In the same run again, as with another build: that is not a second run.
    programs.write_chancy("one_test", "F..")
    assert programs.run(TANDEM_RUN="first", TANDEM_ALL="1")[0] == 0
    programs.write_chancy("one_test", "F..")
    assert programs.run(TANDEM_RUN="second", TANDEM_ALL="1")[0] == 1
    assert "flaky, and in the run of first, too" in programs.output
    assert results.count_xml((programs.folder / "test").glob("*.xml"))[:2] == (1, 1)


@pytest.mark.parametrize("passes", ["FF.", "F.F", "FFF"])
def test_a_test_that_fails_again_fails(programs: Programs, passes: str) -> None:
    programs.write_chancy("one_test", passes)
    assert programs.run()[0] == 1
    assert not programs.flaky


def test_a_program_that_dies_is_run_again_whole(programs: Programs) -> None:
    programs.write_chancy("one_test", "F..")
    (programs.folder / "bad.xml").write_text("<testsuites")
    code, ran = programs.run()
    assert code == 0, programs.output
    assert ran.count("one_test") == 3 and not any("filter" in word for word in ran)
    assert programs.flaky == ["one_test"]


def test_many_failures_are_not_chance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "FLAKY", tmp_path / "flaky.txt")
    failed = [results.Failure(str(i), "") for i in range(results.AGAIN_MAX + 1)]
    assert results.run_again(failed, lambda failure: True) == failed
    assert results.run_again(failed[1:], lambda failure: True) == []


def test_what_cannot_run_here_is_said(programs: Programs) -> None:
    path = programs.folder / "two_test"
    path.write_text("#!/bin/sh\necho left out: no wings\nexit 77\n")
    with (programs.folder / "CTestTestfile.cmake").open("a") as out:
        out.write("set_tests_properties(two_test PROPERTIES SKIP_RETURN_CODE 77)\n")
    assert programs.run() == (0, ["one_test"])
    for _ in range(2):  # it still counts when it is not run again
        left_out = results.count_xml((programs.folder / "test").glob("*.xml"))[2]
        assert left_out == {"no wings": ["ctest.two_test"]}
        assert programs.run() == (0, [])


def test_a_program_s_environment_is_part_of_the_question(programs: Programs) -> None:
    assert programs.run() == (0, BOTH)
    with (programs.folder / "CTestTestfile.cmake").open("a") as out:
        out.write('set_tests_properties(two_test PROPERTIES ENVIRONMENT "TANDEM_LANES=scalar")\n')
    assert programs.run() == (0, ["two_test"])


@pytest.mark.parametrize(("passes", "code"), [("F..", 0), ("F.F", 1)])
def test_a_python_test_is_run_again(tmp_path: Path, passes: str, code: int) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests/test_chance.py").write_text("""
import pathlib, pytest
class TestIt:
    @pytest.mark.parametrize("name", ["a b", "c::d"])
    def test_luck(self, name):
        path = pathlib.Path(__file__).with_name("left")
        left = path.read_text()
        if name != "c::d":
            return
        path.write_text(left[1:])
        assert left[0] == ".", "bad luck"
def test_good():
    pass
""")
    (tmp_path / "tests/left").write_text(passes)
    settings = {"TANDEM_FLAKY_FILE": str(tmp_path / "flaky.txt"), "TANDEM_RUN": "first"}
    command = [sys.executable, ROOT / "scripts/python_tests.py", "out.xml", "-q", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert results.count_xml([tmp_path / "out.xml"])[:2] == (3 - code, code)
    assert ("flaky test_chance.TestIt.test_luck[c::d]" in done.stdout) == (code == 0), done.stdout


def test_the_slowest_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_results(tmp_path / "one.xml", bad=False)
    results.report_slowest([tmp_path / "one.xml"], 1)
    assert capsys.readouterr().out == "      2.5 s Suite.Bad/0 (one)\n"


def test_a_tree_decides_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "a").write_text("1")
    subprocess.run(["git", "-C", tmp_path, "add", "a"], check=True)
    monkeypatch.setattr(shares_of_tests, "ROOT", tmp_path)
    monkeypatch.delenv("TANDEM_SHARES", raising=False)

    def share() -> str:
        shares_of_tests.turn_of_tree.cache_clear()
        return shares_of_tests.share_of_tree(3)

    first = share()
    (tmp_path / "not-of-the-tree").write_text("1")
    assert share() == first
    (tmp_path / "a").write_text("2")
    assert share() != first
    assert first.endswith("/3")
    shares_of_tests.turn_of_tree.cache_clear()


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


# --- the gates that are lines of shell: each fault is planted ---------------------------------------------------------


def planted(folder: Path, script: str, **files: str) -> str:
    """What a gate's script says of a repository with these files; "" if it passes."""
    (folder / "build/log").mkdir(parents=True)
    (folder / "build/venv").symlink_to(ROOT / "build/venv")
    (folder / ".gitignore").write_text("/build/\n")
    (folder / ".pymarkdown").write_text((ROOT / ".pymarkdown").read_text())
    (folder / "b.txt").write_text("")
    subject = files.pop("subject", "A subject")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", subject]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


GOOD = "# A page\n\n[the page](#a-page), [a text](b.txt)\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.md", GOOD, ""),
        ("a_seeds/a", "a \n", ""),
        ("a.sh", "cd /ro" + "ot/x\n", "a path of one machine"),
        ("a.txt", "http://a.cor" + "p/x\n", "a private host"),
        ("a.txt", "10." + "1.2.3\n", "a private address"),
        ("Makefile", "a: \n", "trailing blanks"),
        ("a.hpp", "//\ta\n", "a tab"),
        ("a.yaml", "a: 1", "no newline at the end"),
        ("subject", "a" * 73, "a subject of more than 72 characters"),
        ("a.md", f"{GOOD}[x](c.txt)\n", "File not found"),
        ("a.md", f"{GOOD}[x](#b)\n", "Cannot find fragment"),
        ("a.md", f"{GOOD}[x](y.md#c)\n", "Cannot find fragment"),
    ],
)
def test_a_fault_of_a_text_is_found(name: str, text: str, message: str, tmp_path: Path) -> None:
    said = planted(tmp_path, gates.TEXT, **{"y.md": GOOD, name: text})
    assert message in said if message else said == ""


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (GOOD, ""),
        (f"{GOOD}\n{'a ' * 70}b\n", "MD013"),
        (f"{GOOD}```sh\na\n```\n", "MD031"),
        (f"{GOOD}\n```\na\n```\n", "MD040"),
        (f"{GOOD}\n\tb\n", "MD010"),
        (f"{GOOD}\n# Another title\n", "MD025"),
    ],
)
def test_a_fault_of_a_page_is_found(text: str, rule: str, tmp_path: Path) -> None:
    said = planted(tmp_path, gates.PAGES, **{"a.md": text})
    assert rule in said if rule else said == ""


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        (["README.md"], "README.md: 1311 words, at most 1300\n"),
        (["docs/decisions/0001-a.md"], "docs/decisions/0001-a.md: 1311 words, at most 700\n"),
        ([f"docs/{i}.md" for i in range(60)], "docs/9.md: 1311 words, at most 1300\n78668 words, at most 60000\n"),
    ],
)
def test_a_page_of_too_many_words_is_found(pages: list[str], said: str, tmp_path: Path) -> None:
    short = dict.fromkeys(("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"), "# A\n")
    assert said in planted(tmp_path, gates.WORDS, **{**short, **dict.fromkeys(pages, "# a | b\n" + 1308 * "a ")})


def test_a_step_waits_for_the_one_that_builds_in_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(gates, "run", lambda step: (ended.append(step.name), (1, 0))[1])
    before: Future[tuple[int, int]] = Future()
    with ThreadPoolExecutor() as pool:
        after = pool.submit(gates.run_after, before, gates.Step("after", ""))
        assert gates.run_after(None, gates.Step("alone", "")) == (1, 0)
        ended.append("before")
        before.set_result((1, 0))
        assert after.result() == (1, 0)
    assert ended == ["alone", "before", "after"]


def test_steps_that_build_in_one_folder_come_one_after_the_other() -> None:
    steps = {step.name: step for step in gates.all_steps("", deep=True)}
    assert (steps["address"].after, steps["address"].beside) == ("objects", True)
    assert (steps["thread"].after, steps["fuzz"].after) == ("objects", "address")


SIXTY = "void f(int a) {\n" + "  x();\n" * 58 + "}\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SIXTY, ""),
        (SIXTY.replace("{", "{\n  x();"), "f 61 1"),
        (SIXTY.replace("void f(int a)", "A::A(int a)\n    : a_(a),\n      b_{a}"), "A::A 62 1"),
        (SIXTY.replace("int a)", "int a,\n       int b)"), "f 61 2"),
        (SIXTY.replace("void f(int a) {", "template <class T>\nT f(T a) {\n  if (a) {").replace("}", "}\n}"), "f 62 1"),
        ("class A {\n public:\n" + SIXTY.replace("{", "const noexcept {\n  x();") + "};\n", "A::f 61 1"),
        (f"void f({', '.join(f'int p{i} = g(1, 2)' for i in range(8))}) {{}}\n", "f 1 8"),
        ("void f(int a, int b, int c, int d, int e, int g, M<int, int> h) {}\n", ""),
        ("constexpr int table[] = {\n" + "  1,\n" * 99 + "};\n", ""),
    ],
)
@pytest.mark.parametrize("name", ["a.cpp", "a.cu"])
def test_a_long_function_is_found(name: str, text: str, found: str, tmp_path: Path) -> None:
    files = {f"src/net/{name}": text, "src/net/a_test.cpp": SIXTY * 2, "scripts/long_functions.txt": ""}
    said = planted(tmp_path, gates.FUNCTIONS, **files)
    assert f"> src/net/{name} {found}\n" in said if found else said == ""


def test_a_long_function_that_is_listed_may_not_change(tmp_path: Path) -> None:
    files = {"src/net/a.cpp": SIXTY.replace("{", "{\n  x();"), "scripts/long_functions.txt": "src/net/a.cpp f 61 1\n"}
    assert planted(tmp_path / "same", gates.FUNCTIONS, **files) == ""
    files["scripts/long_functions.txt"] = "src/net/a.cpp f 62 1\n"
    assert "< src/net/a.cpp f 62 1" in planted(tmp_path / "other", gates.FUNCTIONS, **files)
    files["src/net/a.cpp"] = SIXTY
    assert "< src/net/a.cpp f 62 1" in planted(tmp_path / "gone", gates.FUNCTIONS, **files)
