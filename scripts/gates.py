#!/usr/bin/env python3
"""Runs the checks of `make test` one after another, clang-tidy and a soak beside them: a line with its time for each,
its full output in build/log, the end of that output where it failed, and the number of tests at the end. Deep ones
(`make test DEEP=1`, which CI runs) compile the store again: for sanitizers, fuzzing, planted bugs and mutants.

What has passed with the same inputs is not run again: a step or a part of the Python tests by the text of the files
that it is about (build/passed), a unit test by its program (unit_tests.py), a source that clang-tidy found clean by its
text. TANDEM_ALL=1 runs everything, as a fresh clone does."""

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "scripts"), str(ROOT / "tests")]
from harness.shares import share_of_tree  # noqa: E402
from results import count_xml, report_flaky, report_slowest, this_run  # noqa: E402

LOG = ROOT / "build/log"
PASSED = ROOT / "build/passed"
# What programs are made of.
CODE = (
    "CMakeLists.txt",
    "cmake",
    "src",
    "include",
    "bench",
    "examples",
    "tests/*.cpp",
    "tests/*.hpp",
    "tests/schedules",
)
# Servers and clients of the Python tests.
HARNESS = ("tests/harness", "tests/conftest.py", "tests/pytest.ini", "scripts/requirements.txt")
JOBS = os.cpu_count() or 2
FUZZ_SECONDS = 8
MUTANTS = 2
SANITIZED = {"address": "tandem_tests tandem", "thread": "tandem_tests schedules canary_schedules"}
CUDA_BUILD = f"""cmake -S . -B build/cuda-objects -G Ninja -DTANDEM_CUDA=ON -DTANDEM_TESTS=ON -DTANDEM_UNITY=ON
            cmake --build build/cuda-objects -j {JOBS} --target tandem_cuda_programs"""
DEVICE_OPTIONS = "-o gpu=sim,preset=2,gpu_values=64MiB,drop_privileges"
# What no kept linter looks for, in every text but fuzz seeds, which may be any bytes.
TEXT = r"""nothing() { # fails with the lines of its input
            local lines
            lines=$(cat)
            [[ -z $lines ]] || { printf '%s:\n%s\n' "$1" "$lines"; return 1; }
        }
        texts() { git grep --untracked -I "$@" ':!*_seeds/*' || (($? == 1)); }
        texts -nP '(?<![\w.-])/(?:work|root|home/\w+|Users)/' -- . | nothing 'a path of one machine'
        texts -nP 'https?://[\w.-]+\.(?:internal|intranet|corp|lan|local)\b' -- . | nothing 'a private host'
        texts -nP '\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b' -- . | nothing 'a private address'
        texts -nP '[ \t]+$' -- . | nothing 'trailing blanks'
        texts -nP '\t' -- '*.[ch]pp' '*.cu' '*.cuh' '*.py' | nothing 'a tab'
        texts -lz '' -- . | { xargs -0 grep -zlP '[^\n]\z' || true; } | nothing 'no newline at the end'
        git log -20 --format=%s | { grep -E '.{73}' || true; } | nothing 'a subject of more than 72 characters'
        git ls-files -z '*.md' | xargs -0 build/venv/bin/lychee --offline --include-fragments --no-progress
        """
# Structure of pages; the generated page has signatures that no line holds.
PAGES = "git ls-files -z '*.md' ':!docs/python-api.md' | xargs -0 build/venv/bin/pymarkdown scan"
# Words that a page, and all of them, may have, bars of tables left out. What is over belongs on another page, or goes.
WORDS = r"""limit() {
            case $1 in
                docs/protocol.md) echo 4400 ;;
                docs/python-api.md) echo 2900 ;;
                docs/options.md) echo 2600 ;;
                docs/monitoring.md) echo 2000 ;;
                docs/threads.md) echo 1850 ;;
                CHANGELOG.md | docs/architecture.md) echo 1500 ;;
                docs/embedding.md) echo 1400 ;;
                docs/decisions/*) echo 700 ;;
                *) echo 1300 ;;
            esac
        }
        total=0 long=0
        for page in README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md $(git ls-files 'docs/*.md'); do
            words=$(tr '|' ' ' <"$page" | wc -w)
            total=$((total + words))
            ((words <= $(limit "$page"))) || { echo "$page: $words words, at most $(limit "$page")"; long=1; }
        done
        echo "$total words, at most 60000"
        ((long == 0 && total <= 60000))"""
# Functions of more than 60 lines or 7 parameters; scripts/long_functions.txt lists those that there were, with both.
# Lizard does not read *.cu, hence the copies, and takes `alignas` and `requires` for functions.
FUNCTIONS = r"""rm -rf build/functions
        for file in $(git ls-files 'src/*.cu' 'src/*.cuh'); do install -D "$file" "build/functions/$file.hpp"; done
        build/venv/bin/lizard -l cpp -C 10000 -L 60 -a 7 -w --no-gitignore -x '*_test*' -x '*_bench*' -x '*_fuzz*' \
            -x '*_fixture*' -x '*_harness*' -x '*src/frames/*' src bench build/functions >build/log/lizard.txt || true
        sed -nE '/::(alignas|requires) has/d; s|^build/functions/([^:]*)[.]hpp:|\1:|
            s|^([^:]*):.*warning: (.*) has .* ([0-9]+) PARAM, ([0-9]+) length.*|\1 \2 \4 \3|p
            /^[^:]*:[0-9]+: warning/!p' build/log/lizard.txt | LC_ALL=C sort -u | diff scripts/long_functions.txt -"""
# For what has time: it gets only what others leave of the processors.
IDLE = "renice -n 19 -p $$ >/dev/null || true; chrt --idle --pid 0 $$ || true\n"


@dataclass
class Step:
    name: str
    script: str
    fast: bool = False
    deep: bool = False
    beside: bool = False  # goes on beside those that follow: tests wait, and links use one processor
    needs: str = ""  # the step that must have passed
    after: str = ""  # the step beside the others that must have ended, as both build in one folder
    inputs: tuple[str, ...] = ()  # files (git's pathspecs) that decide whether it passes; none: it always runs
    marks: dict[str, str] = field(default_factory=dict)  # of parts, for when it has passed
    same: str = ""  # parts that are not run, as they have passed with the same inputs
    results: str = ""  # what JUnit files it leaves; without any, it counts as one test ...
    count: Callable[[str], tuple[int, int]] | None = None  # ... unless this finds in its output what passed and failed


def key_of(script: str, inputs: Iterable[str]) -> str:
    """Of what a step runs and the files that it is about."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *inputs], cwd=ROOT
    )
    digest = hashlib.sha256(script.encode())
    for name in sorted(filter(None, set(listed.split(b"\0")))):
        path = ROOT / os.fsdecode(name)
        if path.is_file():
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def has_passed(name: str, key: str) -> bool:
    mark = PASSED / name
    return not os.environ.get("TANDEM_ALL") and mark.is_file() and mark.read_text() == key


def mark_passed(name: str, key: str) -> None:
    PASSED.mkdir(parents=True, exist_ok=True)
    (PASSED / name).write_text(key)


def count_lines(output: str) -> tuple[int, int]:
    return len(re.findall(r"^passed ", output, re.MULTILINE)), len(re.findall(r"^failed ", output, re.MULTILINE))


def exists(*patterns: str) -> bool:
    return any(next(ROOT.glob(pattern), None) for pattern in patterns)


def sanitizer(kind: str, options: str, beside: str) -> str:
    """Build and run the C++ tests with a sanitizer; and `beside` them that, which takes a processor's time."""
    # ThreadSanitizer's shadow memory does not fit a kernel that randomises addresses by more bits than it knows.
    fixed = f"setarch {platform.machine()} -R"
    return f"""
        scripts/sanitizer_build {kind} {SANITIZED[kind]}
        fixed=; ! {fixed} true 2>/dev/null || fixed='{fixed}'
        export {options} ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-$(scripts/find_clang))
        export TSAN_OPTIONS="${{TSAN_OPTIONS:-}} external_symbolizer_path=$ASAN_SYMBOLIZER_PATH"
        ok=0
        $fixed build/venv/bin/python scripts/unit_tests.py build/{kind} {JOBS} &
        {beside} || ok=$?
        wait $! || ok=$?
        exit $ok"""


@dataclass
class Part:
    """What pytest is called with; `inputs` as a step's."""

    name: str
    what: str
    inputs: tuple[str, ...] = ()


def python_parts() -> list[Part]:
    """The longest begin first. `device` is conformance again with every batch through a (simulated) device that has
    copies of the items, under seccomp: a third of it, as the tree decides (all of it: `make test-device`)."""
    report = ["tests/bench/test_report.py", "tests/bench/test_report_real.py"]
    elsewhere = ["tests/bench", "tests/model", "tests/package", "tests/integration", "tests/conformance"]
    elsewhere += ["tests/debug", "tests/schedules", "tests/linearizability"]
    bench = ("bench", "tests/bench", "src/options/arguments*", "docs/bench-*", *HARNESS)
    package = (
        "CMakeLists.txt",
        "cmake",
        "include",
        "deploy",
        "Dockerfile",
        "LICENSE",
        "scripts",
        "docs",
        "src/cli",
        "src/options",
        "src/process",
    )
    return [
        Part("histories", "tests/linearizability"),
        Part("integration", "tests/integration"),
        Part("bench", " ".join(["tests/bench", *(f"--ignore={file}" for file in report)]), bench),
        Part("model", "tests/model", ("tests/model", "src", "include", *HARNESS)),
        Part("others", " ".join(["tests", *(f"--ignore={folder}" for folder in elsewhere)])),
        Part("report", " ".join(report), bench),
        Part("package", "tests/package", (*package, "tests/package", *HARNESS)),
        Part("conformance", "tests/conformance"),
        Part("device", "tests/conformance"),
    ]


def python_step(python: str, deep: bool) -> Step:
    """The Python tests, but for parts that have passed with the same inputs. Several at a time, as servers and clients
    mostly wait; fewer beside the builds of deep steps, which also have all of the histories, not a third of them."""
    at_once = 3 if deep else 4
    histories = "" if deep or os.environ.get("TANDEM_ALL") else share_of_tree(3)
    parts = python_parts()
    keys = {part.name: key_of(part.what, part.inputs) for part in parts if part.inputs}
    todo = [part for part in parts if part.name not in keys or not has_passed(f"python-{part.name}", keys[part.name])]
    same = [part.name for part in parts if part not in todo]
    names = " ".join(part.name for part in todo)
    calls = " ".join(f"'{part.name} {part.what}'" for part in todo)
    kept = " ".join(f"! -name pytest-{name}.xml" for name in same)
    script = f"""find build/log -name 'pytest-*.xml' {kept} -delete
        part() {{
            name=$1
            shift
            [[ $name != device ]] || export TANDEM_SHARE={share_of_tree(3)}
            [[ $name != histories ]] || export TANDEM_SHARE={histories}
            [[ $name != device ]] || export TANDEM_OPTIONS='{DEVICE_OPTIONS}'
            {python} scripts/python_tests.py build/log/pytest-$name.xml -q "$@" >build/log/python-$name.log 2>&1
        }}
        export -f part
        ok=0
        printf '%s\\n' {calls} | xargs -P {at_once} -I{{}} bash -c 'part {{}}' || ok=$?
        for name in {names}; do cat build/log/python-$name.log; done
        exit $ok"""
    marks = {f"python-{part.name}": keys[part.name] for part in todo if part.name in keys}
    return Step(
        "python", script, fast=True, needs="build", results="build/log/pytest-*.xml", marks=marks, same=", ".join(same)
    )


def all_steps(lint: str, deep: bool) -> list[Step]:
    """lint: what clang-tidy is to look at (scripts/tidy.py). deep: the deep steps will run."""
    python = "build/venv/bin/python"
    clang = "-DCMAKE_CXX_COMPILER=clang++-$version"
    steps = [
        Step("layers", f"{python} scripts/check_layers.py --self-test; {python} scripts/check_layers.py", fast=True),
        Step(
            "text",
            f"{TEXT}{python} scripts/check_waits.py --self-test; {python} scripts/check_waits.py",
            fast=True,
        ),
        Step("pages", f"{PAGES}\n{WORDS}", fast=True, inputs=("*.md", ".pymarkdown", "scripts/requirements.txt")),
        Step(
            "functions",
            FUNCTIONS,
            fast=True,
            inputs=("src", "bench", "scripts/long_functions.txt", "scripts/requirements.txt"),
        ),
        Step("format", "scripts/format --check", fast=True),
        Step(
            "scripts",
            f"""grep -lrE '^#!/(usr/bin/env bash|bin/sh)' .ci scripts deploy | xargs shellcheck -x
            build/venv/bin/hadolint Dockerfile
            {python} -m ruff check --quiet .
            for top in dispatcher "merge_sorter -GW=4 -GLEVELS=5" "tree -GFANOUT=4 -GROOT_FANOUT=32"; do
                verilator --lint-only -Wall -y rtl --top-module $top "rtl/${{top%% *}}.sv"
            done
            {python} scripts/check_fuzzed.py --self-test; {python} scripts/check_fuzzed.py
            {python} scripts/check_commands.py --self-test; {python} scripts/check_commands.py
            {python} scripts/check_unity.py --self-test; {python} scripts/check_unity.py""",
            fast=True,
        ),
        Step(
            "tidy",
            f"""{IDLE}version=$(scripts/find_clang)
            cmake -S . -B build/lint -G Ninja {clang} -DTANDEM_TESTS=ON -DTANDEM_FUZZ=ON -DTANDEM_UNITY=ON
            cmake --build build/lint --target page_texts report_texts tandem_commit rtl_models
            {python} scripts/tidy.py build/lint {lint}""",
            beside=True,
        ),
        Step(
            "build",
            f"cmake -S . -B build -G Ninja -DTANDEM_TESTS=ON -DTANDEM_UNITY=ON; cmake --build build -j {JOBS}",
            fast=True,
        ),
    ]
    if exists("src/*/*_test.cpp", "bench/*/*_test.cpp", "tests/**/*_test.cpp"):
        unit = f"{python} scripts/unit_tests.py build {2 * JOBS}"
        # What later steps compile for themselves; they do it again where this one has failed.
        builds = (f"scripts/sanitizer_build {kind} {SANITIZED[kind]}\n" for kind in SANITIZED)
        objects = "".join(builds) if deep else ""
        objects = IDLE + objects + (CUDA_BUILD if exists("src/**/*.cu") else "")
        steps.append(Step("objects", objects, beside=True, needs="build", inputs=CODE))
        steps.append(Step("unit", unit, fast=True, needs="build", results="build/test/*.xml"))
    if exists("tests/**/*_test.py", "tests/**/test_*.py"):
        # Its short forms ask for all they can; this one for long, and little (tests/soak).
        soak = f"""export TANDEM_SOAK_SECONDS=300 TANDEM_SOAK_GENTLE=1 TANDEM_SOAK_PLANS=cpu
            {python} -m pytest -q -s --junitxml=build/log/soak.xml tests/soak/test_soak.py"""
        steps.append(Step("soak", soak, beside=True, needs="build", results="build/log/soak.xml"))
        steps.append(python_step(python, deep))
        histories = (*CODE, "tests/linearizability", *HARNESS)
        # Bugs planted in the recorder of tests/linearizability, each of which it must find.
        canaries = f"""cmake --build build -j {JOBS} --target tandem_canaries
            export TANDEM_CANARIES=1
            {python} -m pytest -q -s --junitxml=build/log/canaries.xml tests/linearizability/canaries"""
        found = "build/log/canaries.xml"
        steps.append(Step("canaries", canaries, deep=True, needs="build", inputs=histories, results=found))
        # Some of `make test-mutants`.
        mutants = f"{python} tests/mutants/run.py --sample {MUTANTS}"
        steps.append(Step("mutants", mutants, deep=True, needs="build", count=count_lines))
    if exists("src/**/*.cu"):
        # Linked, too, and run as on a machine that has no GPU.
        cuda = f"""{CUDA_BUILD}
            for layer in device index placement; do
                build/cuda-objects/test/${{layer}}_test --gtest_brief=1 || exit 1
            done"""
        steps.append(Step("cuda", cuda, after="objects", inputs=(*CODE, "scripts/requirements-cuda.txt")))
    if exists("src/*/*_test.cpp", "bench/*/*_test.cpp", "tests/**/*_test.cpp"):
        strict = "ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1"
        with_address = f"TANDEM_BIN=build/address/bin/tandem TANDEM_TIME_FACTOR=5 {python} scripts/python_tests.py"
        # Of conformance a third, as the tree decides: what no unit test sends.
        debug = f"""{with_address} build/address/test/debug.xml -q tests/debug &&
            TANDEM_SHARE={share_of_tree(3)} {with_address} build/address/test/conformance.xml -q tests/conformance"""
        # tests/schedules takes the layers of ThreadSanitizer's build.
        schedules = f"{python} scripts/python_tests.py build/thread/test/schedules.xml -q -s tests/schedules"
        for kind, options, after in (
            ("address", strict, debug),
            # Without tests that have one thread and much to do, which the other builds run.
            (
                "thread",
                "TSAN_OPTIONS=second_deadlock_stack=1 GTEST_FILTER='-RestartTest.*:*HeapModel*:*CuckooDiff*:"
                "*/LaneTest.*:*/LaneDeferTest.*:TreeOfKind/*:*TreeModel.*:OrderLeavesTest.*:OrderRoom.*:"
                "SmallStoreTest.*:NoEvictionTest.*:*NewestItemsTest.*:CrawlerTest.WhatItGivesBack*:Heap.Huge*'",
                schedules,
            ),
        ):
            script = sanitizer(kind, options, after)
            inputs = (
                *CODE,
                "tests/debug",
                "tests/conformance",
                "tests/linearizability",
                "docs/options.md",
                "deploy/tandem.toml",
                *HARNESS,
            )
            results = f"build/{kind}/test/*.xml"
            # Side by side: each ends in programs that have one thread.
            beside_others = kind == "address"
            steps.append(
                Step(kind, script, deep=True, beside=beside_others, after="objects", inputs=inputs, results=results)
            )
    if exists("src/*/*_fuzz.cpp", "bench/*/*_fuzz.cpp"):
        inputs = (*CODE, "scripts/fuzz")
        fuzz = f"scripts/fuzz {FUZZ_SECONDS}"
        steps.append(Step("fuzz", fuzz, deep=True, after="address", inputs=inputs, count=count_lines))
    return steps


def count(step: Step, text: str) -> tuple[int, int, dict[str, list[str]]]:
    """As count_xml(), of a step's results or output."""
    if step.count:
        return (*step.count(text), {})
    return count_xml(ROOT.glob(step.results)) if step.results else (1, 0, {})


def run(step: Step) -> tuple[int, int]:
    """Runs a step, unless it has passed with the same inputs, and prints its line. Returns how many tests passed and
    failed."""
    log = LOG / f"{step.name}.log"
    key = key_of(step.script, step.inputs) if step.inputs else ""
    if key and has_passed(step.name, key) and log.is_file():
        print(f"same {step.name:8} has passed with the same inputs", flush=True)
        return count(step, log.read_text(errors="replace"))[:2]
    began = time.monotonic()
    with log.open("w") as out:
        command = ["bash", "-euo", "pipefail", "-c", step.script]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        _, ended, usage = os.wait4(process.pid, 0)
        status = process.returncode = os.waitstatus_to_exitcode(ended)
    text = log.read_text(errors="replace")
    counts = bool(step.count or step.results)
    passed, failed, left_out = count(step, text)
    if status and not failed:
        passed, failed = (passed if counts else 0), 1
    tests = f", {passed + failed} tests" if counts else ""
    used = usage.ru_utime + usage.ru_stime
    took = f"{time.monotonic() - began:7.1f} s (processor {used:.0f} s)"
    line = f"{'FAIL' if status else 'ok':4} {step.name:8} {took}{tests}\n"
    if step.same:
        line += f"     with the same inputs as when they passed: {step.same}\n"
    for why, names in left_out.items():
        line += f"     left out, {why}: {', '.join(names[:3])}{f' and {len(names) - 3} more' if names[3:] else ''}\n"
    if status:
        line += f"{excerpt(text)}\n---- all of it: {log.relative_to(ROOT)}\n"
    if not status and not failed:
        for name, mark in (step.marks | ({step.name: key} if key else {})).items():
            mark_passed(name, mark)
    print(line, end="", flush=True)
    return passed, failed


def run_after(before: Future[tuple[int, int]] | None, step: Step) -> tuple[int, int]:
    if before:
        before.result()
    return run(step)


def excerpt(text: str) -> str:
    """What a reader needs of a failed step's output: the lines around the first complaints, and its end."""
    lines = text.splitlines()
    complaint = re.compile(r"\berror:|^FAILED|\[  FAILED  \]|^E  |Failure$|ERROR: |WARNING: ThreadSanitizer|\*\*\*")
    shown: list[int] = []
    for i, line in enumerate(lines):
        if complaint.search(line) and len(shown) < 60:
            shown += [k for k in range(i, min(i + 6, len(lines))) if k not in shown]
    shown += [k for k in range(max(0, len(lines) - 15), len(lines)) if k not in shown]
    return "\n".join(lines[k][:400] for k in shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="leave out tidy and CUDA")
    parser.add_argument("--deep", action="store_true", help="also sanitizers, fuzzing, planted bugs, mutants")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="run these steps, whatever has passed")
    parser.add_argument("--product", action="store_true", help="with --only tidy: without tests and benchmarks")
    options = parser.parse_args()
    if options.only:
        os.environ["TANDEM_ALL"] = "1"
    LOG.mkdir(parents=True, exist_ok=True)
    this_run()
    passed = failed = 0
    bad = set()
    beside: dict[str, Future[tuple[int, int]]] = {}
    with ThreadPoolExecutor() as pool:
        # Tests and benchmarks take clang-tidy minutes: they are linted when asked for (`make lint`).
        lint = "" if options.only and not options.product else "--product"
        for step in all_steps(lint, options.deep or bool(options.only)):
            if options.only:
                if step.name not in options.only:
                    continue
            elif (options.fast and not step.fast) or (step.deep and not options.deep):
                continue
            if step.name == "tidy" and not os.environ.get("TANDEM_ALL") and not (ROOT / "build/tidy-clean").is_dir():
                print("none tidy     no source has been looked at yet: `make tidy` does so, later runs look at changes")
                continue
            if step.needs in bad:
                print(f"skip {step.name:8} {step.needs} failed")
                bad.add(step.name)
                continue
            before = beside.get(step.after)
            if step.beside:
                beside[step.name] = pool.submit(run_after, before, step)
                continue
            good, wrong = run_after(before, step)
            passed, failed = passed + good, failed + wrong
            if wrong:
                bad.add(step.name)
        for future in beside.values():
            good, wrong = future.result()
            passed, failed = passed + good, failed + wrong
    if not options.only:
        print("what takes longest:")
        report_slowest(path for pattern in ("build/test/*.xml", "build/log/*.xml") for path in ROOT.glob(pattern))
    report_flaky()
    print(f"{passed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
