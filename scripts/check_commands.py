#!/usr/bin/env python3
"""Fails if a command of clients is named in more than six files of the server. Commands are the rows of TD_COMMANDS in
src/query/opcode.hpp; a file names one by its name on the wire in a string, or by its own enumerator of Command, of the
kinds of reply, or of the binary protocol's opcodes. Comments, tests, benchmarks and fuzz targets do not count, nor does
what is a client itself (src/cli, src/options, src/process) or names another program's metrics. `--list` prints the
files of every command. `--self-test` plants a seventh file and expects it to be found."""

import argparse
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = "src/query/opcode.hpp"
FILES_MAX = 6
ROW = re.compile(r'^  X\((\w+), "([a-z_]+)", Form::(?!none)(\w+)', re.MULTILINE)
ROWS_MIN = 30
APART = re.compile(
    r"_(?:test|bench|fuzz)(?:_|\.)|_(?:fixture|harness|contract|witness)\.|^src/(?:cli|options|process|cluster)/|/exporter_metrics\."
)
# A word behind a command's name, as in `config get`, is no command.
SUBCOMMAND = re.compile(r'words_?\[[1-9]\] [!=]= "\w+"')
# What else the enumerators are called.
ALSO = {"incr": ["increment"], "decr": ["decrement"], "flush_all": ["flush"], "stats": ["stat"]}
# Those that are in more files, which must not become more still. Plain requests of get, gets, mg and ms are recognised
# by their bytes, many at a time, and their hits are written so, in the lane and on a device; delete and touch have
# counters and an event of their own beside replies in two protocols; "version" is the program's version, too.
KNOWN = {"get": 14, "gets": 11, "set": 7, "mg": 12, "ms": 9, "delete": 8, "touch": 7, "version": 8}


def named_in(root: Path) -> dict[str, list[str]]:
    """Of each command the files that name it."""
    code = {}
    for path in sorted((root / "src").glob("**/*.?pp")):
        file = str(path.relative_to(root))
        if not APART.search(file):
            code[file] = SUBCOMMAND.sub("", re.sub(r"//.*", "", path.read_text()))
    found = {}
    for command, name, form in ROW.findall(code[TABLE]):
        spellings = "|".join([command, *ALSO.get(command, [])])
        patterns = [rf'"{name}(?:"| |\\)', rf"\b(?:Command|Reply|opcode|o)::(?:binary_)?(?:{spellings})k?q?\b"]
        if form.startswith("meta_"):
            patterns.append(rf"\b{form}\b")
        names = re.compile("|".join(patterns))
        found[name] = [file for file, text in code.items() if names.search(text)]
    return found


def problems(root: Path) -> list[str]:
    named = named_in(root)
    found = []
    if len(named) < ROWS_MIN:
        found.append(f"{TABLE}: {len(named)} commands were read: is the table read whole?")
    for name, files in named.items():
        if len(files) > KNOWN.get(name, FILES_MAX):
            found.append(f"{name} is named in {len(files)} files: {', '.join(files)}")
    return found


def self_test() -> list[str]:
    failures = [f"self-test: {problem}" for problem in problems(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / TABLE).parent.mkdir(parents=True)
        (root / TABLE).write_text((ROOT / TABLE).read_text())
        ways = [
            'return "decr";',
            "case Command::decr:",
            "Reply::decr",
            "opcode::decrement",
            "o::decrementq",
            '"decr k"',
        ]
        for i, way in enumerate(ways):
            (root / f"src/query/file{i}.cpp").write_text(f"{way}\n")
            (root / f"src/query/file{i}_test.cpp").write_text(f"{way}\n")
            told = problems(root)
            if bool(told) != (i + 2 > FILES_MAX) or any(not line.startswith("decr is named") for line in told):
                failures.append(f"self-test: with {i + 2} files: {told}")
        (root / "src/query/file0.cpp").write_text('// "decr"\n')
        if problems(root):
            failures.append("self-test: a comment counts")
        (root / TABLE).write_text("")
        if not problems(root):
            failures.append("self-test: an empty table is not noticed")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        for name, files in named_in(ROOT).items():
            print(f"{name:14} {len(files):2}  {' '.join(files)}")
        return 0
    found = self_test() if options.self_test else problems(ROOT)
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
