#!/usr/bin/env python3
"""Fails on a function of the data path that is longer than 60 lines, signature included, or has more than 7 parameters.
The sources are in one format (scripts/format), so a function ends where a brace closes at the indentation of its
first line. Those that were longer when this began are in KNOWN with their length: they may become shorter, not
longer, and leave the list when they fit. Tests, benchmarks and fuzz targets are left out. `--list` prints the
longest. `--self-test` plants each violation."""

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [
    *("base", "heap", "index", "query", "plan", "device", "placement", "lane", "task", "pipeline", "planner", "preset"),
    *("store", "codec", "net"),
]
LINES_MAX, PARAMETERS_MAX = 60, 7
APART = re.compile(r"_(?:test|bench|fuzz)(?:_|\.)|_(?:fixture|harness|contract|client|witness|files)\.")
KNOWN = {  # lines, parameters
    "src/store/c_store.cpp tandem_compare_and_set": (60, 8),
    "src/store/c_store.cpp tandem_exchange": (60, 8),
}
NO_FUNCTION = re.compile(
    r"^\s*(?:namespace|class|struct|enum|union|extern|if|for|while|switch|do|else|try|catch|return|#)\b"
)
NAME = re.compile(r"([~\w:<>,\s*&]*?operator\s*\S{1,3}|[\w:~]+)\s*\(")


@dataclass
class Function:
    file: str
    line: int
    name: str
    lines: int
    parameters: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}: {self.lines} lines, {self.parameters} parameters"


def without_comments(text: str) -> list[str]:
    """The lines, with literals and comments blanked."""
    blank = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?:.|\n)*?\*/')
    return blank.sub(lambda m: '""' + "\n" * m[0].count("\n"), re.sub(r"(?<=\d)'(?=\d)", "", text)).splitlines()


def parameters_of(signature: str) -> int:
    """Of the first pair of parentheses, counted by its outer commas."""
    depth, count, any_text = 0, 0, False
    for char in signature[signature.index("(") :]:
        if char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
            if depth == 0:
                break
        elif depth == 1 and char == ",":
            count += 1
        elif not char.isspace():
            any_text = True
    return count + 1 if any_text else 0


def functions_of(file: str, text: str) -> list[Function]:
    lines = without_comments(text)
    found = []
    start = None  # of what may be a signature
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith(
            ("#", "public:", "private:", "protected:", "template", "requires")
        ):
            start = None
            continue
        if start is None:
            start = number
        if not line.rstrip().endswith(("{", ";", "}", ",", "(", ")")) or line.rstrip().endswith((";", "}")):
            if line.rstrip().endswith((";", "}")):
                start = None
            continue
        if not line.rstrip().endswith("{"):
            continue
        signature = " ".join(part.strip() for part in lines[start : number + 1])
        indent = re.match(r" *", lines[start])[0]
        first, start = start, None
        name = NAME.search(signature)
        if NO_FUNCTION.match(signature) or name is None or len(indent) > 4 or "=" in signature[: name.start()]:
            continue
        close = re.compile(rf"^{indent}}}")
        end = next((i for i in range(number + 1, len(lines)) if close.match(lines[i])), None)
        if end is not None:
            found.append(
                Function(file, first + 1, name[1].strip(), end - first + 1, parameters_of(signature[name.end() - 1 :]))
            )
    return found


def functions(root: Path) -> list[Function]:
    paths = [
        p for folder in FOLDERS for p in (root / "src" / folder).glob("**/*") if p.suffix in {".hpp", ".cpp", ".cu"}
    ]
    return [
        function
        for path in sorted(paths)
        if not APART.search(path.name)
        for function in functions_of(str(path.relative_to(root)), path.read_text())
    ]


def problems(root: Path, known: dict[str, tuple[int, int]]) -> list[str]:
    found = []
    left = dict(known)
    for function in functions(root):
        lines, parameters = left.get(f"{function.file} {function.name}", (LINES_MAX, PARAMETERS_MAX))
        if function.lines > lines or function.parameters > parameters:
            found.append(f"{function}; at most {lines} and {parameters}")
        if function.lines > LINES_MAX or function.parameters > PARAMETERS_MAX:
            left.pop(f"{function.file} {function.name}", None)
    return found + [f"KNOWN: {name} fits, or is gone: take it out" for name in left]


def self_test() -> list[str]:
    body = "  x();\n" * (LINES_MAX - 2)
    eight = ", ".join(f"int p{i} = f(1, 2)" for i in range(8))
    planted = {
        "as long as may be": (f"void f(int a) {{\n{body}}}\n", 0),
        "one line more": (f"void f(int a) {{\n{body}  x();\n}}\n", 1),
        "a long method": (
            f"class A {{\n public:\n  int f() const noexcept {{\n{body.replace('  x', '    x')}    x();\n  }}\n}};\n",
            1,
        ),
        "a long constructor": (f"A::A(int a)\n    : a_(a),\n      b_{{a}} {{\n{body}}}\n", 1),
        "a long signature": (f"void f(int a,\n       int b) {{\n{body}}}\n", 1),
        "a long template": (f"template <class T>\nT f(T a) {{\n  if (a) {{\n{body}  }}\n}}\n", 1),
        "eight parameters": (f"void f({eight}) {{\n  x();\n}}\n", 1),
        "seven, one a template": ("void f(int a, int b, int c, int d, int e, int g, M<int, int> h) {\n  x();\n}\n", 0),
        "a long class": (f"class A {{\n{body}{body}}};\n", 0),
        "a long table": (f"constexpr int table[] = {{\n{body}{body}}};\n", 0),
    }
    failures = []
    for name, (text, count) in planted.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src/net").mkdir(parents=True)
            (root / "src/net/a.cpp").write_text(f"namespace tandem {{\n\n{text}\n}}  // namespace tandem\n")
            (root / "src/net/a_test.cpp").write_text(f"{text}{text}")
            told = problems(root, {})
            if len(told) != count:
                failures.append(f"self-test '{name}': {told}")
            if name == "one line more" and problems(root, {"src/net/a.cpp f": (LINES_MAX + 1, 1)}):
                failures.append("self-test: a known one is told")
            if name == "one line more" and not problems(root, {"src/net/a.cpp f": (LINES_MAX, 1)}):
                failures.append("self-test: a known one that grew is not told")
    if problems(ROOT, {"src/net/no.cpp f": (99, 9)})[-1:] != ["KNOWN: src/net/no.cpp f fits, or is gone: take it out"]:
        failures.append("self-test: a known one that is gone is not told")
    if len(functions(ROOT)) < 1500:
        failures.append(f"self-test: {len(functions(ROOT))} functions were found: is the format another?")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print(*sorted(functions(ROOT), key=lambda f: (-f.lines, -f.parameters))[:40], sep="\n")
        return 0
    found = self_test() if options.self_test else problems(ROOT, KNOWN)
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
