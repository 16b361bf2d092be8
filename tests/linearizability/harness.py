"""The recorder, the checker, and servers to record."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT, tandem_binary
from harness.server import HOST, Server, begin_child, free_port

OUT = ROOT / "build/linearizability"
CHECKER = ROOT / "tests/linearizability/checker"
SEED = int(os.environ.get("TANDEM_LINEARIZABILITY_SEED", "1"))


@cache
def recorder() -> Path:
    path = ROOT / "build/test/linearizability_recorder"
    if not os.access(path, os.X_OK):
        pytest.fail(f"no recorder at {path}: build the target linearizability_recorder", pytrace=False)
    return path


def run_go(*words: str) -> str:
    if shutil.which("go") is None:
        pytest.fail("no go: run scripts/setup test", pytrace=False)
    run = subprocess.run(["go", *words], cwd=CHECKER, capture_output=True, text=True, timeout=300)
    if run.returncode:
        pytest.fail(f"go {words[0]}:\n{run.stdout}{run.stderr}", pytrace=False)
    return run.stdout


@cache
def checker() -> Path:
    """Built, unless there is no Go and one was brought here."""
    OUT.mkdir(parents=True, exist_ok=True)
    if shutil.which("go") is None and (OUT / "checker").exists():
        return OUT / "checker"
    run_go("build", "-buildvcs=false", "-o", str(OUT / "checker"), ".")
    return OUT / "checker"


class TandemServer(Server):
    """`tandem serve`, with options of its own and not memcached's."""

    def __init__(self, *options: str, binary: Path | None = None) -> None:
        self.port = free_port()
        self.unix_path = None
        program = str(binary or tandem_binary())
        self.command = [program, "serve", "--listen", HOST, "--port", str(self.port), "--udp-port", "0", *options]
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=begin_child
        )
        try:
            self.wait_ready()
        except Exception:
            self.kill()
            self.log.close()
            raise


@dataclass
class Result:
    """What became of a history."""

    code: int  # the checker's: 0 has an order, 1 has none
    text: str
    facts: dict[str, float]  # the recorder's last line


def record_and_check(name: str, options: list[str], program: Path | None = None) -> Result:
    """Records a history and has it checked. The file is kept if something is wrong with it."""
    OUT.mkdir(parents=True, exist_ok=True)
    history = OUT / f"{name}.history"
    command = [str(program or recorder()), "--out", str(history), "--name", name, *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"{shlex.join(command)}: {run.returncode}\n{run.stdout}{run.stderr}"
    check = subprocess.run(
        [str(checker()), "-html", str(OUT), str(history)], capture_output=True, text=True, timeout=600
    )
    with history.open("rb") as file:
        file.seek(max(0, history.stat().st_size - 4096))
        facts = json.loads(file.read().splitlines()[-1])
    if check.returncode == 0:
        history.unlink()
    return Result(check.returncode, check.stdout + check.stderr, facts)
