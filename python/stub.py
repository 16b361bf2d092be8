"""Writes tandem/_core.pyi from the module that `import tandem` finds: nanobind's generator, docstrings wrapped, in the
project's format. --check: compares instead."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import tandem._core
from nanobind.stubgen import StubGen, load_pattern_file  # type: ignore[import-untyped]

HERE = Path(__file__).resolve().parent
WIDTH = 120


def wrapped(text: str) -> str:
    """Its docstrings in lines of at most WIDTH characters."""

    def wrap(match: re.Match[str]) -> str:
        indent, body = match[1], textwrap.dedent(match[2]).strip()
        parts = [textwrap.fill(part, WIDTH - len(indent)) for part in body.split("\n\n")]
        if len(parts) == 1 and len(indent) + len(body) + 6 <= WIDTH:
            return f'{indent}"""{body}"""'
        return textwrap.indent('"""\n' + "\n\n".join(parts) + '\n"""', indent)

    return re.sub(r'^( *)"""(.*?)"""$', wrap, text, flags=re.MULTILINE | re.DOTALL)


def main() -> int:
    generator = StubGen(tandem._core, patterns=load_pattern_file(str(HERE / "stubs.pat")), quiet=True)
    generator.put(tandem._core)
    ruff = [sys.executable, "-m", "ruff", "format", "--config", str(HERE.parent / "ruff.toml")]
    ruff += ["--stdin-filename", "_core.pyi", "-"]
    text = subprocess.run(ruff, input=wrapped(generator.get()), capture_output=True, text=True, check=True).stdout
    stub = HERE / "tandem/_core.pyi"
    if "--check" not in sys.argv:
        stub.write_text(text)
        return 0
    if stub.read_text() == text:
        return 0
    print(f"{stub} is not what the module has: run python/stub.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
