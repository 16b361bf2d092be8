"""The examples of Markdown pages: fenced blocks, and a shell in which those of a page run one after another.

A page's ```sh and ```console blocks are one session: a folder of its own, in which `build`, `deploy`, ... are those of
the checkout. A command that serves (`tandem serve`, `tandem memcached`, `make run`) runs on in the background until
another one serves, or the page ends; the next command waits until it listens. Ports 11211 and 9150 become free ones.
In ```console a line that begins with `$ ` is a command, continued by a backslash, and what follows is its output, in
which `...` stands for anything. `make` only checks its goals: what they do has tests of its own.

```python blocks run in the same folder while the server serves, those that import tandem by the Python that has the
wheel, and by pytest if they define tests; ```cpp and ```c are compiled, linked to the embedded
store, and run, and are app.cpp and app.c for the commands that follow; ```cmake becomes project/CMakeLists.txt beside
them; ```toml is read by `tandem serve`; ```yaml and ```json are parsed. A page that builds against what `make install`
leaves finds it installed.

Nothing comes behind a server in the foreground in a block: the terminal is the server's.

A block that cannot run has the line `<!-- not run: WHY -->` before it, and WHY is not empty."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"(?:^<!-- not run:(?P<why>[^\n]*?)-->\n+)?^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
RUN = {"sh", "console", "python", "cpp", "c", "cmake", "toml", "yaml", "json"}
# Has the wheel and what its tests need: build/wheel/venv-3.11, or TANDEM_PYTHON. Without it the examples that import
# the package are left to `make test-python`.
WHEEL_PYTHON = Path(os.environ.get("TANDEM_PYTHON", ROOT / "build/wheel/venv-3.11/bin/python"))
USES_WHEEL = re.compile(
    r"^ *(?:import|from) tandem\b|\btandem\.contrib\b|\btandem_(?:client|server|store|url)\b", re.MULTILINE
)
USES_INSTALLED = re.compile(r"pkg-config|find_package")
SERVES = re.compile(r"(?:\btandem (?:serve|memcached)\b(?!.*--help)|^make run\b)")
COMMAND_S = 60
START_S = 30


class ExampleError(AssertionError):
    pass


@dataclass
class Example:
    page: str
    line: int
    language: str
    text: str
    why_not: str | None  # None: it runs

    @property
    def runs(self) -> bool:
        return self.why_not is None and self.language in RUN


def examples(path: Path) -> list[Example]:
    page = path.read_text()
    found = []
    for match in FENCE.finditer(page):
        why = match["why"].strip() if match["why"] is not None else None
        line = page.count("\n", 0, match.start("text"))
        found.append(Example(path.name, line, match["language"], match["text"], why))
    return found


def is_foreground_server(command: str) -> bool:
    told = command.split("#")[0].rstrip()
    return SERVES.search(told) is not None and not re.search(r"[|>]", told) and not told.endswith("&")


def commands(example: Example) -> list[tuple[str, str | None]]:
    """Each command with the output that it must have; None: any."""
    if example.language == "sh":
        return [(command, None) for command in joined(example.text.splitlines())]
    found: list[tuple[str, str | None]] = []
    lines = example.text.splitlines()
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            raise ExampleError(f"{example.page}:{example.line}: output before the first command: {line}")
        command = line.removeprefix("$ ")
        while command.endswith("\\"):
            command = f"{command}\n{lines.pop(0).removeprefix('> ')}"
        output = []
        while lines and not lines[0].startswith("$ "):
            output.append(lines.pop(0))
        found.append((command, "\n".join(output)))
    return found


def joined(lines: list[str]) -> list[str]:
    """Lines as commands: continued ones and here documents are one."""
    found: list[str] = []
    rest = list(lines)
    while rest:
        command = rest.pop(0)
        while command.endswith("\\") and rest:
            command += "\n" + rest.pop(0)
        if here := re.search(r"<<-?\s*'?(\w+)'?", command):
            while rest:
                command += "\n" + rest.pop(0)
                if command.endswith("\n" + here[1]):
                    break
        if command.strip() and not command.lstrip().startswith("#"):
            found.append(command)
    return found


def matches(output: str, wanted: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in wanted.strip().split("..."))
    return re.fullmatch(pattern, output.strip().replace("\r\n", "\n"), re.DOTALL) is not None


MAKE = """#!/usr/bin/env bash
# In place of make: checks that the goals exist; `run` serves.
set -euo pipefail
for word in "$@"; do
  if [[ $word =~ ^[a-z][a-z-]*$ ]]; then grep -q "^$word:" "$REPOSITORY/Makefile"; fi
done
if [[ ${1:-} == run ]]; then
  ARGS=
  for word in "$@"; do [[ $word != ARGS=* ]] || ARGS=${word#ARGS=}; done
  exec build/bin/tandem serve $ARGS
fi
"""


class Session:
    """Where the examples of one page run. Use as a context manager."""

    def __init__(self, folder: Path, binary: Path, ports: tuple[int, int]):
        self.folder, self.binary, self.ports = folder, binary, ports
        self.server: subprocess.Popen[bytes] | None = None
        tools = folder / ".tools"
        tools.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in {".git", "build"}:
                (folder / entry.name).symlink_to(entry)
        build = folder / "build"
        (build / "bin").mkdir(parents=True)
        for program in (binary, binary.with_name("tandem-member")):
            (build / "bin" / program.name).symlink_to(program)
        (build / "venv").symlink_to(ROOT / "build/venv")
        (tools / "tandem").symlink_to(binary)
        # Not a link, by which Python would not find its packages.
        self.tool("python3", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        self.tool("make", MAKE)
        self.environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "REPOSITORY": str(ROOT),
            "HOME": str(folder),
        }

    def tool(self, name: str, text: str) -> None:
        path = self.folder / ".tools" / name
        path.write_text(text)
        path.chmod(0o755)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def install(self) -> None:
        """What `make install` leaves, where compilers and the loader look for it."""
        prefix = self.folder / ".installed"
        if prefix.exists():
            return
        subprocess.run(
            ["cmake", "--install", self.binary.parent.parent, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL
        )
        self.environment |= {
            "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"),
            "CMAKE_PREFIX_PATH": str(prefix),
            "LD_LIBRARY_PATH": str(prefix / "lib"),
        }

    def stop(self) -> None:
        if self.server is None:
            return
        server, self.server = self.server, None
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            raise

    def own(self, text: str) -> str:
        """The text with free ports in place of the usual ones, and a folder of its own in place of /tmp."""
        text = text.replace("/tmp/", f"{self.folder}/")
        for usual, free in zip((11211, 9150), self.ports, strict=True):
            text = re.sub(rf"(?<!\d){usual}(?!\d)", str(free), text)
        return text

    def usual(self, text: str) -> str:
        text = text.replace(f"{self.folder}/", "/tmp/")
        for usual, free in zip((11211, 9150), self.ports, strict=True):
            text = re.sub(rf"(?<!\d){free}(?!\d)", str(usual), text)
        return text

    def serve(self, command: str) -> None:
        self.stop()
        words = shlex.split(command, comments=True)
        command = command.rstrip().removesuffix("&")
        if (
            not any(word in {"-p", "--port"} or word.startswith("--port=") for word in words)
            and "--config" not in words
        ):
            # The usual port may be another's. A comment at the end would swallow the option.
            command = " ".join(shlex.quote(word) for word in words if word != "&")
            port = f"--port {self.ports[0]}"
            command = f"{command} ARGS='{port}'" if command.startswith("make run") else f"{command} {port}"
            if command.startswith("make run") and command.count("ARGS=") > 1:
                command = re.sub(r"'?ARGS=([^']*)'? ARGS='[^']*'", rf"ARGS='\1 {port}'", command)
        if "memcached" in words and os.geteuid() == 0 and "-u" not in words:
            command += " -v -u root"
        elif "memcached" in words:
            command += " -v"
        with (self.folder / ".server").open("w") as log:
            self.server = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while "serving on" not in (said := (self.folder / ".server").read_text()):
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise ExampleError(f"does not serve: {command}\n{said}")
            time.sleep(0.02)

    def shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
        )
        if done.returncode != 0:
            raise ExampleError(f"exit code {done.returncode}: {command}\n{done.stdout[-2000:]}")
        return done.stdout

    def run(self, example: Example) -> None:
        try:
            self._run(example)
        except (ExampleError, subprocess.TimeoutExpired, ValueError, yaml.YAMLError) as error:
            raise ExampleError(f"{example.page}:{example.line}: {error}") from error

    def _run(self, example: Example) -> None:
        if USES_INSTALLED.search(example.text):
            self.install()
        if example.language in {"sh", "console"}:
            for command, output in commands(example):
                command = self.own(command)
                if SERVES.search(command) and not re.search(r"[|>]", command):
                    self.serve(command)
                    continue
                said = self.usual(self.shell(command))
                if output is not None and not matches(said, output):
                    raise ExampleError(f"{command}\nsays:\n{said}\nnot:\n{output}")
        elif example.language == "python":
            (self.folder / "example.py").write_text(self.own(example.text))
            python = "python3"
            if USES_WHEEL.search(example.text):
                if not WHEEL_PYTHON.exists() and "TANDEM_PYTHON" not in os.environ:
                    return  # `make test-python` runs it
                python = shlex.quote(str(WHEEL_PYTHON))
            tests = "-m pytest -q -p no:cacheprovider -c /dev/null" if "def test_" in example.text else ""
            self.shell(f"{python} {tests} example.py")
        elif example.language in {"cpp", "c"}:
            self.compile(example)
        elif example.language == "cmake":
            project = self.folder / "project"
            project.mkdir(exist_ok=True)
            (project / "CMakeLists.txt").write_text(example.text)
            for app in self.folder.glob("app.c*"):
                (project / app.name).write_text(app.read_text())
        elif example.language == "toml":
            tomllib.loads(example.text)
            (self.folder / "example.toml").write_text(self.own(example.text))
            # The port alone differs, so that a mistake in the file is the only thing that can end it.
            running, self.server = self.server, None
            try:
                self.serve("build/bin/tandem serve --config example.toml --port -1")
                self.stop()
            finally:
                self.server = running
        elif example.language == "yaml":
            list(yaml.safe_load_all(example.text))
        else:
            json.loads(example.text)

    def compile(self, example: Example) -> None:
        text = example.text
        if "main(" not in text:  # a fragment
            includes = "".join(f"{line}\n" for line in text.splitlines() if line.startswith("#include"))
            body = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#include"))
            standard = "#include <cstdint>\n#include <cstdio>\n#include <string>\n#include <vector>\n"
            text = f"{standard}{includes}int main() {{\n{body}}}\n"
        source = self.folder / f"app.{example.language}"
        source.write_text(text)
        compiler = "c++ -std=c++20" if example.language == "cpp" else "cc -std=c11 -c"
        build = self.binary.parent.parent
        if example.language == "c":
            self.shell(
                f"{compiler} -Wall -Werror -I include app.c -o example.o && c++ -o example example.o "
                f"{build}/libtandem.a -pthread"
            )
        else:
            self.shell(f"{compiler} -Wall -Werror -I include app.cpp -o example {build}/libtandem.a -pthread")
        self.shell("./example")
