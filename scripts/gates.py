#!/usr/bin/env python3
"""Runs the checks of `make test` one after another, clang-tidy and a soak beside them: a line with its time for each,
its full output in build/log, the end of that output where it failed, and the number of tests at the end."""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "build/log"
JOBS = os.cpu_count() or 2
FUZZ_SECONDS = 8
# For what has time: it gets only what others leave of the processors.
IDLE = "renice -n 19 -p $$ >/dev/null || true; chrt --idle --pid 0 $$ || true\n"


@dataclass
class Step:
    name: str
    script: str
    fast: bool = False
    beside: bool = False  # goes on beside those that follow: tests wait, and links use one processor
    needs: str = ""  # the step that must have passed
    results: str = ""  # what JUnit files it leaves; without any, it counts as one test ...
    count: Callable[[str], tuple[int, int]] | None = None  # ... unless this finds in its output what passed and failed


def count_xml(pattern: str) -> tuple[int, int, dict[str, list[str]]]:
    """What passed, what failed, and what was left out, by its reason, in the JUnit files that match."""
    tests = failed = 0
    left_out: dict[str, list[str]] = {}
    for path in ROOT.glob(pattern):
        root = ElementTree.parse(path).getroot()
        for suite in root.iter("testsuite"):
            tests += int(suite.get("tests", 0)) - int(suite.get("skipped", 0)) - int(suite.get("disabled", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        for case in root.iter("testcase"):
            if (mark := case.find("skipped")) is not None:
                why = (mark.get("message") or "").strip().splitlines() or ["no reason given"]
                left_out.setdefault(why[-1], []).append(f"{case.get('classname')}.{case.get('name')}")
    return tests - failed, failed, left_out


def count_fuzz(output: str) -> tuple[int, int]:
    return len(re.findall(r"^passed ", output, re.MULTILINE)), len(re.findall(r"^failed ", output, re.MULTILINE))


def exists(*patterns: str) -> bool:
    return any(next(ROOT.glob(pattern), None) for pattern in patterns)


def sanitizer(kind: str, options: str, after: str) -> str:
    """Build and run the C++ tests with a sanitizer; and `after` that."""
    # ThreadSanitizer's shadow memory does not fit a kernel that randomises addresses by more bits than it knows.
    fixed = f"setarch {platform.machine()} -R"
    return f"""
        scripts/sanitizer_build {kind} tandem_tests {"tandem" if kind == "address" else "schedules canary_schedules"}
        rm -f build/{kind}/test/*.xml
        fixed=; ! {fixed} true 2>/dev/null || fixed='{fixed}'
        export {options} ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-$(scripts/find_clang))
        export TSAN_OPTIONS="${{TSAN_OPTIONS:-}} external_symbolizer_path=$ASAN_SYMBOLIZER_PATH"
        $fixed ctest --test-dir build/{kind} -j {JOBS + 1} --output-on-failure --no-tests=error
        {after}"""


def python_parts() -> dict[str, str]:
    """What pytest is called with, three at a time as servers and clients mostly wait; the longest begin first. `device`
    is conformance again with every batch through a (simulated) device that has copies of the items, under seccomp."""
    report = ["tests/bench/test_report.py", "tests/bench/test_report_real.py"]
    elsewhere = ["tests/bench", "tests/model", "tests/package", "tests/integration", "tests/conformance"]
    elsewhere += ["tests/debug", "tests/schedules", "tests/linearizability"]
    return {
        "histories": "tests/linearizability",
        "bench": " ".join(["tests/bench", *(f"--ignore={file}" for file in report)]),
        "apart": "tests/model tests/package",
        "report": " ".join(report),
        "integration": "tests/integration",
        "device": "tests/conformance",
        "others": " ".join(["tests", *(f"--ignore={folder}" for folder in elsewhere)]),
        "conformance": "tests/conformance",
    }


def all_steps(lint: str) -> list[Step]:
    """lint: what clang-tidy is to look at (scripts/tidy.py)."""
    python = "build/venv/bin/python"
    clang = "-DCMAKE_CXX_COMPILER=clang++-$version"
    steps = [
        Step("layers", f"{python} scripts/check_layers.py --self-test; {python} scripts/check_layers.py", fast=True),
        Step("text", f"{python} scripts/check_text.py --self-test; {python} scripts/check_text.py", fast=True),
        Step("format", "scripts/format --check", fast=True),
        Step(
            "scripts",
            f"""grep -lrE '^#!/(usr/bin/env bash|bin/sh)' .ci scripts deploy | xargs shellcheck -x
            build/venv/bin/hadolint Dockerfile
            {python} -m ruff check --quiet .
            {python} scripts/check_fuzzed.py --self-test; {python} scripts/check_fuzzed.py
            {python} scripts/check_commands.py --self-test; {python} scripts/check_commands.py
            {python} scripts/check_functions.py --self-test; {python} scripts/check_functions.py""",
            fast=True,
        ),
        Step(
            "tidy",
            f"""{IDLE}version=$(scripts/find_clang)
            cmake -S . -B build/lint -G Ninja {clang} -DTANDEM_TESTS=ON -DTANDEM_FUZZ=ON -DTANDEM_UNITY=ON
            cmake --build build/lint --target page_texts report_texts tandem_commit
            {python} scripts/tidy.py clang-tidy-$version build/lint {lint}""",
            beside=True,
        ),
        Step(
            "build",
            f"cmake -S . -B build -G Ninja -DTANDEM_TESTS=ON -DTANDEM_UNITY=ON; cmake --build build -j {JOBS}",
            fast=True,
        ),
    ]
    if exists("src/*/*_test.cpp", "bench/*/*_test.cpp", "tests/**/*_test.cpp"):
        ctest = f"rm -f build/test/*.xml; ctest --test-dir build -j {2 * JOBS} --output-on-failure --no-tests=error"
        steps.append(Step("unit", ctest, fast=True, needs="build", results="build/test/*.xml"))
    if exists("tests/**/*_test.py", "tests/**/test_*.py"):
        # Its short forms ask for all they can; this one for long, and little (tests/soak).
        soak = f"""export TANDEM_SOAK_SECONDS=300 TANDEM_SOAK_GENTLE=1 TANDEM_SOAK_PLANS=cpu
            {python} -m pytest -q -s --junitxml=build/log/soak.xml tests/soak/test_soak.py"""
        steps.append(Step("soak", soak, beside=True, needs="build", results="build/log/soak.xml"))
        parts = " ".join(f"'{name} {what}'" for name, what in python_parts().items())
        together = f"""rm -f build/log/pytest-*.xml build/log/python-*.log
            part() {{
                name=$1
                shift
                [[ $name != device ]] || export TANDEM_OPTIONS='-o gpu=sim,preset=2,gpu_values=64MiB,drop_privileges'
                {python} -m pytest -q --junitxml=build/log/pytest-$name.xml "$@" >build/log/python-$name.log 2>&1
            }}
            export -f part
            ok=0
            printf '%s\\n' {parts} | xargs -P 3 -I{{}} bash -c 'part {{}}' || ok=$?
            cat build/log/python-*.log
            exit $ok"""
        steps.append(Step("python", together, fast=True, needs="build", results="build/log/pytest-*.xml"))
        # Bugs planted in the recorder of tests/linearizability, each of which it must find.
        canaries = f"""cmake --build build -j {JOBS} --target tandem_canaries
            export TANDEM_CANARIES=1
            {python} -m pytest -q -s --junitxml=build/log/canaries.xml tests/linearizability/canaries"""
        steps.append(Step("canaries", canaries, needs="build", results="build/log/canaries.xml"))
    if exists("src/**/*.cu"):
        # Linked, too, and run as on a machine that has no GPU.
        cuda = f"""cmake -S . -B build/cuda-objects -G Ninja -DTANDEM_CUDA=ON -DTANDEM_TESTS=ON -DTANDEM_UNITY=ON
            cmake --build build/cuda-objects -j {JOBS} --target tandem_cuda_programs
            for layer in device index placement; do
                build/cuda-objects/test/${{layer}}_test --gtest_brief=1 || exit 1
            done"""
        steps.append(Step("cuda", cuda))
    if exists("src/*/*_test.cpp", "bench/*/*_test.cpp", "tests/**/*_test.cpp"):
        strict = "ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1"
        debug = f"""TANDEM_BIN=build/address/bin/tandem TANDEM_TIME_FACTOR=5 {python} -m pytest -q tests/debug \\
            --junitxml=build/address/test/debug.xml"""
        # tests/schedules takes the layers of ThreadSanitizer's build.
        schedules = f"{python} -m pytest -q -s tests/schedules --junitxml=build/thread/test/schedules.xml"
        for kind, options, after in (
            ("address", strict, debug),
            # Without tests that have one thread and much to do, which the other builds run.
            (
                "thread",
                "TSAN_OPTIONS=second_deadlock_stack=1 GTEST_FILTER='-RestartTest.*:*HeapModel*:*CuckooDiff*:"
                "SmallStoreTest.*:NoEvictionTest.*:CrawlerTest.WhatItGivesBack*:Heap.Huge*'",
                schedules,
            ),
        ):
            steps.append(Step(kind, sanitizer(kind, options, after), results=f"build/{kind}/test/*.xml"))
    if exists("src/*/*_fuzz.cpp", "bench/*/*_fuzz.cpp"):
        steps.append(Step("fuzz", f"scripts/fuzz {FUZZ_SECONDS}", count=count_fuzz))
    return steps


def run(step: Step) -> tuple[int, int]:
    """Runs a step and prints its line. Returns how many tests passed and failed."""
    log = LOG / f"{step.name}.log"
    began = time.monotonic()
    with log.open("w") as out:
        command = ["bash", "-euo", "pipefail", "-c", step.script]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        _, ended, usage = os.wait4(process.pid, 0)
        status = process.returncode = os.waitstatus_to_exitcode(ended)
    text = log.read_text(errors="replace")
    passed, failed = (1, 0)
    left_out: dict[str, list[str]] = {}
    counts = bool(step.count or step.results)
    if step.count:
        passed, failed = step.count(text)
    elif step.results:
        passed, failed, left_out = count_xml(step.results)
    if status and not failed:
        passed, failed = (passed if counts else 0), 1
    tests = f", {passed + failed} tests" if counts else ""
    used = usage.ru_utime + usage.ru_stime
    took = f"{time.monotonic() - began:7.1f} s (processor {used:.0f} s)"
    line = f"{'FAIL' if status else 'ok':4} {step.name:8} {took}{tests}\n"
    for why, names in left_out.items():
        line += f"     left out, {why}: {', '.join(names[:3])}{f' and {len(names) - 3} more' if names[3:] else ''}\n"
    if status:
        line += f"{excerpt(text)}\n---- all of it: {log.relative_to(ROOT)}\n"
    print(line, end="", flush=True)
    return passed, failed


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
    parser.add_argument("--fast", action="store_true", help="leave out tidy, sanitizers, CUDA and fuzzing")
    parser.add_argument("--only", nargs="+", metavar="STEP", help="run these steps")
    options = parser.parse_args()
    LOG.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    bad = set()
    beside: list[Future[tuple[int, int]]] = []
    with ThreadPoolExecutor() as pool:
        # Tests and benchmarks take clang-tidy minutes: they are linted when asked for (`make lint`).
        for step in all_steps(lint="" if options.only else "--product"):
            if (options.fast and not step.fast) or (options.only and step.name not in options.only):
                continue
            if step.needs in bad:
                print(f"skip {step.name:8} {step.needs} failed")
                bad.add(step.name)
                continue
            if step.beside:
                beside.append(pool.submit(run, step))
                continue
            good, wrong = run(step)
            passed, failed = passed + good, failed + wrong
            if wrong:
                bad.add(step.name)
        for future in beside:
            good, wrong = future.result()
            passed, failed = passed + good, failed + wrong
    print(f"{passed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
