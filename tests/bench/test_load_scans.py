"""Scans of `tandem bench load` (`mr`): against servers that keep their keys in order, that do not, and that lie."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import Server
from integration.conftest import stats

from bench.load_runs import all_errors, load
from bench.lying_server import Lie, Store, serve_tcp

KINDS = {"ordered": ("-o", "ordered,preset=0"), "heterokv": ("-o", "preset=5")}
YCSB_E = ["--workload", "ycsb-e", "--protocol", "meta"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape",
    [
        [],
        ["--pipeline", "8", "--connections", "4", "--threads", "2"],
        ["--distribution", "uniform", "--scan-items", "1-300"],
        ["--rate", "2000", "--connections", "2"],
        ["--key-size", "8-40", "--value-size", "0-500"],
    ],
    ids=" ".join,
)
def test_scans_are_answered_right(tandem: Callable[..., Server], kind: str, shape: list[str]) -> None:
    server = tandem(*KINDS[kind], memory_mib=256)
    status, result = load(server.port, *YCSB_E, "--preload", *shape, "--seconds", "5", "--ops", "2000")
    assert (status, all_errors(result), result["stderr"]) == (0, 0, "")
    settings = result["document"]["runs"][0]["settings"]
    assert settings["require_hits"] is True
    assert settings["scan_items"] == ("1-300" if "1-300" in shape else "1-100")
    scans, inserts = result["other"]["scan"], result["other"]["insert"]
    assert scans + inserts == result["ops"] == 2000
    assert inserts == result["sets"] > 0 and result["gets"] == 0
    assert {name: one["count"] for name, one in result["latency_by_op"].items()} == {"scan": scans, "insert": inserts}
    assert result["scan_missing_keys"] == 0
    assert result["scan_items_per_s"] == pytest.approx(result["scan_items"] / result["seconds"])
    # The server saw what the client says that it did.
    told = stats(server, b"tandem")
    assert int(told["range_reads"]) == scans
    assert int(told["range_items"]) == result["scan_items"] > scans


@pytest.mark.parametrize("kind", KINDS)
def test_scans_among_other_operations(tandem: Callable[..., Server], kind: str) -> None:
    server = tandem(*KINDS[kind])
    mix = ["--mix", "get=0.3,set=0.3,scan=0.2,remove=0.1,touch=0.1", "--ttl", "1000", "--protocol", "meta"]
    status, result = load(server.port, "--preload", *mix, "--pipeline", "20", "--connections", "5", "--ops", "5000")
    assert (status, all_errors(result)) == (0, 0)
    assert result["scan_missing_keys"] > 0  # removed
    assert set(result["latency_by_op"]) == {"get", "set", "scan", "remove", "touch"}
    status, result = load(server.port, "--preload", *mix, "--multiget", "10", "--ops", "2000")
    assert (status, all_errors(result)) == (0, 0)


def test_scans_that_end_early_are_counted(tandem: Callable[..., Server]) -> None:
    """A reply has at most 256 KiB of keys and values."""
    server = tandem(*KINDS["ordered"], memory_mib=256)
    options = ["--protocol", "meta", "--mix", "scan=1", "--value-size", "2000", "--scan-items", "1000", "--ops", "200"]
    status, result = load(server.port, *options, "--preload")
    assert (status, all_errors(result)) == (0, 0)
    assert 0 < result["scans_cut"] < 200
    assert result["scan_items"] < 200 * (256 << 10) / 2000


def test_a_server_without_an_order_says_so(tandem: Callable[..., Server], memcached: Callable[..., Server]) -> None:
    for server, reply in ((tandem(), "CLIENT_ERROR ranges need an ordered index"), (memcached(), "ERROR")):
        status, result = load(server.port, *YCSB_E, "--preload", "--value-size", "64")
        assert (status, result["errors"]["wrong_replies"]) == (1, 1)
        first = result["errors"]["first"]
        assert first.startswith('no scans here: they need Tandem with --ordered or --preset heterokv; asked "mr ')
        assert f'got "{reply}' in first
        assert first in result["stderr"]


def test_keys_that_are_not_there(tandem: Callable[..., Server]) -> None:
    server = tandem(*KINDS["ordered"])
    assert load(server.port, *YCSB_E, "--ops", "50", "--mix", "scan=1")[1]["scan_items"] == 0
    status, result = load(server.port, *YCSB_E, "--ops", "50", "--require-hits")
    assert status == 1 and result["errors"]["unexpected_misses"] > 0
    assert "a miss, though every key was set" in result["errors"]["first"]
    assert "--preload sets them" in result["stderr"]
    command = [str(tandem_binary()), "bench", "load", "--connect", f"127.0.0.1:{server.port}", *YCSB_E, "--ops", "100"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0 and "of the keys were found; --preload sets all of them first" in run.stderr
    assert re.search(r"items/s by scans: \d+ items of \d+ scans", run.stdout)


def test_another_programs_keys_are_named(tandem: Callable[..., Server]) -> None:
    server = tandem(*KINDS["ordered"])
    with server.connect() as connection:
        connection.sendall(b"set user:1 0 0 3\r\nAda\r\n")
        assert connection.recv(100) == b"STORED\r\n"
    status, result = load(server.port, *YCSB_E, "--preload", "--distribution", "uniform", keys=100)
    assert status == 1
    assert result["errors"]["first"].startswith("a key that is none of the workload's")


def test_the_ceiling_has_scans(tandem: Callable[..., Server]) -> None:
    server = tandem(*KINDS["ordered"])
    status, result = load(server.port, *YCSB_E, "--preload", "--ceiling", "--pipeline", "4", "--value-size", "10-50")
    assert status == 0
    assert result["document"]["runs"][1]["result"]["scan_items"] > 0


def test_the_same_seed_sends_the_same_bytes() -> None:
    def sent(*options: str) -> list[bytes]:
        store = Store()
        with serve_tcp(store) as port:
            assert load(port, "--preload", "--seconds", "0", "--protocol", "meta", keys=300)[0] == 0
            store.records = True
            options = (*YCSB_E, "--value-size", "64", "--key-size", "16", "--ops", "300", *options)
            assert load(port, *options, keys=300)[0] == 0
        return store.requests

    once = sent("--seed", "5")
    assert once == sent("--seed", "5")
    assert once != sent("--seed", "6")
    lengths = [int(line.split(b" L")[1]) for line in once if line.startswith(b"mr ")]
    assert len(lengths) > 200 and min(lengths) < 10 and max(lengths) > 90
    assert all(line.startswith((b"mr ", b"ms ")) for line in once)


def changed_value(reply: bytes) -> bytes:
    at = reply.index(b"\r\n") + 10
    return reply[:at] + bytes([reply[at] ^ 1]) + reply[at + 1 :]


def without_item(number: int) -> Lie:
    def lie(reply: bytes) -> bytes:
        parts = reply.split(b"VA 64 ")
        if len(parts) <= number + 2:
            return reply
        del parts[number + 1]
        end = b"EN n%d" % (len(parts) - 1)
        return re.sub(rb"EN n\d+", end, b"VA 64 ".join(parts))

    return lie


def swapped(reply: bytes) -> bytes:
    parts = reply.split(b"VA 64 ")
    if len(parts) < 5:
        return reply
    parts[1], parts[2] = parts[2], parts[1]
    return b"VA 64 ".join(parts)


LIES: dict[str, tuple[Lie, str]] = {
    "wrong value": (changed_value, "wrong_values"),
    "the first is missing": (without_item(0), "unexpected_misses"),
    "one is missing": (without_item(1), "unexpected_misses"),
    "swapped": (swapped, "wrong_replies"),
    "a wrong number": (lambda reply: reply.replace(b"EN n", b"EN n1"), "wrong_replies"),
    "another length": (lambda reply: reply.replace(b"VA 64", b"VA 63", 1), "wrong_replies"),
    "another key": (lambda reply: reply.replace(b" k0", b" kx", 1), "wrong_replies"),
    "one too many": (lambda reply: reply + b"VA 64 k", "wrong_replies"),
    "half a reply": (lambda reply: reply[: len(reply) // 2], "timeouts"),
    "silence": (lambda reply: b"", "timeouts"),
    "closed": (lambda reply: b"close", "connection"),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_found(name: str) -> None:
    lie, kind = LIES[name]
    store = Store()
    with serve_tcp(store) as port:
        assert load(port, "--preload", "--seconds", "0", "--protocol", "meta", keys=300)[0] == 0
        store.lie = lie
        options = ["--protocol", "meta", "--mix", "scan=1", "--require-hits", "--ops", "50"]
        timeout = ["--timeout", "0.5" if kind == "timeouts" else "20"]
        status, result = load(port, *options, *timeout, keys=300)
    assert status == 1
    assert result["errors"][kind] > 0, result["errors"]
    assert result["errors"]["first"] in result["stderr"]
    if kind in ("wrong_values", "unexpected_misses"):
        assert result["ops"] == 50


def test_documents_with_scans_are_drawn(tandem: Callable[..., Server], tmp_path: Path) -> None:
    server = tandem(*KINDS["ordered"])
    file = tmp_path / "scans.json"
    assert load(server.port, *YCSB_E, "--preload", "--ops", "500", "--json", str(file))[0] == 0
    command = [str(tandem_binary()), "bench", "report", "--python", sys.executable, "--out", str(tmp_path / "report")]
    run = subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
    assert "scan" in (tmp_path / "report/index.html").read_text()
