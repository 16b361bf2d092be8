#!/usr/bin/env python3
"""Fails on tests that depend on how long something takes: an assertion about elapsed time, or a sleep outside a loop
that waits for a condition. Lines that have to be so are in scripts/waits_excused.txt, as `FILE: TEXT OF THE LINE` below
the reason. `--self-test` plants each violation and expects it to be found."""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXCUSED = ROOT / "scripts/waits_excused.txt"
PYTHON = ("tests/**/*.py", "python/tests/**/*.py")
CPP = ("src/**/*_test.cpp", "bench/**/*_test.cpp", "tests/**/*_test.cpp")
ELSEWHERE = ("tests/clients/", "tests/soak/")  # other people's clients; a soak takes its time
CLOCKS = {"monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns"}
SLEEP_CPP = re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\(")
LOOP_CPP = re.compile(r"\b(?:for|while|do)\b")
ELAPSED_CPP = re.compile(r"(?:EXPECT|ASSERT)_(?:LT|LE|GT|GE)\(.*(?:_clock::now\(\) -|\belapsed\b|\btook\b|\bpassed\b)")


def is_call_of(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


def is_elapsed(node: ast.AST) -> bool:
    """`time.monotonic() - began`: a deadline (`time.monotonic() < deadline`) ends what would hang."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and is_call_of(node.left, CLOCKS)


def problems_of_python(text: str) -> Iterator[tuple[int, str]]:
    def visit(node: ast.AST, repeats: bool) -> Iterator[tuple[int, str]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            repeats = False
        if isinstance(node, ast.While):
            repeats = True
        if is_call_of(node, {"sleep"}) and not repeats:
            yield node.lineno, "a sleep that waits for no condition"
        if isinstance(node, ast.Assert) and any(is_elapsed(part) for part in ast.walk(node.test)):
            yield node.lineno, "an assertion about elapsed time"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, repeats)

    yield from visit(ast.parse(text), False)


def problems_of_cpp(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        if ELAPSED_CPP.search(code):
            yield number, "an assertion about elapsed time"
        if SLEEP_CPP.search(code) and not LOOP_CPP.search(code) and not in_loop(lines, number - 1):
            yield number, "a sleep that waits for no condition"


def in_loop(lines: list[str], at: int) -> bool:
    """Whether a block around the line, within its function, is a `while` or `do` loop, or a `for` with a condition of
    time. As clang-format indents them."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[:at]):
        depth = len(line) - len(line.lstrip())
        if not line.strip() or depth >= indent:
            continue
        if re.match(r"\s*(?:\} )?(?:while|do)\b", line) or (re.match(r"\s*for\b", line) and "end" in line):
            return True
        indent = depth
        if line.startswith("TEST") or indent == 0:
            return False
    return False


def check(root: Path, excused: set[str]) -> list[str]:
    found = []
    unused = set(excused)
    for patterns, problems_of in ((PYTHON, problems_of_python), (CPP, problems_of_cpp)):
        for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
            name = str(path.relative_to(root))
            if name.startswith(ELSEWHERE):
                continue
            text = path.read_text()
            lines = text.splitlines()
            for number, what in problems_of(text):
                line = f"{name}: {lines[number - 1].strip()}"
                unused.discard(line)
                if line not in excused:
                    found.append(f"{name}:{number}: {what}: {lines[number - 1].strip()}")
    return found + [f"{EXCUSED.name}: nothing to excuse: {line}" for line in sorted(unused)]


def self_test() -> list[str]:
    waits = "while not done():\n    assert time.monotonic() < deadline\n    time.sleep(0.1)\n"
    wanted = {
        (problems_of_python, waits): [],
        (problems_of_python, "time.sleep(1)\nassert done()\n"): [1],
        (problems_of_python, "while True:\n    def f():\n        time.sleep(1)\n"): [3],
        (problems_of_python, "assert time.monotonic() - began < 5\n"): [1],
        (problems_of_cpp, "TEST(A, B) {\n  while (!done()) {\n    sleep_for(1ms);\n  }\n}\n"): [],
        (problems_of_cpp, "TEST(A, B) {\n  sleep_for(50ms);\n  EXPECT_TRUE(done());\n}\n"): [2],
        (problems_of_cpp, "  EXPECT_LT(steady_clock::now() - begin, 5s);\n"): [1],
    }
    return [
        f"self-test {text!r}: found {found}"
        for (problems_of, text), lines in wanted.items()
        if (found := [number for number, _ in problems_of(text)]) != lines
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        problems = self_test()
    else:
        lines = EXCUSED.read_text().splitlines()
        problems = check(ROOT, {line for line in lines if line and not line.startswith("#")})
    print(*problems, sep="\n", end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
