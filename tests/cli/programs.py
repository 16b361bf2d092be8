"""Calling the program and asking what serves."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from conftest import tandem_binary
from harness.server import PATIENCE_S, SANITIZER_REPORTS, wait_until

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = PATIENCE_S
IS_ROOT = os.geteuid() == 0
AS_ROOT = ["-u", "root"] if IS_ROOT else []
EX_USAGE, EX_NOINPUT, EX_NOUSER, EX_OSERR, EX_CONFIG = 64, 66, 67, 71, 78

Start = Callable[..., subprocess.Popen]
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?P<said>(?:debug|info|warning|error): .*\n)")


def said(log: str) -> str:
    """The log without the times; each line has one."""
    lines = log.splitlines(keepends=True)
    matches = [LOG_LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    return "".join(match["said"] for match in matches)


def call(*command: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    """Runs a program that is to end by itself."""
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
        **keywords,
    )


def tandem(*arguments: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    return call(tandem_binary(), *arguments, **keywords)


def ask(address: str | tuple[str, int], request: bytes = b"version\r\n", end: bytes = b"\r\n") -> bytes:
    """The reply to one command, or an OSError."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(address)
        connection.sendall(request)
        reply = b""
        while not reply.endswith(end):
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError(f"closed after {reply!r}")
            reply += data
        return reply


def answers(address: str | tuple[str, int]) -> bool:
    try:
        return ask(address).startswith(b"VERSION ")
    except OSError:
        return False


def wait_serving(process: subprocess.Popen, address: str | tuple[str, int]) -> None:
    def serving() -> bool:
        assert process.poll() is None, f"exited with {process.returncode}: {process.stderr.read()}"
        return answers(address)

    wait_until(serving, f"answers at {address}")


def stop(process: subprocess.Popen, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Exit code and all of stderr."""
    process.send_signal(how)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert not any(report in errors for report in SANITIZER_REPORTS), errors
    return process.returncode, errors


def status_of(pid: int, name: str) -> list[str]:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.split()[1:]
    raise AssertionError(f"no {name} of process {pid}")


def settings_of(address: tuple[str, int]) -> dict[str, str]:
    lines = ask(address, b"stats settings\r\n", b"END\r\n").decode().splitlines()
    return dict(line.split(" ", 2)[1:] for line in lines[:-1])
