"""The command line tools of libmemcached, over TCP and UDP."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from harness.server import HOST, PATIENCE_S, Server

from integration.conftest import ask


def tool(name: str) -> str:
    """memcp is called memccp by Debian."""
    for candidate in (f"memc{name}", f"mem{name}"):
        if shutil.which(candidate):
            return candidate
    pytest.fail(f"memc{name} is missing: install libmemcached-tools", pytrace=False)


def run(server: Server, name: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [tool(name), f"--servers={HOST}:{server.port}", *arguments]
    return subprocess.run(command, capture_output=True, timeout=30, check=False)


def succeeds(server: Server, name: str, *arguments: str) -> bytes:
    result = run(server, name, *arguments)
    assert result.returncode == 0, f"{result.args}: {result.stdout!r} {result.stderr!r}"
    return result.stdout


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "small").write_bytes(b"hello")
    (tmp_path / "large").write_bytes(bytes(range(256)) * 3000)
    (tmp_path / "empty").write_bytes(b"")
    return [str(tmp_path / name) for name in ("small", "large", "empty")]


def test_copy_and_cat(server: Server, files: list[str]) -> None:
    succeeds(server, "cp", *files)
    assert succeeds(server, "cat", "small") == b"hello\n"
    assert succeeds(server, "cat", "large") == bytes(range(256)) * 3000 + b"\n"
    assert run(server, "cat", "absent").returncode != 0
    succeeds(server, "cp", "--flags=77", "--expire=1000", files[0])
    assert ask(server, b"mg small f v\r\n") == b"VA 5 f77\r\nhello\r\n"


def test_add_and_replace(server: Server, files: list[str]) -> None:
    assert run(server, "cp", "--replace", files[0]).returncode != 0
    succeeds(server, "cp", "--add", files[0])
    assert run(server, "cp", "--add", files[0]).returncode != 0
    succeeds(server, "cp", "--replace", files[0])


@pytest.mark.parametrize("way", ["--buffer", "--non-blocking", "--tcp-nodelay"])
def test_ways_to_send(way: str, server: Server, files: list[str]) -> None:
    succeeds(server, "cp", way, *files)
    assert ask(server, b"mg small v\r\nmg large s\r\nmg empty s\r\n") == b"VA 5\r\nhello\r\nHD s768000\r\nHD s0\r\n"


def test_udp(server: Server, files: list[str]) -> None:
    succeeds(server, "cp", "--udp", files[0])
    # The sender of a datagram does not wait until it is read.
    deadline = time.monotonic() + PATIENCE_S
    while (found := ask(server, b"get small\r\n")) == b"END\r\n":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert found == b"VALUE small 0 5\r\nhello\r\nEND\r\n"


def test_exist_touch_remove(server: Server, files: list[str]) -> None:
    assert run(server, "exist", "small").returncode != 0
    assert run(server, "touch", "--expire=100", "small").returncode != 0
    succeeds(server, "cp", files[0])
    succeeds(server, "exist", "small")
    succeeds(server, "touch", "--expire=100", "small")
    assert 90 <= int(ask(server, b"mg small t\r\n").removeprefix(b"HD t")) <= 100
    succeeds(server, "rm", "small")
    assert run(server, "rm", "small").returncode != 0
    assert run(server, "exist", "small").returncode != 0


def test_ping_stat_flush(server: Server, files: list[str]) -> None:
    succeeds(server, "ping")
    succeeds(server, "cp", files[0])
    output = succeeds(server, "stat").decode()
    assert f"pid: {server.pid}" in output and "curr_items: " in output
    assert "maxbytes: 67108864" in succeeds(server, "stat", "settings").decode()
    assert re.search(r"items:\d+:number: [1-9]", succeeds(server, "stat", "items").decode())
    succeeds(server, "flush")
    assert run(server, "cat", "small").returncode != 0


@pytest.mark.parametrize(("options", "least"), [(["-a"], 20), (["-b"], 25), ([], 50)], ids=["text", "binary", "both"])
def test_capable(options: list[str], least: int, server: Server) -> None:
    """libmemcached's own conformance test (memcapable)."""
    command = [tool("capable"), "-h", HOST, "-p", str(server.port), *options]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False, text=True)
    assert result.returncode == 0 and "[FAIL]" not in result.stdout, result.stdout
    assert result.stdout.count("[pass]") > least and "All tests passed" in result.stdout + result.stderr, result.stdout


def test_copy_and_cat_binary(server: Server, files: list[str]) -> None:
    succeeds(server, "cp", "--binary", *files)
    assert succeeds(server, "cat", "--binary", "small") == b"hello\n"
    assert succeeds(server, "cat", "--binary", "large") == bytes(range(256)) * 3000 + b"\n"
    assert run(server, "cat", "--binary", "absent").returncode != 0


@pytest.mark.parametrize("what", ["get", "set", "mget"])
def test_slap(what: str, server: Server) -> None:
    output = succeeds(server, "slap", "--concurrency=4", "--execute-number=500", f"--test={what}")
    assert b"Time total" in output
