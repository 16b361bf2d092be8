"""Fixtures of a real server and a store, for tests of programs that use them. Loaded by pytest where the wheel is
installed; nothing starts until a test asks for it. Under pytest-xdist each worker has a server of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pymemcache.client.base import Client
    from tandem import Server, Store

_CLEAR_S = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tandem_memory", "memory of tandem_server and tandem_store", default="64MiB")
    parser.addini("tandem_options", "further arguments of `tandem serve` for tandem_server", type="args", default=[])


@pytest.fixture(scope="session")
def tandem_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the test session: memcached's protocol on a free port of 127.0.0.1."""
    from tandem.server import Server

    config = request.config
    with Server(config.getini("tandem_memory"), threads=1, options=config.getini("tandem_options")) as server:
        yield server


@pytest.fixture
def _tandem_cleared(tandem_server: Server) -> None:
    address = tandem_server.address
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as connection:
        connection.settimeout(_CLEAR_S)
        connection.connect(address)
        connection.sendall(b"flush_all\r\n")
        with connection.makefile("rb") as replies:
            reply = replies.readline()
    if reply != b"OK\r\n":
        raise RuntimeError(f"tandem_server: flush_all was answered with {reply!r}")


@pytest.fixture
def tandem_url(tandem_server: Server, _tandem_cleared: None) -> str:
    """The server's URL, `tcp://127.0.0.1:PORT`. The server has been cleared for the test."""
    return tandem_server.url


@pytest.fixture
def tandem_client(tandem_server: Server, _tandem_cleared: None) -> Iterator[Client]:
    """A pymemcache client of the server, which has been cleared for the test."""
    base = pytest.importorskip("pymemcache.client.base", reason="tandem_client needs pymemcache")
    client = base.Client(tandem_server.address, default_noreply=False, connect_timeout=10, timeout=10)
    yield client
    client.close()


@pytest.fixture
def tandem_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store of this process, new for the test."""
    from tandem import Store

    with Store(memory=request.config.getini("tandem_memory")) as store:
        yield store
