#!/usr/bin/env python3
"""Fails on an include that reaches up the layers of cmake/layers.txt, on one that is not written from the source root,
and on a source file that grew too long. `--self-test` plants each violation and expects it to be found."""

import argparse
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".hpp", ".cpp", ".h", ".inl", ".cu", ".cuh"}
LINES_MAX = 550  # aim at 500
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(tandem/[^>]+)>)')


def read_layers(root: Path) -> dict[str, set[str]]:
    """Each layer and the layers that it may include."""
    layers: dict[str, set[str]] = {}
    for line in (root / "cmake/layers.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, narrowed, below = line.partition(":")
        layers[name] = {name} | (set(below.split()) if narrowed else set(layers))
    return layers


# Code reads a column of the preset's row instead.
ASKS_PRESET = re.compile(r"[!=]=\s*(?:\w+\()?Preset::|\bcase Preset::")


def layer_of(shown: Path) -> str | None:
    """The layer of a file, by its path from the root; programs, tests and examples are of none."""
    if shown.parts[0] == "src":
        return shown.parts[1]
    if shown.parts[0] == "bench" and shown.parts[1] != "micro":
        return "/".join(shown.parts[:2])
    return None


def check_file(root: Path, path: Path, layers: dict[str, set[str]]) -> list[str]:
    shown = path.relative_to(root)
    lines = path.read_text(errors="replace").splitlines()
    problems = []
    if len(lines) > LINES_MAX:
        problems.append(f"{shown}: {len(lines)} lines, the most is {LINES_MAX}")
    in_layer = layer_of(shown)
    if in_layer is not None and in_layer not in layers:
        problems.append(f"{shown}: {in_layer} is not in cmake/layers.txt")
        return problems
    for number, line in enumerate(lines, 1):
        if in_layer != "preset" and "_test." not in path.name and ASKS_PRESET.search(line):
            problems.append(f"{shown}:{number}: a condition on a preset: read a column of its row (src/preset)")
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match[1] or match[2]
        where = f"{shown}:{number}"
        folder = target.split("/")[0]
        if folder == "bench":
            folder = "/".join(target.split("/")[:2])
        places = [root / "src", root / "include"] + ([] if in_layer else [root, path.parent])
        if folder in layers and folder.startswith("bench/"):
            places.append(root)
        if not any((place / target).is_file() for place in places):
            problems.append(
                f'{where}: "{target}" is not a file under src/, include/ or bench/: write includes from there'
            )
        elif in_layer and folder in layers and folder not in layers[in_layer]:
            problems.append(f'{where}: {in_layer} includes "{target}", which is not below it')
        elif shown.parts[0] == "include" and folder != "tandem":
            problems.append(f'{where}: a public header includes "{target}", which is not installed')
    return problems


def check(root: Path) -> list[str]:
    layers = read_layers(root)
    problems = []
    for top in ("src", "include", "tests", "bench", "examples", "rtl"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                problems += check_file(root, path, layers)
    return problems


def self_test() -> list[str]:
    good = {
        "src/base/a.hpp": "#pragma once\n",
        "src/heap/b.hpp": '#include "base/a.hpp"\n#include <vector>\n',
        "bench/load/d.hpp": '#include "base/a.hpp"\n',
        "bench/engine/e.hpp": '#include "bench/load/d.hpp"\n',
        "src/lane/i.hpp": "#pragma once\n",
        "bench/micro/f.cpp": '#include "bench/engine/e.hpp"\n',
        "src/cli/g.cpp": '#include "bench/engine/e.hpp"\n',
        "rtl/h.hpp": '#include "base/a.hpp"\n',
        "rtl/h.cpp": '#include "rtl/h.hpp"\n#include <Vgenerated.h>\n',
    }
    bad = {
        "upward": {"src/base/c.hpp": '#include "heap/b.hpp"\n'},
        "narrowed layer": {"src/observe/c.hpp": '  #  include "heap/b.hpp"\n'},
        "relative include": {"src/heap/c.cpp": '#include "b.hpp"\n'},
        "unknown layer": {"src/misc/c.cpp": "int x;\n"},
        "too long": {"src/heap/c.cpp": "\n" * (LINES_MAX + 1)},
        "from the server up": {"src/net/c.cpp": '#include "bench/load/d.hpp"\n'},
        "the benchmark past the work": {"bench/engine/c.cpp": '#include "lane/i.hpp"\n'},
        "between parts of bench": {"bench/load/c.cpp": '#include "bench/engine/e.hpp"\n'},
        "a condition on a preset": {"src/net/c.cpp": "if (preset == Preset::cpu) return;\n"},
        "the product on hardware in simulation": {"src/net/c.cpp": '#include "rtl/h.hpp"\n'},
        "private include": {"include/tandem/c.hpp": '#include "base/a.hpp"\n'},
    }
    failures = []
    for name, planted in {"clean tree": {}, **bad}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            layers = (ROOT / "cmake/layers.txt").read_text()
            for file, text in {"cmake/layers.txt": layers, **good, **planted}.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text)
            found = check(root)
            if len(found) != len(planted):
                failures.append(f"self-test '{name}': found {found}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    problems = self_test() if parser.parse_args().self_test else check(ROOT)
    print(*problems, sep="\n", end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
