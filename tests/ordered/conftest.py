"""Servers that keep their keys in order, and the bounds of their replies to range requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import start_tandem
from harness.server import Server

KINDS = {"ordered": ("-o", "ordered,preset=0"), "heterokv": ("-o", "preset=5")}
LIMIT_MAX = 1024
REPLY_BYTES_MAX = 256 << 10


@pytest.fixture(params=list(KINDS))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = start_tandem("-t", "2", *KINDS[request.param])
    yield server
    server.close()
