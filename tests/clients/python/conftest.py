"""The servers that tests/clients/run.py has started, as the environment names them."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

USER, PASSWORD = "tester", "secret"
DEADLINE_S = 20.0


@pytest.fixture(scope="session")
def address() -> str:
    return os.environ["SERVER"]


@pytest.fixture(scope="session")
def sasl_address() -> str:
    """A server that wants USER and PASSWORD."""
    return os.environ["SASL_SERVER"]


@pytest.fixture
def own_server() -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """The address of a server of the test's own, and what starts and kills it. It runs at first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running: list[subprocess.Popen] = []

    def start() -> None:
        running.append(subprocess.Popen([*shlex.split(os.environ["SERVER_COMMAND"]), "-p", str(port)]))
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "the server does not listen"
                time.sleep(0.01)

    def kill() -> None:
        running[-1].kill()
        running[-1].wait()

    start()
    yield f"127.0.0.1:{port}", start, kill
    kill()


def wait_until(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, f"not in {DEADLINE_S} s: {what}"
        time.sleep(0.02)
