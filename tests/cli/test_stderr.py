"""Streams that take nothing: what cannot be said ends nothing and delays nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import HOST, PATIENCE_S, free_port
from harness.tls import make_identity

from cli.programs import AS_ROOT, EX_OSERR, EX_USAGE, wait_until

EX_IOERR = 74


def accepts(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=PATIENCE_S):
            return True
    except ConnectionRefusedError:
        return False


@contextmanager
def serving(port: int, *command: object, stderr: int) -> Iterator[subprocess.Popen]:
    words = [str(word) for word in command]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr) as process:
        try:
            wait_until(lambda: accepts(port), "serving")
            yield process
        finally:
            process.kill()


def fill(writer: int) -> None:
    """As little as one byte more would have to wait."""
    os.set_blocking(writer, False)
    try:
        for size in (4096, 1):
            try:
                while True:
                    os.write(writer, b"x" * size)
            except BlockingIOError:
                pass
    finally:
        os.set_blocking(writer, True)


@contextmanager
def unheard(state: str) -> Iterator[tuple[int, Callable[[], None]]]:
    """A pipe's end to write to, and what makes it full, or closes the other end."""
    reader, writer = os.pipe()
    with open(reader, "rb") as heard, open(writer, "wb", buffering=0) as said:
        yield writer, lambda: fill(said.fileno()) if state == "full" else heard.close()


@pytest.mark.parametrize("state", ["full", "closed"])
def test_memcached_is_stopped_by_usr1_all_the_same(alias: Path, state: str) -> None:
    """Which says that it stops."""
    port = free_port()
    with (
        unheard(state) as (writer, close),
        serving(port, alias, *AS_ROOT, "-l", HOST, "-p", port, stderr=writer) as process,
    ):
        close()
        process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("state", ["full", "closed"])
def test_a_certificate_that_cannot_be_loaded_again(tmp_path: Path, state: str) -> None:
    """The old one stays, whether or not this is reported; signals are taken after it."""
    identity = make_identity(tmp_path, "server")
    port = free_port()
    options = ["--listen", f"{HOST}:{port}", "--tls-cert", identity.certificate, "--tls-key", identity.key]
    with (
        unheard(state) as (writer, close),
        serving(port, tandem_binary(), "serve", "--memory", "64MiB", *options, stderr=writer) as process,
    ):
        identity.certificate.write_text("nonsense")
        close()
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert accepts(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["serve", "--port", "99999"], EX_USAGE),
        (["memcached", *AS_ROOT, "-p", "99999"], EX_USAGE),
        (["no-such-command"], EX_USAGE),
        ([], EX_USAGE),
        (["version"], EX_IOERR),
        (["help"], EX_IOERR),
        (["options"], EX_OSERR),
    ],
)
def test_a_full_disk_changes_no_exit_code(words: list[str], code: int) -> None:
    """But that of a command that could not print what it was asked for."""
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([str(tandem_binary()), *words], stdout=full, stderr=full, timeout=60).returncode == code
