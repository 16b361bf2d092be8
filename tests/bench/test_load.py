"""`tandem bench load` against real servers: everything is answered right, and the server saw what the client says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import Server
from hdrh.histogram import HdrHistogram

from bench.load_runs import KEYS, all_errors, floor, load, stats_of
from bench.lying_server import Store, serve_tcp, serve_udp

PROTOCOLS = ["text", "meta", "binary"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "shape",
    [
        ["--pipeline", "1", "--distribution", "uniform"],
        ["--pipeline", "100", "--connections", "3"],
        ["--multiget", "20", "--pipeline", "2"],
        ["--connections", "200", "--threads", "2"],
        ["--udp", "--pipeline", "8", "--connections", "2"],
        ["--udp", "--multiget", "20"],
        ["--rate", "5000", "--pipeline", "2"],
        ["--udp", "--rate", "2000", "--arrivals", "poisson"],
        ["--spin", "--theta", "1.2"],
    ],
    ids=" ".join,
)
def test_memcached_answers_everything_right(memcached: Callable[..., Server], protocol: str, shape: list[str]) -> None:
    server = memcached("-R", "1000")
    mix = ["--get-ratio", "0.8", "--protocol", protocol, "--timeout", "10"]
    status, result = load(server.port, "--preload", *shape, *mix, "--seconds", "5", "--ops", "2000")
    # At a rate, what a client that had no processor sends late fills the buffer of a socket: datagrams are lost.
    lost = result["errors"]["timeouts"] if "--udp" in shape and "--rate" in shape else 0
    assert (status, all_errors(result), result["stderr"] == "") == (int(lost > 0), lost, lost == 0)
    assert result["gets"] > 0 and result["sets"] > 0
    assert result["misses"] == 0
    assert result["ops"] == result["gets"] + result["sets"] == 2000 - lost
    assert result["latency_us"]["count"] == 2000
    # The server saw what the client says that it did.
    stats = stats_of(server)
    assert 0 <= stats["cmd_set"] - KEYS - result["sets"] <= lost
    assert 0 <= stats["cmd_get"] - KEYS - result["gets"] <= lost
    assert stats["cmd_get"] == stats["get_hits"]


@pytest.mark.parametrize("size", [("8", "8"), ("32", "512"), ("250", "1"), ("16", "20000"), ("16-40", "1-2000")])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sizes(memcached: Callable[..., Server], protocol: str, size: tuple[str, str]) -> None:
    server = memcached()
    sizes = ["--key-size", size[0], "--value-size", size[1], "--protocol", protocol]
    for shape in ([], ["--multiget", "7"]):
        for verify in ("--verify", "--no-verify"):
            options = [*sizes, *shape, verify, "--preload", "--require-hits", "--pipeline", "10", "--ops", "1000"]
            status, result = load(server.port, *options, keys=200)
            assert (status, result["misses"]) == (0, 0)


def test_getk_leaves_keys_to_the_client(tandem: Callable[..., Server]) -> None:
    server = tandem()
    options = ["--protocol", "meta", "--getk", "--preload", "--pipeline", "10", "--ops", "2000"]
    for more in ((), ("--no-verify",), ("--ceiling",), ("--udp",)):
        status, result = load(server.port, *options, *more, keys=200)
        assert (status, result["misses"], result["other_keys"]) == (0, 0, 0), more
        assert result["hits"] == result["gets"] > 1500
        assert result["document"]["runs"][0]["settings"]["getk"] is True
    status, result = load(server.port, *options, "--mix", "get=0.5,remove=0.5", "--no-require-hits", keys=200)
    assert status == 0 and result["misses"] > 0
    assert "other_keys" not in load(server.port, "--protocol", "meta", "--ops", "100", keys=200)[1]
    for wrong in (["--protocol", "text", "--getk"], [*options, "--multiget", "2"]):
        status, result = load(server.port, *wrong, check=False)
        assert status == 64 and "getk" in result["stderr"]


def test_a_server_that_knows_no_getk_says_so(memcached: Callable[..., Server]) -> None:
    status, result = load(memcached().port, "--protocol", "meta", "--getk", "--ops", "100", keys=10)
    assert status == 1 and "CLIENT_ERROR invalid flag" in result["stderr"]


def test_large_values(tandem: Callable[..., Server]) -> None:
    server = tandem("-I", "8m", memory_mib=256)
    options = ["--preload", "--value-size", "3000000", "--get-ratio", "0.5", "--ops", "40", "--pipeline", "3"]
    status, result = load(server.port, *options, keys=10)
    assert (status, result["misses"]) == (0, 0)


@pytest.mark.parametrize(
    "preset", ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f", "etc", "usr", "K8-G50-U", "K16-G95-S"]
)
def test_presets(tandem: Callable[..., Server], preset: str) -> None:
    server = tandem(memory_mib=512)
    status, result = load(server.port, "--workload", preset, "--preload", "--ops", "3000", "--pipeline", "4")
    assert (status, all_errors(result)) == (0, 0)
    if preset == "ycsb-f":
        other = result["other"]["read_modify_write"]
        assert result["sets"] == other and result["gets"] == 3000
        assert result["latency_by_op"]["read_modify_write"]["count"] == other


def test_every_key_is_preloaded_by_all_threads(memcached: Callable[..., Server]) -> None:
    server = memcached()
    assert load(server.port, "--preload", "--seconds", "0", "--threads", "3", "--connections", "3")[0] == 0
    assert stats_of(server)["curr_items"] == KEYS
    options = ["--distribution", "sequential", "--get-ratio", "1", "--ops", str(KEYS), "--require-hits"]
    status, result = load(server.port, *options, "--pipeline", "100", "--connections", "3")
    assert (status, result["gets"], result["hits"]) == (0, KEYS, KEYS)


def test_a_store_that_is_too_small_fails_the_preload(memcached: Callable[..., Server]) -> None:
    server = memcached(memory_mib=2)
    options = ["--preload", "--value-size", "4000", "--ops", "1000"]
    status, result = load(server.port, *options, keys=5000)
    assert status == 1
    assert "did not keep every key" in result["stderr"]
    status, result = load(server.port, *options, "--no-require-hits", keys=5000)
    assert (status, result["document"]["runs"][0]["settings"]["require_hits"]) == (0, False)
    assert result["misses"] > 0


def test_hits_are_required_where_nothing_can_take_keys_away(memcached: Callable[..., Server]) -> None:
    server = memcached()
    for options, required in ((["--preload"], True), ([], False), (["--preload", "--ttl", "100"], False)):
        _, result = load(server.port, *options, "--ops", "10")
        assert result["document"]["runs"][0]["settings"]["require_hits"] is required


@pytest.mark.parametrize(
    "shape", [[], ["--multiget", "5"], ["--protocol", "meta"], ["--protocol", "binary"], ["--udp"]]
)
def test_misses_are_counted(memcached: Callable[..., Server], shape: list[str]) -> None:
    server = memcached()
    status, result = load(server.port, "--get-ratio", "1", "--ops", "300", *shape)
    assert status == 0
    assert result["misses"] == result["gets"] == 300
    status, result = load(server.port, "--get-ratio", "1", "--ops", "300", "--require-hits", *shape)
    assert (status, result["errors"]["unexpected_misses"]) == (1, 300)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_removes_and_touches(memcached: Callable[..., Server], protocol: str) -> None:
    server = memcached()
    mix = ["--mix", "get=0.4,set=0.2,remove=0.2,touch=0.2", "--ttl", "1000", "--protocol", protocol]
    status, result = load(server.port, *mix, "--preload", "--ops", "2000", "--pipeline", "5")
    assert (status, all_errors(result)) == (0, 0)
    stats = stats_of(server)
    assert stats["delete_hits"] + stats["delete_misses"] == result["other"]["remove"] > 0
    if protocol == "meta":  # memcached counts its misses as a get's
        assert 0 < stats["touch_hits"] <= result["other"]["touch"]
    else:
        assert stats["touch_hits"] + stats["touch_misses"] == result["other"]["touch"] > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_times_to_live_are_on_the_wire(protocol: str) -> None:
    store = Store()
    with serve_tcp(store) as port:
        assert load(port, "--ttl", "4321", "--get-ratio", "0", "--ops", "50", "--protocol", protocol)[0] == 0
        assert set(store.ttl.values()) == {b"4321"}
        store.ttl.clear()
        assert load(port, "--ttl", "99", "--mix", "touch=1", "--ops", "50", "--protocol", protocol)[0] == 0
        assert set(store.ttl.values()) == {b"99"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_sends_the_same_bytes(protocol: str) -> None:
    def sent(*options: str) -> bytes:
        store = Store()
        store.records = True
        with serve_tcp(store) as port:
            assert load(port, "--protocol", protocol, "--ops", "400", "--pipeline", "7", *options)[0] == 0
        return b"".join(store.requests)

    once = sent("--seed", "5")
    assert once == sent("--seed", "5")
    assert once != sent("--seed", "6")
    turns = ["--seed", "5", "--alternate", "K8-G50-U,K16-G95-S", "--every", "20ops"]
    assert sent(*turns) == sent(*turns)


def test_workloads_alternate(memcached: Callable[..., Server]) -> None:
    server = memcached()
    turns = ["--alternate", "K8-G50-U,K16-G95-S", "--preload", "--pipeline", "10"]
    status, result = load(server.port, *turns, "--every", "50ops", "--ops", "4000", "--connections", "2")
    assert (status, all_errors(result)) == (0, 0)
    # Half of the operations of each: 50 % and 95 % gets; five deviations of a binomial distribution of 4000.
    assert abs(result["gets"] / 4000 - 0.725) < 5 * 0.5 / 4000**0.5
    assert stats_of(server)["curr_items"] == 2 * KEYS
    assert load(server.port, *turns, "--every", "2ms")[0] == 0


def test_a_trace_is_replayed(memcached: Callable[..., Server], tmp_path: Path) -> None:
    server = memcached()
    trace = tmp_path / "trace.csv"
    lines = ["op,key,value_bytes,ttl_s,time_us"]
    lines += [f"set,key-{i % 50},{i % 300},0,{i * 100}" for i in range(500)]
    lines += [f"get,key-{i % 60},,,{50_000 + i * 100}" for i in range(600)]
    trace.write_text("\n".join(lines) + "\n")
    for options in ([], ["--replay-speed", "4"], ["--multiget", "5"], ["--protocol", "binary"], ["--rate", "20000"]):
        status, result = load(server.port, "--trace", str(trace), "--seconds", "0", "--connections", "2", *options)
        assert (status, all_errors(result)) == (0, 0)
        assert (result["gets"], result["sets"], result["misses"]) == (600, 500, 100)


def test_unix_sockets_and_ipv6(memcached: Callable[..., Server], tmp_path: Path) -> None:
    memcached(unix_path=tmp_path / "socket")
    status, result = load(f"unix:{tmp_path}/socket", "--preload", "--ops", "500")
    assert (status, result["ops"]) == (0, 500)
    with floor("--listen", "[::1]:0") as (address, _):
        assert load(address, "--no-verify", "--ops", "100", "--get-ratio", "1")[0] == 0
    with floor("--listen", f"unix:{tmp_path}/floor", "--threads", "2") as (address, _):
        assert load(address, "--no-verify", "--ops", "100", "--connections", "4", "--get-ratio", "1")[0] == 0


@pytest.mark.parametrize("transport", [[], ["--udp"]], ids=["tcp", "udp"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_small_honest_server_passes(protocol: str, transport: list[str]) -> None:
    """So it is the lies that are found in test_load_lies.py, not the smallness of the server."""
    store = Store()
    with serve_tcp(store) as port, serve_udp(store) as udp_port:
        mix = ["--require-hits", "--get-ratio", "0.9", "--protocol", protocol, "--ops", "500", "--timeout", "20"]
        assert load(port, "--preload", "--seconds", "0", "--protocol", protocol, keys=300)[0] == 0
        for shape in ([], ["--multiget", "4"], ["--connections", "5", "--pipeline", "3"]):
            status, result = load(udp_port if transport else port, *mix, *shape, *transport, keys=300)
            assert (status, result["stderr"]) == (0, "")


def test_percentiles_are_hdrhistograms(memcached: Callable[..., Server]) -> None:
    """PyPI's hdrhistogram, filled with the document's counts, finds the percentiles that the document tells."""
    server = memcached()
    _, result = load(server.port, "--preload", "--ops", "20000", "--pipeline", "4")
    reference = HdrHistogram(1, 3_600_000_000_000, 3)
    previous = 0.0
    assert len(result["histogram"]["upper"]) == len(result["histogram"]["counts"])
    for upper, count in zip(result["histogram"]["upper"], result["histogram"]["counts"], strict=True):
        assert upper > previous and count > 0
        previous = upper
        reference.record_value(round(upper * 1000), count)
    latency = result["latency_us"]
    assert reference.get_total_count() == latency["count"] == 20000
    for name in ("p50", "p90", "p99", "p99.9", "p99.99"):
        expected = reference.get_value_at_percentile(float(name[1:])) / 1000
        assert latency[name] == pytest.approx(min(expected, latency["max"]), rel=0.002), name
    assert latency["min"] <= latency["mean"] <= latency["max"]


def test_the_document_has_what_its_format_says(tandem: Callable[..., Server]) -> None:
    server = tandem()
    options = ["--server-pid", str(server.pid), "--seconds", "0.5", "--rate", "2000", "--connections", "2"]
    status, result = load(
        server.port, "--preload", *options, "--cell", "text-p1", "--subject", "tandem", "--round", "3"
    )
    assert status == 0
    document = result["document"]
    assert document["format"] == "tandem-bench/1"
    run = document["runs"][0]
    assert (run["kind"], run["cell"], run["subject"], run["round"]) == ("load", "text-p1", "tandem", 3)
    assert run["command"].startswith("tandem bench load --connect ")
    assert run["settings"]["rate"] == 2000
    assert run["settings"]["keys"] == KEYS
    assert run["result"]["server"]["resident_bytes"] > 1 << 20
    assert run["result"]["server"]["cpu_us_per_op"] > 0
    timeline = run["result"]["timeline"]
    assert [point["t"] for point in timeline] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=1e-6)
    assert sum(point["ops_per_s"] * 0.1 for point in timeline) <= 1000


def test_cpu_time_is_the_servers() -> None:
    with floor() as (address, process):
        options = ["--no-verify", "--server-pid", str(process.pid), "--seconds", "0.6", "--pipeline", "8"]
        _, result = load(address, *options)
        process.terminate()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    measured_s = result["server"]["cpu_us_per_op"] * result["ops"] * 1e-6
    # Outside the window: the program's start and the end of the last batch.
    assert measured_s <= usage.ru_utime + usage.ru_stime + 0.01
    assert measured_s >= 0.8 * (usage.ru_utime + usage.ru_stime) - 0.05
    assert 0 < result["server"]["sleeps_per_op"] <= 1.01


def test_the_generator_shows_its_ceiling(memcached: Callable[..., Server]) -> None:
    server = memcached()
    for shape in (["--pipeline", "16"], ["--protocol", "binary", "--multiget", "10"], ["--udp"], ["--key-size", "etc"]):
        status, result = load(server.port, "--preload", "--ceiling", *shape)
        assert status == 0
        ceiling = result["document"]["runs"][1]
        assert ceiling["subject"] == "floor"
        assert ceiling["result"]["ops_per_s"] > 0 and ceiling["result"]["client_cpu_us_per_op"] > 0


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(tandem_binary()), "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threads", "4"], "as many connections"),
        (["--protocol", "redis"], "--protocol"),
        (["--multiget", "0"], "keys per get"),
        (["--workload", "nothing"], "nothing"),
        (["--alternate", "K8-G50-U"], "--every"),
        (["--every", "2ms"], "--alternate"),
        (["--alternate", "K8-G50-U,K16-G95-S", "--every", "2 weeks"], "--every"),
        (["--mix", "get=0.5,fetch=0.5"], "fetch"),
        (["--mix", "get=0.5"], "1"),
        (["--key-size", "7"], "8"),
        (["--get-ratio", "1.5"], ""),
        (["--processors", "x"], "--processors"),
        (["--server-pid", "999999999"], "no process"),
        (["--connect", "127.0.0.1:70000"], "port"),
        (["--udp", "--value-size", "70000"], "datagram"),
        (["--trace", "x.csv", "--preload"], "--preload"),
        (["--seconds", "0"], "nothing"),
        (["--workload", "ycsb-e"], "ycsb-e has scans, which only --protocol meta"),
        (["--mix", "get=0.5,scan=0.5", "--protocol", "binary"], "has scans, which only --protocol meta"),
        (["--workload", "ycsb-e", "--protocol", "meta", "--udp"], "TCP"),
        (["--workload", "ycsb-e", "--protocol", "meta", "--scan-items", "1025"], "1024"),
        (["--workload", "ycsb-e", "--protocol", "meta", "--scan-items", "0-9"], "one key"),
        (["--workload", "ycsb-e", "--protocol", "meta", "--scan-items", "9-1"], "empty range"),
        (["--workload", "ycsb-e", "--protocol", "meta", "--scan-items", "few"], "--scan-items"),
        (["--scan-items", "1-"], "--scan-items"),
        (["--frobnicate"], "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_bad_usage(options: list[str], message: str) -> None:
    run = program("load", *options)
    assert run.returncode == 64, run.stderr
    assert run.stdout == ""
    assert run.stderr.startswith("tandem: bench load: ")
    assert message in run.stderr


def test_no_server_is_unavailable(tmp_path: Path) -> None:
    for address in ("127.0.0.1:1", f"unix:{tmp_path}/none"):
        run = program("load", "--connect", address)
        assert run.returncode == 69
        assert "cannot connect" in run.stderr
    run = program("load", "--trace", str(tmp_path / "none.csv"))
    assert run.returncode in (66, 69, 71)
    assert "none.csv" in run.stderr


def test_help_names_every_option_and_text_tells_the_numbers(memcached: Callable[..., Server]) -> None:
    text = program("load", "--help").stdout
    for option in ("--connect", "--rate", "--arrivals", "--multiget", "--preload", "--trace", "--ceiling", "--json"):
        assert option in text
    assert "--scan-items" in text
    listed = program("load", "--list").stdout
    assert "ycsb-a" in listed and "ycsb-e" in listed and "K16-G95-S" in listed
    server = memcached()
    run = program("load", "--connect", f"127.0.0.1:{server.port}", "--keys", "100", "--preload", "--ops", "1000")
    assert (run.returncode, run.stderr) == (0, "")
    assert re.search(r"1000 operations in ", run.stdout)
    assert "100.00 % found" in run.stdout
    assert "p99.99" in run.stdout


def test_the_document_goes_to_a_file(memcached: Callable[..., Server], tmp_path: Path) -> None:
    server = memcached()
    file = tmp_path / "run.json"
    run = program("load", "--connect", f"127.0.0.1:{server.port}", "--ops", "100", "--quiet", "--json", str(file))
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert json.loads(file.read_text())["runs"][0]["result"]["ops"] == 100
