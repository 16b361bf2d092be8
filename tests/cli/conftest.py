"""The program under memcached's name, and programs that are watched and ended."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import tandem_binary

from cli.programs import Start


@pytest.fixture(scope="module")
def alias(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program under the name memcached."""
    link = tmp_path_factory.mktemp("bin") / "memcached"
    link.symlink_to(tandem_binary().resolve())
    return link


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs that serve; stderr is a pipe. Those still running at the end are killed."""
    started: list[subprocess.Popen] = []

    def run(*command: object, **keywords: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **keywords,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
