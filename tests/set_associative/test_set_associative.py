"""A server with the preset memcachedgpu: it has the index that was asked for, answers as memcached does, and a full set
evicts. Histories over it are in tests/linearizability (plan `sets`)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from cli.programs import wait_until
from conftest import ROOT
from harness.shares import share_of_tree
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


@pytest.mark.parametrize("gpu", ["off", "sim"])
def test_the_server_has_the_index_that_was_asked_for(gpu: str) -> None:
    server = TandemServer("--preset", "memcachedgpu", "--gpu", gpu)
    try:
        if gpu == "sim":
            wait_until(lambda: statistics(server, b" gpu")["gpu:serves"] == "yes", "the device serves")
        stats = statistics(server, b" gpu")
    finally:
        server.close()
    assert stats["gpu:preset"] == "memcachedgpu" and stats["gpu:index_kind"] == "set_associative", stats
    assert ("gpu:values" in stats) == (gpu == "sim"), stats


def test_a_device_answers_whole_requests_and_follows_what_sets_evict() -> None:
    server = TandemServer("--preset", "memcachedgpu", "--gpu", "sim", "--memory", "64MiB", "--item-expected", "1MiB")
    keys = 2000
    try:
        with Stream(server.connect()) as stream:
            wait_until(lambda: statistics(server, b" gpu")["gpu:serves"] == "yes", "the device serves")
            stored: dict[int, int] = {}
            for n in range(keys):
                stored[n] = n * 7
                assert stream.exchange(b"set key%d 0 0 5\r\n%05d\r\n" % (n, stored[n])).data == b"STORED\r\n"
            for n in range(0, keys, 3):
                stored[n] = n * 11
                assert stream.exchange(b"set key%d 0 0 5\r\n%05d\r\n" % (n, stored[n])).data == b"STORED\r\n"
            found = 0
            for n in range(keys):
                reply = stream.exchange(b"get key%d\r\n" % n).data
                assert reply in (b"END\r\n", b"VALUE key%d 0 5\r\n%05d\r\nEND\r\n" % (n, stored[n])), (n, reply)
                found += reply != b"END\r\n"
        told, stats = statistics(server, b" gpu"), statistics(server)
    finally:
        server.close()
    assert found == int(stats["curr_items"]) and int(stats["evictions"]) > keys - 200, stats
    assert int(told["gpu:requests_answered"]) > keys // 2, told
    assert told["gpu:replica_state"] == "current" and told["gpu:uploads"] == "1", told


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


@pytest.mark.parametrize("gpu", ["off", "sim"])
def test_replies_are_memcacheds(gpu: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance", "-k", WHAT_HOLDS],
        cwd=ROOT,
        env={**os.environ, "TANDEM_OPTIONS": f"-o preset={PRESET},gpu={gpu}", "TANDEM_SHARE": share_of_tree(6)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
    assert " passed" in run.stdout, run.stdout
