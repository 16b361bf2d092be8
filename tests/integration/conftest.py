"""A server for each test, and the size of what a server may need besides -m."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import start_tandem
from harness.server import Server
from harness.wire import Stream

# What the process may need besides -m (docs/memory.md): of itself with up to four threads, and what clients that send
# lines without an end, or do not read, can add.
FIXED_PART_BYTES = (10 + 4 * 8) << 20
LONG_LINES_BYTES = UNSENT_BYTES = 64 << 20


@pytest.fixture
def server() -> Iterator[Server]:
    server = start_tandem("-t", "2")
    yield server
    server.close()


def stats(server: Server, what: bytes = b"") -> dict[str, str]:
    with Stream(server.connect()) as stream:
        reply = stream.exchange(b"stats " + what + b"\r\n" if what else b"stats\r\n").data
    lines = reply.decode().split("\r\n")
    assert lines[-2:] == ["END", ""], reply
    return {name: value for _, name, value in (line.split(" ", 2) for line in lines[:-2])}


def ask(server: Server, request: bytes, timeout_s: float = 60.0) -> bytes:
    """The answer to a request on a connection of its own."""
    with Stream(server.connect()) as stream:
        return stream.exchange(request, timeout_s).data
