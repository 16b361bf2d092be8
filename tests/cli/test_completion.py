"""Completions, asked for as people do: a real shell on a terminal of its own, and the tab key."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import tandem_binary

from cli.programs import DEADLINE_S, EX_USAGE, call, tandem

# What is typed before the tab key, and the command line that comes of it.
TYPED = {
    "commands": ("tandem comp", "completion"),
    "option": ("tandem serve --udp", "serve --udp-port"),
    "switch turned off": ("tandem serve --no-ev", "serve --no-evict"),
    "file": ("tandem serve --config settings.t", "serve --config settings.toml"),
    "memcached's option": ("tandem memcached --conn", "memcached --conn-limit"),
    "memcached's file": ("tandem memcached -P settings.t", "memcached -P settings.toml"),
    "memcached's extended option": ("tandem memcached -o idle_t", "memcached -o idle_timeout"),
    "benchmark": ("tandem bench comp", "bench compare"),
    "page of the manual": ("tandem manual tandem.t", "manual tandem.toml"),
    "shell": ("tandem completion fi", "completion fish"),
    "nothing": ("tandem serve --xyz", "serve --xyz"),
}


def shell_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is missing: run scripts/setup test", pytrace=False)
    return found


class Terminal:
    """A shell with its input and output on a pseudo terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.master, slave = pty.openpty()
        environment = {"TERM": "dumb", "PATH": os.environ["PATH"], "HOME": str(folder), "PS1": "", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment, start_new_session=True
        )
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match in what is printed from now on."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            match = re.search(pattern, self.seen)
            if match:
                self.seen = self.seen[match.end() :]
                return match
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{pattern} did not come: {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture(scope="module", params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A shell that has the completions, in a folder with a file settings.toml; `tandem` is a function that prints its
    arguments."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "settings.toml").write_text("")
    (folder / "_tandem").write_text(tandem("completion", request.param).stdout)
    if request.param == "bash":
        command = [shell_program("bash"), "--norc", "--noprofile", "-i"]
        load = "source ./_tandem"
    else:
        command = [shell_program("zsh"), "-f", "-i"]
        load = "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d ./dump"
    shell = Terminal(command, folder)
    shell.type(f"{load}\ntandem() {{ printf '<<%s' \"$*\"; printf '>>\\n'; }}\nprintf 'rea''dy\\n'\n")
    shell.wait_for("ready")
    yield shell
    shell.close()


@pytest.mark.parametrize("case", TYPED)
def test_tab(terminal: Terminal, case: str) -> None:
    typed, completed = TYPED[case]
    terminal.type(f"{typed}\t\n")
    # Both shells may append what comes next: a blank, or = before a value.
    assert terminal.wait_for(r"<<(.*?)>>")[1].rstrip(" =") == completed


@pytest.mark.parametrize("case", TYPED)
def test_fish(tmp_path: Path, case: str) -> None:
    (tmp_path / "settings.toml").write_text("")
    (tmp_path / "tandem.fish").write_text(tandem("completion", "fish").stdout)
    typed, completed = TYPED[case]
    script = f"source tandem.fish; complete -C{typed!r}"
    result = call(shell_program("fish"), "--no-config", "-c", script, cwd=tmp_path)
    assert result.returncode == 0 and result.stderr == ""
    offered = [line.split("\t")[0] for line in result.stdout.splitlines()]
    assert offered == ([] if case == "nothing" else [completed.split()[-1]])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_there(shell: str) -> None:
    script = tandem("completion", shell).stdout
    for command in re.findall(r"^  (\w+) ", tandem("help").stdout, re.MULTILINE):
        assert re.search(rf"\b{command}\b", script), command
    options = re.findall(r"--(?:\[no-\])?([a-z][a-z-]+)", tandem("serve", "--help").stdout)
    assert len(options) > 20
    for option in options:
        assert re.search(rf"(?:--|-l ){option}\b", script), option


def test_the_bash_script_is_clean(tmp_path: Path) -> None:
    (tmp_path / "tandem").write_text(tandem("completion", "bash").stdout)
    result = call("shellcheck", "--shell=bash", tmp_path / "tandem")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("arguments", [[], ["tcsh"], ["bash", "zsh"]])
def test_bad_calls(arguments: list[str]) -> None:
    result = call(tandem_binary(), "completion", *arguments)
    assert (result.returncode, result.stdout) == (EX_USAGE, "")
    assert "bash, zsh or fish" in result.stderr
