"""`tandem bench compare` with real servers, and with peers that are slow, lie, die, or never answer."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, memcached_binary, tandem_binary
from harness.server import PATIENCE_S

EX_USAGE, EX_UNAVAILABLE = 64, 69
TIMEOUT_S = 300
# Short runs of few keys: what is asked for here is not what a machine can do.
# So long that also on a busy machine each run does something.
BRIEF = ["--keys", "500", "--seconds", "0.4", "--warmup", "0.02", "--wait", "sleep"]


def compare_command(*options: object) -> list[str]:
    return [str(tandem_binary()), "bench", "compare", *map(str, options)]


def compare(*options: object) -> subprocess.CompletedProcess[str]:
    command = compare_command(*options)
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def peer(name: str, token: str, *options: object) -> list[str]:
    """--peer with a server of peer_server.py. Processes are found by the token."""
    words = [sys.executable, "-m", "bench.peer_server", "--token", token, *options]
    path = f"PYTHONPATH={shlex.quote(str(ROOT / 'tests'))}"
    return ["--peer", f"{name}={path} {shlex.join(map(str, words))} --port {{port}}"]


def processes_with(token: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if token.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


def wait_until(is_true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def token() -> Iterator[str]:
    """Marks a test's processes, none of which may be left."""
    word = uuid.uuid4().hex
    yield word
    assert processes_with(word) == []


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def ratios(document: dict, metric: str, subject: str, base: str, phase: str = "closed") -> list[dict]:
    keys = {"metric": metric, "subject": subject, "base": base, "phase": phase}
    return [c["ratio"] for c in document["comparisons"] if all(c[key] == value for key, value in keys.items())]


def test_all_servers_get_the_same_loads_in_turns(tmp_path: Path) -> None:
    assert shutil.which("redis-server"), "redis-server is needed: run scripts/setup"
    memcached_binary()
    file = tmp_path / "results.json"
    cells = ["text-p16", "meta-mget50", "udp-p1"]
    run = compare("--cells", ",".join(cells), "--subjects", "redis,floor,memcached,tandem", "--rounds", 3,
                  "--tail-rounds", 1, *BRIEF, "--json", file)  # fmt: skip
    assert run.returncode == 0, run.stderr
    document = read(file)
    assert document["format"] == "tandem-bench/1"
    assert document["command"].startswith("tandem bench compare --cells text-p16,")
    names = {"text-p16": ["floor", "memcached", "redis", "tandem"]}
    for cell in cells:
        expected = names.get(cell, ["floor", "memcached", "tandem"])
        closed = [r for r in document["runs"] if r["cell"] == cell and r["phase"] == "closed"]
        order = [r["subject"].split()[0] for r in closed]
        n = len(expected)
        assert order == [expected[(i + r) % n] for r in range(3) for i in range(n)]
        assert [r["round"] for r in closed] == [r for r in range(3) for _ in range(n)]
        # The same load: all settings but the protocol of redis and what the floor cannot keep.
        for r in closed:
            for name in ("connections", "pipeline", "multiget", "keys", "seconds", "rate", "workload", "processors"):
                assert r["settings"][name] == closed[0]["settings"][name]
        tails = [r for r in document["runs"] if r["cell"] == cell and r["phase"] == "equal rate"]
        assert len(tails) == n
        assert len({r["settings"]["rate"] for r in tails}) == 1
        stores = [r["subject"] for r in closed if r["subject"] != "floor"]
        slowest = min(
            statistics.median(r["result"]["ops_per_s"] for r in closed if r["subject"] == name) for name in stores
        )
        assert tails[0]["settings"]["rate"] == pytest.approx(slowest / 2, abs=1)
    for r in document["runs"]:
        assert r["command"].startswith("tandem bench load --connect 127.0.0.1:")
        errors = r["result"]["errors"]
        assert errors["wrong_values"] == errors["wrong_replies"] == errors["unexpected_misses"] == 0
        assert r["result"]["server"]["cpu_us_per_op"] > 0
        assert r["result"]["server"]["resident_bytes"] > 1 << 20
        assert 0 <= r["result"]["server"]["foreign_share"] <= 1
        if r["subject"] != "floor":
            assert r["result"]["misses"] == 0
    # Ratios are what the runs say.
    of_round = {
        (r["subject"], r["round"]): r["result"]["server"]["cpu_us_per_op"]
        for r in document["runs"]
        if r["cell"] == "text-p16" and r["phase"] == "closed"
    }
    expected = statistics.median(of_round["tandem", r] / of_round["floor", r] for r in range(3))
    assert ratios(document, "server_cpu_us_per_op", "tandem", "floor")[0]["median"] == pytest.approx(expected)
    # One line first: what it comes to.
    lead = run.stdout.splitlines()[0]
    comes_to = r"[\d.]+x (memcached|floor|redis)'s throughput, p99 [\d.]+x \(geometric means of 3 loads\)"
    assert re.fullmatch(comes_to, lead), lead
    assert len(lead) <= 80
    rows = [line for line in run.stdout.splitlines() if line.startswith("| text-p16")]
    assert len(rows) == 4
    assert "<= 1.40" in rows[0]
    again = compare("--render", file)
    assert again.stdout == run.stdout
    both = compare("--render", file, file)
    assert both.returncode == 0
    assert "6 rounds" in both.stdout


def test_a_slow_peer_shows(tmp_path: Path, token: str) -> None:
    file = tmp_path / "results.json"
    options = ["--subjects", "tandem", *peer("slow", token, "--delay-ms", 3, "--memcached", memcached_binary())]
    run = compare("--cells", "text-p1", *options, "--rounds", 3, "--tail-rounds", 0, *BRIEF, "--json", file)
    assert run.returncode == 0, run.stderr
    document = read(file)
    for r in document["runs"]:
        if r["subject"] == "slow":
            assert r["result"]["latency_us"]["min"] >= 3000
            # The wrapped memcached's time and memory are the peer's, too.
            assert r["result"]["server"]["resident_bytes"] > 8 << 20
    (latency,) = ratios(document, "latency_p50_us", "tandem", "slow")
    (rate,) = ratios(document, "ops_per_s", "tandem", "slow")
    assert latency["median"] < 1 < rate["median"]
    assert latency["low"] <= latency["median"] <= latency["high"]


def test_a_lying_peer_fails_the_comparison(tmp_path: Path, token: str) -> None:
    file = tmp_path / "results.json"
    options = ["--subjects", "tandem", *peer("liar", token, "--lie")]
    run = compare("--cells", "text-p1", *options, *BRIEF, "--json", file)
    assert run.returncode == 1
    assert "tandem: bench compare: 1 failed:\ntext-p1: liar: " in run.stderr
    assert "wrong value" in run.stderr
    assert "command: tandem bench load --connect" in run.stderr
    written = json.loads(file.read_text())  # what the other server did is kept
    assert {one["subject"] for one in written["runs"]} == {"tandem"}
    assert any(note.startswith("failed: text-p1: liar: ") for note in written["notes"])
    assert "tandem" in run.stdout


DEFECTS = {
    "exits": (
        "echo out of luck >&2; exit 3 # {port} TOKEN",
        "x ended with exit code 3; the end of its output:\nout of",
    ),
    "is killed": ("kill -SEGV $$ # {port} TOKEN", "x ended by signal 11"),
    "is missing": ("/no/such/program {port} TOKEN", "x ended with exit code 127"),
    "never listens": ("echo asleep; sleep 1000 # {port} TOKEN", "x does not answer on port"),
    "never answers": (
        f'{sys.executable} -c \'import socket, time; s = socket.create_server(("127.0.0.1", {{port}})); '
        "time.sleep(1000)' TOKEN",
        "x does not answer on port",
    ),
}


@pytest.mark.parametrize(("command", "message"), DEFECTS.values(), ids=DEFECTS.keys())
def test_a_peer_that_does_not_serve(token: str, command: str, message: str) -> None:
    options = ["--subjects", "tandem", "--peer", f"x={command.replace('TOKEN', token)}"]
    run = compare("--cells", "text-p1", *options, *BRIEF, "--start-timeout", 4)
    assert run.returncode == 1
    assert message in run.stderr
    assert "command: " in run.stderr


def test_a_peer_that_dies_under_load(token: str) -> None:
    command = shlex.join([sys.executable, "-m", "bench.peer_server", "--token", token, "--port"])
    path = shlex.quote(str(ROOT / "tests"))
    dying = f"PYTHONPATH={path} timeout -s KILL 4 {command} {{port}}"
    once = ["--rounds", 1, "--tail-rounds", 0, "--seconds", 6]  # the other server is measured nevertheless
    process = compare("--cells", "text-p1", "--subjects", "tandem", "--peer", f"x={dying}", *BRIEF, *once)
    assert process.returncode == 1
    assert "x ended " in process.stderr or "x: " in process.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(tmp_path: Path, token: str, how: signal.Signals) -> None:
    file = tmp_path / "results.json"
    options = ["--subjects", "tandem", *peer("x", token), *BRIEF, "--seconds", 600, "--json", file]
    command = compare_command("--cells", "text-p1", *options)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def children() -> list[int]:
        found = [process.pid]
        for pid in found:
            try:
                found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            except OSError:
                continue
        return found[1:]

    def names() -> list[str]:
        lines = []
        for pid in children():
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return lines

    # Both servers, each under its watcher, and the load generator.
    wait_until(lambda: any("--seconds 600" in line and "--preload" not in line and "bench load" in line
                           for line in names()), "the load does not run")  # fmt: skip
    before = children()
    assert len(before) >= 5
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-how if how == signal.SIGKILL else 128 + how)
    if how != signal.SIGKILL:
        assert "interrupted" in errors
        assert "interrupted: not all was measured" in json.loads(file.read_text())["notes"]

    def is_gone(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes() == b""
        except OSError:
            return True

    wait_until(lambda: all(is_gone(pid) for pid in before), "processes are left")


@pytest.mark.slow
def test_the_highest_rate_of_a_server_of_known_capacity(tmp_path: Path, token: str) -> None:
    """It does 200 gets a second. At a higher rate the wait grows by rate / 200 - 1 seconds in each: in a run of 1 s its
    ninth decile, less the burst that the server makes up for, comes to 0.9 s * (rate / 200 - 1) - 0.1 s, which is the
    limit of 0.1 s at a rate 22 % above the capacity. Below its capacity only the machine can fail it."""
    file = tmp_path / "results.json"
    capacity = 200
    options = peer("x", token, "--capacity", capacity)
    options += ["--get-ratio", 1, "--find-rate", "100ms", "--percentile", 90, "--tolerance", 0.15]
    run = compare(*options, "--subjects", "none", *BRIEF, "--seconds", 1, "--json", file)
    assert run.returncode == 0, run.stderr
    document = read(file)
    (search,) = document["searches"]
    assert search["end"] == "found"
    assert search["highest_rate"] <= capacity * 1.25
    assert search["lowest_failed"] <= search["highest_rate"] * 1.1501
    tried = [document["runs"][i] for i in search["tried"]]
    assert all(r["phase"] == "search" and r["subject"] == "x" for r in tried)
    passed = [r for r in tried if r["result"]["latency_us"]["p90"] <= 100_000]
    by_machine = [r for r in tried if r["settings"]["rate"] < capacity and r not in passed]
    assert search["highest_rate"] >= capacity / 1.3 or by_machine
    assert any(r["settings"]["rate"] == pytest.approx(search["highest_rate"], abs=1) for r in passed)
    assert "| text-get100 | " in run.stdout


def test_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    run = compare("--cells", "text-p16", "--subjects", "memcached,tandem", "--sweep", 3, *BRIEF, "--json", file)
    assert run.returncode == 0, run.stderr
    document = read(file)
    for subject in {r["subject"] for r in document["runs"]}:
        (closed,) = [r for r in document["runs"] if r["subject"] == subject and r["phase"] == "closed"]
        rates = [r["settings"]["rate"] for r in document["runs"] if r["subject"] == subject and r["phase"] == "sweep"]
        top = closed["result"]["ops_per_s"]
        assert rates == pytest.approx([top / 3, top * 2 / 3, top], abs=1)
    assert sum(line.startswith("| text-p16 | ") for line in run.stdout.splitlines()) >= 6


def test_large_values_are_stored_by_all(tmp_path: Path) -> None:
    """memcached refuses what is above its -I, 1 MiB by default."""
    memcached_binary()
    file = tmp_path / "results.json"
    cells = ["get-64k", "set-2m", "get-8m", "set-8m"]
    run = compare("--cells", ",".join(cells), "--subjects", "floor,memcached,tandem", "--rounds", 1, "--tail-rounds", 0,
                  *BRIEF, "--json", file)  # fmt: skip
    assert run.returncode == 0, run.stderr
    document = read(file)
    assert sorted({r["cell"] for r in document["runs"]}) == sorted(cells)
    assert len(document["runs"]) == 3 * len(cells)
    for r in document["runs"]:
        result = r["result"]
        assert result["ops"] > 0
        assert r["subject"] == "floor" or result["misses"] == 0


def test_quick_is_without_large_values() -> None:
    run = compare("--list", "--quick")
    assert run.returncode == 0
    names = [line.split()[0] for line in run.stdout.splitlines()]
    assert "text-p1" in names
    assert not [name for name in names if name.startswith(("get-", "set-"))]


def test_lists_make_all_combinations() -> None:
    run = compare("--list", "--connections", "1,8", "--pipeline", "1,4", "--value-size", "64,1024")
    assert run.returncode == 0
    names = [line.split()[0] for line in run.stdout.splitlines()]
    assert names == [f"text-c{c}-p{p}-v{v}" for v in (64, 1024) for c in (1, 8) for p in (1, 4)]


USAGE = {
    ("--peer", "x"): "a peer is NAME=COMMAND",
    ("--peer", "=./server {port}"): "a peer is NAME=COMMAND",
    ("--peer", "x=./server"): "must say {port}",
    ("--peer", "tandem=./server {port}"): "cannot be called tandem",
    ("--resp-peer", "x=./server"): "must say {port}",
    ("--peer", "x=a {port}", "--peer", "x=b {port}"): "two peers are called x",
    ("--subjects", "mongodb"): "there is no peer mongodb",
    ("--cells", "nothing"): "no cell matches nothing",
    ("--cells", "text-p1", "--connections", "2"): "either --cells or lists",
    ("--find-rate", "soon"): "expected a time such as 1ms",
    ("--find-rate", "0ms"): "expected a time such as 1ms",
    ("--find-rate", "1ms", "--trials", "2"): "--trials must be odd",
    ("--percentile", "42"): "--percentile",
    ("--protocol", "http"): "protocols are text",
    ("--workload", "nothing"): "nothing",
    ("--server-processors", "9-1"): "expected processors",
    ("--size", "16"): "--size",
    ("--no-such-option",): "--no-such-option",
}


@pytest.mark.parametrize(("options", "message"), USAGE.items(), ids=[" ".join(options) for options in USAGE])
def test_bad_usage(options: tuple[str, ...], message: str) -> None:
    run = compare(*options)
    assert run.returncode == EX_USAGE, run.stderr
    assert message in run.stderr
    assert run.stdout == ""


def test_what_is_asked_for_must_be_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run = compare("--subjects", "memcached,tandem", "--cells", "text-p1")
    assert run.returncode == EX_UNAVAILABLE
    assert "memcached is not installed" in run.stderr


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "results.json"
    run = compare("--cells", "text-p16", "--rounds", 1, "--tail-rounds", 0, *BRIEF, "--json", file)
    assert run.returncode == 0, run.stderr
    document = read(file)
    assert {r["subject"] for r in document["runs"]} == {"floor", "tandem"}
    assert "memcached is not installed and was not measured" in document["notes"]
    assert "neither redis nor valkey is installed: not measured" in document["notes"]


def test_documents_of_others_are_not_rendered(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"format": "tandem-bench/1", "runs": []}')
    run = compare("--render", other)
    assert run.returncode != 0
    assert "no run of `tandem bench compare`" in run.stderr
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    run = compare("--render", broken)
    assert run.returncode != 0
    assert run.stderr.startswith("tandem: bench compare: ")
