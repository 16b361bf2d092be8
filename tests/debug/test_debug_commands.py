"""debugtime and debugitem, of a server built with -DTANDEM_DEBUG_COMMANDS=ON ($TANDEM_BIN): a step of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from harness.server import PATIENCE_S, Server
from harness.wire import Stream


@pytest.fixture
def server(tandem: Callable[..., Server]) -> Server:
    return tandem("-t", "2")


def ask(stream: Stream, request: str) -> str:
    return stream.exchange(request.encode() + b"\r\n").data.decode()


def test_time(server: Server) -> None:
    with Stream(server.connect()) as stream:
        assert ask(stream, "set soon 0 100 1\r\nx") == "STORED\r\n"
        assert ask(stream, "set never 0 0 1\r\nx") == "STORED\r\n"
        assert ask(stream, "debugtime 99") == "OK\r\n"
        assert ask(stream, "get soon").startswith("VALUE")
        assert ask(stream, "debugtime 2") == "OK\r\n"
        assert ask(stream, "get soon") == "END\r\n"
        assert ask(stream, "get never").startswith("VALUE")


def test_time_stands_still(server: Server) -> None:
    with Stream(server.connect()) as stream:
        assert ask(stream, "debugtime p") == "OK\r\n"
        assert ask(stream, "set short 0 1 1\r\nx") == "STORED\r\n"
        time.sleep(2.5)
        assert ask(stream, "get short").startswith("VALUE")
        assert ask(stream, "debugtime r") == "OK\r\n"
        end = time.monotonic() + PATIENCE_S
        while ask(stream, "get short") != "END\r\n":
            assert time.monotonic() < end
            time.sleep(0.05)


def test_an_item_that_is_referred_to(server: Server) -> None:
    with Stream(server.connect()) as stream:
        assert ask(stream, "debugitem ref none") != "OK\r\n"
        assert ask(stream, "set k 0 0 1\r\nx") == "STORED\r\n"
        assert ask(stream, "debugitem ref k 3") == "OK\r\n"
        assert ask(stream, "delete k") == "DELETED\r\n"
        assert ask(stream, "get k") == "END\r\n"
        assert ask(stream, "debugitem unref k 3") == "OK\r\n"
        assert ask(stream, "debugitem unref k") != "OK\r\n"


def test_a_locked_item_keeps_its_writer_waiting(server: Server) -> None:
    """Reads of the key go on: only a change or a miss of it needs its lock."""
    # Two connections, on a worker each.
    with Stream(server.connect()) as holder, Stream(server.connect()) as writer:
        assert ask(holder, "set k 0 0 1\r\na") == "STORED\r\n"
        assert ask(holder, "debugitem lock k") == "OK\r\n"
        writer.send(b"set k 0 0 2\r\nbb\r\n")  # of another length: one as long rewrites the item without the lock
        time.sleep(0.3)
        assert ask(holder, "get k") == "VALUE k 0 1\r\na\r\nEND\r\n"
        assert ask(holder, "debugitem unlock k") == "OK\r\n"
        end = time.monotonic() + PATIENCE_S
        while ask(holder, "get k") != "VALUE k 0 2\r\nbb\r\nEND\r\n":
            assert time.monotonic() < end
            time.sleep(0.01)
        assert ask(holder, "debugitem unlock k") != "OK\r\n"


def test_bad_ones(server: Server) -> None:
    with Stream(server.connect()) as stream:
        for bad in ("debugtime", "debugtime x", "debugitem", "debugitem lock", "debugitem lift k"):
            assert "ERROR" in ask(stream, bad), bad
        assert ask(stream, "get k") == "END\r\n"
