"""A server with the preset memcachedgpu: it has the index that was asked for, answers as memcached does, and a full set
evicts. Histories over it are in tests/linearizability (plan `sets`)."""

from __future__ import annotations

import os
import subprocess
import sys

from conftest import ROOT
from harness.wire import Stream
from linearizability.harness import TandemServer

PRESET = 4
# What differs by design (docs/decisions/0034-set-associative.md).
DIFFERS = (
    # With -M a set that is full refuses a new key while memory is left, so memory is not full where these expect it.
    "test_each_command_is_answered_as_by_memcached_and_leaves_the_same",
    "test_what_memcached_changes_in_place_is_refused_and_kept",
    # hash_bytes: an entry takes 18 bytes.
    "test_the_hash_table_begins_as_large_as_it_is_told",
)
WHAT_HOLDS = " and ".join(f"not {name}" for name in DIFFERS)


def statistics(server: TandemServer, which: bytes = b"") -> dict[str, str]:
    with Stream(server.connect()) as stream:
        text = stream.exchange(b"stats" + which + b"\r\n").data.decode()
    return dict(line.split(" ", 2)[1:] for line in text.split("\r\n") if line.startswith("STAT "))


def test_the_server_has_the_index_that_was_asked_for() -> None:
    server = TandemServer("--preset", "memcachedgpu")
    try:
        stats = statistics(server, b" gpu")
    finally:
        server.close()
    assert stats["gpu:preset"] == "memcachedgpu" and stats["gpu:index_kind"] == "set_associative", stats


def test_a_full_set_evicts_over_the_wire() -> None:
    server = TandemServer("--preset", "memcachedgpu", "--memory", "64MiB", "--item-expected", "1MiB")
    try:
        with Stream(server.connect()) as stream:
            for n in range(2000):
                assert stream.exchange(b"set key%d 0 0 5\r\nvalue\r\n" % n).data == b"STORED\r\n"
            found = sum(stream.exchange(b"get key%d\r\n" % n).data != b"END\r\n" for n in range(2000))
        stats = statistics(server)
    finally:
        server.close()
    assert found == int(stats["curr_items"]), stats
    assert int(stats["evictions"]) == 2000 - found > 1800, stats


def test_replies_are_memcacheds() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance", "-k", WHAT_HOLDS],
        cwd=ROOT,
        env={**os.environ, "TANDEM_OPTIONS": f"-o preset={PRESET}"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
    assert " passed" in run.stdout, run.stdout
