"""`tandem bench memory`: what it counts, beside memcached and servers that do not do as told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import memcached_binary, tandem_binary

SMALL_SERVER = Path(__file__).with_name("small_server.py")
MIB = 1 << 20


def memory(*options: str) -> subprocess.CompletedProcess[str]:
    command = [str(tandem_binary()), "bench", "memory", "--quiet", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def small_server(how: str, items: int = 5000) -> list[str]:
    return ["--peer", f"small={sys.executable} {SMALL_SERVER} {{port}} {items} {how}"]


def runs_of(*options: str) -> list[dict]:
    done = memory("--json", "-", *options)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["format"] == "tandem-bench/1"
    return document["runs"]


@pytest.mark.footprint
def test_items_and_memory_are_those_of_the_limit() -> None:
    assert memcached_binary()
    limit_mib, sizes = 32, {"8/8": 16, "32/512": 544}
    runs = runs_of("--memory", str(limit_mib), "--sizes", ",".join(sizes))
    assert [run["cell"] for run in runs] == ["memory-8/8"] * 2 + ["memory-32/512"] * 2
    assert [run["subject"].split()[0] for run in runs] == ["memcached", "tandem"] * 2
    for run in runs:
        payload = sizes[run["cell"].removeprefix("memory-")]
        result = run["result"]
        held = result["memory"]
        assert run["settings"]["memory_mib"] == limit_mib
        assert held["limit_bytes"] == limit_mib * MIB
        assert held["item_bytes"] == payload
        # Neither more than the limit holds without any bookkeeping, nor less than with 100 bytes for each item.
        assert limit_mib * MIB * 0.6 / (payload + 100) < held["items"] < limit_mib * MIB * 1.1 / payload
        assert held["evictions"] > 0
        assert result["sets"] >= held["items"]
        assert result["gets"] == 1000
        assert result["hits"] + result["misses"] == 1000
        gained = held["resident_bytes"] - held["resident_bytes_empty"]
        assert held["bytes_per_item"] == pytest.approx(gained / held["items"])
        assert held["overhead_bytes_per_item"] == pytest.approx(gained / held["items"] - payload)
        assert held["items_per_gib"] == pytest.approx(held["items"] * 1024 / limit_mib)


def test_any_server_can_be_measured() -> None:
    (run,) = [
        r for r in runs_of("--memory", "8", "--sizes", "16/64", *small_server("honest")) if r["subject"] == "small"
    ]
    assert run["result"]["memory"]["items"] == 5000
    assert run["result"]["hits"] == 1000
    assert str(SMALL_SERVER) in run["command"]


def test_a_server_that_takes_no_more_is_full() -> None:
    (run,) = [r for r in runs_of("--memory", "8", "--sizes", "16/64", *small_server("full")) if r["subject"] == "small"]
    assert run["result"]["memory"]["items"] == 5000
    assert run["result"]["memory"]["evictions"] == 0
    assert run["result"]["misses"] > 0


@pytest.mark.parametrize(
    ("how", "items", "words"),
    [("wrong", 5000, "wrong value"), ("dies", 5000, "exit code 3"), ("endless", 0, "never evicts")],
)
def test_a_fault_fails_the_run(how: str, items: int, words: str) -> None:
    done = memory("--subjects", "tandem", "--memory", "8", "--sizes", "250/1000", *small_server(how, items))
    assert done.returncode == 1
    assert "small" in done.stderr
    assert words in done.stderr


def test_the_table_compares_with_tandem() -> None:
    done = memory("--memory", "16", "--sizes", "16/64")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert "tandem holds" in lines[0]
    assert lines[2].startswith("| 16/64 | memcached")
    assert lines[2].endswith(" x |")
    assert lines[3].startswith("| 16/64 | tandem")


@pytest.mark.parametrize(
    "options",
    [
        ["--sizes", "7/8"],
        ["--sizes", "8"],
        ["--sizes", "8/"],
        ["--sizes", "8/8,"],
        ["--sizes", "8/2000000"],
        ["--memory", "0"],
        ["--subjects", "redis"],
        ["--peer", "x=server"],
        ["--no-such-option"],
    ],
)
def test_bad_usage_is_refused(options: list[str]) -> None:
    done = memory(*options)
    assert done.returncode == 64
    assert done.stderr.startswith("tandem: bench memory: ")


def test_a_document_that_cannot_be_written_is_an_error() -> None:
    done = memory("--subjects", "tandem", "--memory", "8", "--sizes", "100/1000", "--json", "/nowhere/at/all.json")
    assert done.returncode not in (0, 1)
    assert "/nowhere/at/all.json" in done.stderr
