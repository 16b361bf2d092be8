"""The load generator and the runner of the server benchmark, against real, bare and lying servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import REFERENCE_VERSION, memcached_binary
from harness.server import Server, free_port

from bench.lying_server import Lie, Store, serve_tcp, serve_udp

ROOT = Path(__file__).resolve().parent.parent.parent
BENCH_DIR = Path(os.environ.get("TANDEM_BENCH_DIR", ROOT / "build/bench"))
KEYS = 2000


def program(name: str) -> str:
    path = BENCH_DIR / name
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path} is missing: build it or set TANDEM_BENCH_DIR", pytrace=False)
    return str(path)


def load(port: int, *options: str, keys: int = KEYS) -> tuple[int, dict]:
    """Runs the load generator: its exit status and its report."""
    command = [program("load"), "--port", str(port), "--keys", str(keys), "--seconds", "0.2", "--warmup", "0", *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode != 2, run.stderr
    return run.returncode, json.loads(run.stdout) if run.stdout else {}


def stats_of(server: Server) -> dict[str, int]:
    with server.connect() as connection:
        connection.sendall(b"stats\r\n")
        reply = b""
        while not reply.endswith(b"END\r\n"):
            reply += connection.recv(65536)
    words = [line.split() for line in reply.decode().splitlines()]
    return {line[1]: int(line[2]) for line in words if len(line) == 3 and line[2].isdigit()}


@pytest.mark.parametrize("protocol", ["text", "meta"])
@pytest.mark.parametrize(
    "shape",
    [
        ["--pipeline", "1", "--distribution", "uniform"],
        ["--pipeline", "100", "--connections", "3"],
        ["--multiget", "20", "--pipeline", "2"],
        ["--connections", "200"],
        ["--udp", "--pipeline", "8", "--connections", "2"],
        ["--rate", "5000", "--pipeline", "2"],
        ["--udp", "--rate", "2000"],
    ],
    ids=" ".join,
)
def test_memcached_answers_everything_right(memcached: Callable[..., Server], protocol: str, shape: list[str]) -> None:
    server = memcached("-R", "1000")
    mix = ["--get-ratio", "0.8", "--protocol", protocol, "--require-hits", "--verify"]
    status, report = load(server.port, "--preload", *shape, *mix)
    assert report["error"] == ""
    assert status == 0
    assert report["wrong"] == report["misses"] == report["timeouts"] == 0
    assert report["gets"] > 0 and report["sets"] > 0
    # The server saw what the client says that it did.
    stats = stats_of(server)
    assert stats["cmd_get"] == stats["get_hits"] == report["gets"]
    preloaded = -(-KEYS // 128) * 128
    assert stats["cmd_set"] == preloaded + report["sets"]


@pytest.mark.parametrize("size", [("8", "8"), ("32", "512"), ("250", "1"), ("16", "20000")], ids="/".join)
def test_sizes(memcached: Callable[..., Server], size: tuple[str, str]) -> None:
    server = memcached()
    sizes = ["--key-size", size[0], "--value-size", size[1]]
    mix = ["--preload", "--require-hits", "--verify", "--pipeline", "10"]
    for shape in ([], ["--multiget", "7"], ["--protocol", "meta", "--multiget", "7"]):
        status, report = load(server.port, *sizes, *mix, *shape, keys=200)
        assert (status, report["error"], report["misses"]) == (0, "", 0)


def test_every_key_is_preloaded(memcached: Callable[..., Server]) -> None:
    server = memcached()
    assert load(server.port, "--preload", "--seconds", "0") == (0, {})
    options = ["--distribution", "sequential", "--get-ratio", "1", "--ops", str(KEYS), "--verify", "--require-hits"]
    status, report = load(server.port, *options, "--pipeline", "100")
    assert status == 0
    assert report["gets"] == KEYS
    assert stats_of(server)["curr_items"] == KEYS


@pytest.mark.parametrize("shape", [[], ["--multiget", "5"], ["--protocol", "meta"], ["--udp"]], ids=" ".join)
def test_misses_are_counted(memcached: Callable[..., Server], shape: list[str]) -> None:
    server = memcached()
    status, report = load(server.port, "--get-ratio", "1", *shape)
    assert status == 0
    assert report["misses"] == report["gets"] > 0
    status, report = load(server.port, "--get-ratio", "1", "--require-hits", *shape)
    assert status == 1


def swap_value_bytes(reply: bytes) -> bytes:
    """The right shape, one byte of the value not as it was set."""
    at = reply.index(b"\r\n") + 3
    return reply[:at] + bytes([reply[at] ^ 1]) + reply[at + 1 :] if len(reply) > 10 else reply


TCP_LIES: dict[str, Lie] = {
    "wrong value": swap_value_bytes,
    "wrong key": lambda reply: reply.replace(b"VALUE kkkkkkkk", b"VALUE kkkkkkkx"),
    "short value": lambda reply: reply.replace(b" 0 64\r\n", b" 0 63\r\n", 1)[:-6] + b"\r\nEND\r\n",
    "error": lambda reply: b"SERVER_ERROR out of memory writing get response\r\n",
    "one reply too many": lambda reply: reply + reply,
    "no END": lambda reply: reply[:-5],
    "closed": lambda reply: b"close",
    "silence": lambda reply: b"",
}


@pytest.mark.parametrize("lie", TCP_LIES.values(), ids=TCP_LIES.keys())
@pytest.mark.parametrize("shape", [[], ["--multiget", "4"]], ids=["get", "multiget"])
def test_lies_are_found(lie: Lie, shape: list[str]) -> None:
    with serve_tcp(Store(lie)) as port:
        options = ["--preload", "--verify", "--get-ratio", "0.9", "--timeout", "0.5", *shape]
        status, report = load(port, *options, keys=300)
    assert status == 1
    assert report["error"] != ""
    assert report["wrong"] + report["timeouts"] > 0


def test_a_lie_in_a_meta_reply_is_found() -> None:
    with serve_tcp(Store(swap_value_bytes)) as port:
        status, report = load(port, "--preload", "--verify", "--protocol", "meta", keys=300)
    assert status == 1
    assert report["wrong"] == 1


def test_a_wrong_byte_passes_without_verify_but_not_a_wrong_length() -> None:
    with serve_tcp(Store(swap_value_bytes)) as port:
        assert load(port, "--preload", keys=300)[0] == 0
    with serve_tcp(Store(TCP_LIES["short value"])) as port:
        assert load(port, "--preload", "--timeout", "0.5", keys=300)[0] == 1


@pytest.mark.parametrize("protocol", ["text", "meta"])
def test_a_small_honest_server_passes(protocol: str) -> None:
    """So it is the lies that are found, not the smallness of the server."""
    store = Store()
    with serve_tcp(store) as port, serve_udp(store) as udp_port:
        mix = ["--verify", "--require-hits", "--get-ratio", "0.9", "--protocol", protocol]
        for shape in ([], ["--multiget", "4"], ["--connections", "5", "--pipeline", "3"]):
            status, report = load(port, "--preload", *mix, *shape, keys=300)
            assert (status, report["error"]) == (0, "")
        status, report = load(udp_port, "--udp", *mix, keys=300)
        assert (status, report["error"]) == (0, "")


def test_udp_replies_in_several_datagrams() -> None:
    store = Store()
    mix = ["--udp", "--verify", "--require-hits", "--get-ratio", "1", "--value-size", "500", "--pipeline", "4"]
    with serve_tcp(store) as port:
        load(port, "--preload", "--value-size", "500", "--seconds", "0", keys=300)
    for backwards in (False, True):
        with serve_udp(store, payload_bytes=100, backwards=backwards) as port:
            status, report = load(port, *mix, keys=300)
        assert (status, report["error"]) == (0, "")
        assert report["gets"] > 0


def test_udp_lies_are_found() -> None:
    store = Store()
    with serve_tcp(store) as port:
        load(port, "--preload", "--seconds", "0", keys=300)
    mix = ["--udp", "--verify", "--get-ratio", "1", "--seconds", "0.4"]  # a request is lost after a second
    store.lie = swap_value_bytes
    with serve_udp(store) as port:
        status, report = load(port, *mix, keys=300)
        assert (status, report["gets"], report["timeouts"]) == (1, 0, 0)
        assert report["wrong"] > 0
    answers = iter(range(1 << 30))
    store.lie = lambda reply: reply if next(answers) % 10 else b""
    with serve_udp(store) as port:
        status, report = load(port, *mix, "--pipeline", "10", keys=300)
        assert (status, report["wrong"]) == (1, 0)
        assert 0 < report["timeouts"] <= report["gets"]
        assert report["latency_us"]["p99"] >= 1_000_000


def test_an_open_loop_counts_what_a_pause_costs_everybody(memcached: Callable[..., Server]) -> None:
    """A server that stands still for 0.4 of 2 s: a closed loop notices one slow request, an open loop every fifth.
    The limits leave 0.1 s for a signal that comes late on a busy machine."""
    server = memcached()
    load(server.port, "--preload", "--seconds", "0")

    def run(*options: str) -> dict:
        def pause() -> None:
            time.sleep(0.5)
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(0.4)
            server.process.send_signal(signal.SIGCONT)

        pausing = threading.Thread(target=pause)
        pausing.start()
        status, report = load(server.port, "--seconds", "2", *options)
        pausing.join()
        assert status == 0
        return report["latency_us"]

    open_loop = run("--rate", "1000")
    assert open_loop["count"] == 2000
    assert open_loop["max"] >= 300_000
    assert open_loop["p99"] >= 270_000  # 20 of 2000: due in the first 20 ms of the pause
    assert open_loop["p90"] >= 90_000  # 200 of 2000: due in the first 200 ms of it
    closed_loop = run()
    assert closed_loop["max"] >= 300_000
    assert closed_loop["p90"] < 90_000  # one request per connection waits, however long the pause


def test_rate_is_kept(memcached: Callable[..., Server]) -> None:
    server = memcached()
    _, report = load(server.port, "--preload", "--rate", "3000", "--pipeline", "3", "--connections", "4")
    assert report["latency_us"]["count"] == 3000 * 0.2
    assert report["send_lag_us"]["count"] == 1000 * 0.2


def test_cpu_time_is_the_servers() -> None:
    port = free_port()
    server = subprocess.Popen([program("floor_tcp"), "--port", str(port)])
    try:
        wait_for(port)
        options = ["--server-pid", str(server.pid), "--seconds", "0.6", "--pipeline", "8", "--key-size", "16"]
        _, report = load(port, *options)
    finally:
        server.terminate()
        _, _, usage = os.wait4(server.pid, 0)
        server.returncode = 0
    measured_s = report["server_cpu_us_per_op"] * report["ops"] * 1e-6
    # Outside the window: the program's start and the end of the last batch.
    assert measured_s <= usage.ru_utime + usage.ru_stime + 0.01
    assert measured_s >= 0.8 * (usage.ru_utime + usage.ru_stime) - 0.03
    assert 0 < report["server_sleeps_per_op"] <= 1.01


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    with socket.socket() as probe:
        while probe.connect_ex(("127.0.0.1", port)) != 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_the_floor_answers_requests_in_pieces() -> None:
    port = free_port()
    server = subprocess.Popen([program("floor_tcp"), "--port", str(port), "--key-size", "3", "--value-size", "5"])
    try:
        wait_for(port)
        request = b"get abc\r\nset abc 0 0 5\r\na\r\nbc\r\nget abc def\r\nmg abc v\r\nms abc 5\r\n\n\n\n\n\n\r\nmn\r\n"
        value = b"VALUE kkk 0 5\r\nvvvvv\r\n"
        reply = value + b"END\r\nSTORED\r\n" + value * 2 + b"END\r\nVA 5\r\nvvvvv\r\nHD\r\nMN\r\n"
        for cut in range(1, len(request)):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(request[:cut])
                time.sleep(0.001)
                connection.sendall(request[cut:])
                connection.shutdown(socket.SHUT_WR)
                assert connection.makefile("rb").read() == reply
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("wait", [[], ["--epoll"]], ids=["recvmmsg", "epoll"])
def test_the_udp_floor_answers_each_datagram(wait: list[str]) -> None:
    port = free_port()
    server = subprocess.Popen(
        [program("floor_udp"), "--port", str(port), "--key-size", "3", "--value-size", "5", *wait]
    )
    try:
        with socket.socket(type=socket.SOCK_DGRAM) as udp:
            udp.connect(("127.0.0.1", port))
            udp.settimeout(0.05)
            requests = {
                b"get abc\r\n": b"VALUE kkk 0 5\r\nvvvvv\r\nEND\r\n",
                b"set abc 0 0 5\r\nabcde\r\n": b"STORED\r\n",
            }
            deadline = time.monotonic() + 10
            for number in range(200):
                line = list(requests)[number % 2]
                frame = struct.pack(">HHHH", number * 257, 0, 1, 0)
                while True:  # until the server has started
                    try:
                        udp.send(frame + line)
                        answer = udp.recv(2048)
                        break
                    except (TimeoutError, ConnectionRefusedError):
                        assert number == 0 and time.monotonic() < deadline
                        time.sleep(0.01)
                assert answer == frame + requests[line]
    finally:
        server.kill()
        server.wait()


def test_the_runner_prints_a_table(tmp_path: Path) -> None:
    stand_in = ROOT / "tests/conformance/memcached_as_tandem.sh"
    results = tmp_path / "results.json"
    runner = [sys.executable, str(ROOT / "bench/server_bench.py")]
    command = [*runner, "--bench-dir", str(BENCH_DIR), "--tandem", str(stand_in), "--json", str(results)]
    command += ["--peer", str(memcached_binary())]
    command += ["--cells", "meta-mget50,udp-p1", "--keys", "1000", "--seconds", "0.2", "--warmup", "0"]
    run = subprocess.run([*command, "--rounds", "2", "--tail-rounds", "1"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    document = json.loads(results.read_text())
    assert [result["cell"] for result in document["results"]] == ["meta-mget50", "udp-p1"]
    for result in document["results"]:
        assert len(result["closed"]) == 2 and len(result["open"]) == 1
        for reports in result["closed"] + result["open"]:
            assert list(reports) == ["floor", f"memcached {REFERENCE_VERSION}", "tandem"]
            assert all(report["server_cpu_us_per_op"] > 0 and report["misses"] == 0 for report in reports.values())
    rows = [line for line in run.stdout.splitlines() if line.startswith("| udp-p1")]
    assert len(rows) == 2
    assert "<= 1.20" in rows[0]
    again = subprocess.run([*runner, "--render", str(results)], capture_output=True, text=True, check=True)
    assert again.stdout == run.stdout


def test_the_runner_fails_on_a_server_that_does_not_start() -> None:
    runner = [sys.executable, str(ROOT / "bench/server_bench.py"), "--bench-dir", str(BENCH_DIR), "--quick"]
    run = subprocess.run([*runner, "--tandem", "/bin/false"], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "tandem ended at once" in run.stderr
