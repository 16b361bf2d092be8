"""A second kind of index behind the whole store: it answers as memcached does, byte for byte, and every history over it
is linearizable. kind.cpp has all that the store knows of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT
from harness.shares import share_of_tree
from harness.wire import Stream
from linearizability.harness import SEED, TandemServer, record_and_check

PROGRAMS = ROOT / "build/plain_index"
PRESET = 6  # behind the built-in ones

# Name, memory in MiB, item size that the index is made for, and what the recorder does.
HISTORIES = {
    "calm": (64, 256, "--operations 40000"),
    "eviction": (8, 256, "--operations 30000 --value-bytes 8000 --ballast-percent 40 --may-vanish 1"),
    "growth": (64, 1 << 20, "--operations 40000 --ballast-percent 40"),
    "flush": (64, 256, "--operations 30000 --flush-every 100 --ballast-percent 5"),
}


def test_the_server_has_the_index_that_was_asked_for() -> None:
    server = TandemServer("--preset", "plain", binary=PROGRAMS / "plain_index_tandem")
    try:
        with Stream(server.connect()) as stream:
            stats = stream.exchange(b"stats gpu\r\n").data.decode()
    finally:
        server.close()
    assert "gpu:preset plain" in stats and "gpu:index_kind plain" in stats, stats


def test_replies_are_memcacheds() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance"],
        cwd=ROOT,
        env={
            **os.environ,
            "TANDEM_BIN": str(PROGRAMS / "plain_index_tandem"),
            "TANDEM_OPTIONS": f"-o preset={PRESET}",
            "TANDEM_SHARE": share_of_tree(6),
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
    assert " passed" in run.stdout, run.stdout


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("over", ["tcp", "embedded"])
def test_every_history_is_linearizable(over: str, name: str) -> None:
    memory_mib, item_bytes, mix = HISTORIES[name]
    options = ["--seed", str(SEED), "--clients", "5", *mix.split()]
    if over == "tcp":
        memory = ["--memory", f"{memory_mib}MiB", "--item-expected", str(item_bytes)]
        server = TandemServer("--threads", "2", "--preset", "plain", *memory, binary=PROGRAMS / "plain_index_tandem")
        try:
            result = record_and_check(f"plain-tcp-{name}", [*options, "--port", str(server.port)])
        finally:
            server.close()
    else:
        memory = ["--memory-mib", str(memory_mib), "--item-expected", str(item_bytes), "--index-kind", "plain"]
        recorder = PROGRAMS / "plain_index_recorder"
        result = record_and_check(f"plain-embedded-{name}", [*options, *memory, "--plan", "cpu"], recorder)
    assert result.code == 0, result.text
