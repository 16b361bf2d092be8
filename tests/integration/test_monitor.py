"""The monitoring endpoint, `stats latency`, `hotkeys` and `bigkeys`, and `tandem top`."""

from __future__ import annotations

import base64
import json
import os
import pty
import select
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import start_memcached, tandem_binary
from harness.server import HOST, PATIENCE_S, TIME_FACTOR, Server, ServerError, free_port
from harness.wire import SENTINEL_KEY, Stream
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.beyond_memcached("memcached has no such statistics")
REQUESTS = 20_000

TASKS = ["RV", "PP", "MM", "Search", "Insert", "Delete", "KC", "RD", "WR", "SD"]


def stats(stream: Stream, group: str) -> dict[str, str]:
    lines = stream.exchange(f"stats {group}\r\n".encode()).data.decode().splitlines()
    assert lines[-1] == "END", lines
    return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT "))


def ask_often(stream: Stream, request: bytes, times: int) -> None:
    """Each in a packet of its own, so that many passes are there to be sampled."""
    for _ in range(times):
        stream.exchange(request)


def get(port: int, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    request = urllib.request.Request(f"http://{HOST}:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, dict(reply.headers), reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


@pytest.fixture
def monitored(tandem: Callable[..., Server]) -> tuple[Server, int]:
    port = free_port()
    server = tandem("-t", "2", "-o", f"metrics={HOST}:{port}")
    end = time.monotonic() + PATIENCE_S
    while get(port, "/metrics")[0] == 503:  # the port of clients is open a little sooner
        assert time.monotonic() < end
    return server, port


def test_latency(tandem: Callable[..., Server]) -> None:
    with Stream(tandem("-t", "1").connect()) as stream:
        commands = {
            "get": b"get a\r\n",
            "gets": b"gets a b\r\n",
            "gat": b"gat 0 a\r\n",
            "set": b"set a 0 0 1\r\n1\r\n",
            "incr": b"incr a 1\r\n",
            "delete": b"delete b\r\n",
            "touch": b"touch a 0\r\n",
            "mg": b"mg a v\r\n",
            "ms": b"ms c 1\r\n1\r\n",
            "md": b"md c\r\n",
            "ma": b"ma a\r\n",
        }
        times = 3000
        for request in commands.values():
            ask_often(stream, request, times)
        latency = stats(stream, "latency")
        for command in commands:
            # 3000 passes, one in 16 of them: 187 samples, a standard deviation of some 7 %.
            count = int(latency[f"command:{command}:count"])
            assert times / 2 < count and (count < times * 2 or command == "mg"), command  # mg: the stream's sentinel
            values = [
                float(latency[f"command:{command}:{q}_us"]) for q in ("p50", "p90", "p99", "p99.9", "p99.99", "max")
            ]
            assert values[0] > 0 and values == sorted(values), (command, values)
        for task in TASKS:
            # The lane has the time of MM in Insert's, and that of RD in WR's.
            assert float(latency[f"task:{task}:p50_ns"]) > 0 or task in ("MM", "RD"), task
        assert stream.exchange(b"stats reset\r\n").data == b"RESET\r\n"
        assert not any(name.startswith("command:g") for name in stats(stream, "latency"))


def test_no_slow_batch_is_missed(tandem: Callable[..., Server]) -> None:
    """What takes over a millisecond counts, whether its pass is sampled or not: of 40, all are there."""
    with Stream(tandem("-t", "1").connect()) as stream:
        slow = b"get " + b" ".join(b"%d" % i for i in range(100_000)) + b"\r\n"
        times = 40
        for _ in range(times):
            assert stream.exchange(slow).data == b"END\r\n"
        latency = stats(stream, "latency")
        assert int(latency["command:get:count"]) == times
        assert float(latency["command:get:p50_us"]) > 1000


def test_hot_keys(tandem: Callable[..., Server]) -> None:
    with Stream(tandem("-t", "1").connect()) as stream:
        for i in range(REQUESTS // 10):
            ask_often(stream, b"get hot one\r\nget hot hot\r\nget cold%d\r\n" % i, 1)
        hot = stats(stream, "hotkeys 3")
        assert hot["hotkeys:enabled"] == "yes"
        assert hot["hotkeys:1:key"] == "hot"
        assert "one" in (hot["hotkeys:2:key"], hot["hotkeys:3:key"])  # as often as the stream's sentinel
        assert "hotkeys:4:key" not in hot
        # 3 of 6 keys a packet; 125 packets are sampled, 4 or 6 keys of each.
        assert abs(float(hot["hotkeys:1:share"]) - 0.5) < 0.15
        assert 0 < float(hot["hotkeys:1:share_error"]) < 0.2
        for bad in (b"stats hotkeys x\r\n", b"stats hotkeys -1\r\n", b"stats bigkeys 1 2\r\n"):
            assert stream.exchange(bad).data == b"CLIENT_ERROR bad command line format\r\n"
        stream.exchange(b"stats reset\r\n")
        # The stream's own sentinel may have been sampled since.
        assert {value for name, value in stats(stream, "hotkeys").items() if name.endswith(":key")} <= {
            SENTINEL_KEY.decode()
        }


def test_hot_keys_turned_off(tandem: Callable[..., Server]) -> None:
    with Stream(tandem("-t", "1", "-o", "no_hot_keys").connect()) as stream:
        ask_often(stream, b"get hot\r\n", 500)
        assert stats(stream, "hotkeys") == {"hotkeys:enabled": "no"}


def test_big_keys(tandem: Callable[..., Server]) -> None:
    with Stream(tandem("-t", "1", "-m", "64").connect()) as stream:
        for i in range(300):
            stream.exchange(b"set key%d 0 0 %d\r\n%s\r\n" % (i, i, b"x" * i))
        for size in (5000, 100_000, 900_000):
            stream.exchange(b"set big%d 0 0 %d\r\n%s\r\n" % (size, size, b"x" * size))
        key = bytes(range(0x80, 0x90)) + b'<&"'
        stream.exchange(b"set %s 0 0 6000\r\n%s\r\n" % (key, b"x" * 6000))
        big = stats(stream, "bigkeys 6")
        assert big["bigkeys:exact"] == "yes"
        told = [(big[f"bigkeys:{i}:key"], int(big[f"bigkeys:{i}:value_bytes"])) for i in range(1, 7)]
        encoded = "".join(f"%{byte:02X}" for byte in key)
        assert told == [
            ("big900000", 900_000),
            ("big100000", 100_000),
            (encoded, 6000),
            ("big5000", 5000),
            ("key299", 299),
            ("key298", 298),
        ]
        # What is gone is not told; the walk's result may be given out for a moment longer.
        stream.exchange(b"delete big900000\r\n")
        deadline = time.monotonic() + PATIENCE_S
        while stats(stream, "bigkeys 1")["bigkeys:1:key"] != "big100000":
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_metrics(monitored: tuple[Server, int]) -> None:
    server, port = monitored
    with Stream(server.connect()) as stream:
        stream.exchange(b"set a 0 0 1\r\n1\r\n")
        ask_often(stream, b"get a\r\nget b\r\n", 1000)
        status, headers, text = get(port, "/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for family in families.values():
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family.name
        assert family.name.startswith(("tandem_", "process_"))
        names = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        assert len(names) == len(set(names)), f"{family.name} has a sample twice"
        if family.type == "counter":
            assert all(sample.name == f"{family.name}_total" for sample in family.samples)
    assert text.count("# TYPE") == len(families)
    gets = {s.labels["result"]: s.value for s in families["tandem_commands"].samples if s.labels["command"] == "get"}
    assert gets == {"hit": 1000, "miss": 2001}  # the sentinel of each exchange misses, too
    assert families["tandem_items"].samples[0].value == 1
    buckets: dict[str, list[float]] = {}
    for sample in families["tandem_command_duration_seconds"].samples:
        if sample.name.endswith("_bucket"):
            buckets.setdefault(sample.labels["command"], []).append(sample.value)
    assert 1000 < buckets["get"][-1] < 4000
    assert all(counts == sorted(counts) for counts in buckets.values())
    assert "tandem_xdp_frames" not in families and families["tandem_udp_datagrams"].samples[0].value == 0
    assert {s.labels["rank"] for s in families["tandem_hot_key_share"].samples} == {str(i) for i in range(1, 11)}


def test_status(monitored: tuple[Server, int]) -> None:
    server, port = monitored
    with Stream(server.connect()) as stream:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            ask_often(stream, b"get a\r\n", 200)
            code, headers, text = get(port, "/api/status")
            status = json.loads(text)
            hottest = [key["key"] for key in status["hot_keys"]["keys"][:1]]  # of a sample: another may come first
            if any(point["gets_per_s"] > 0 for point in status["points"]) and hottest == ["a"]:
                break
            assert time.monotonic() < deadline, status["hot_keys"]
    assert code == 200 and headers["Content-Type"] == "application/json"
    assert [task["name"] for task in status["tasks"]] == TASKS
    later = json.loads(get(port, f"/api/status?since={status['sequence']}")[2])
    assert len(later["points"]) == later["sequence"] - status["sequence"]
    assert get(port, "/api/status?since=x")[0] == 400


def test_seconds_that_the_process_was_stopped_have_no_points(monitored: tuple[Server, int]) -> None:
    server, port = monitored

    def points(count: int) -> list[dict]:
        deadline = time.monotonic() + PATIENCE_S
        while len(found := json.loads(get(port, "/api/status")[2])["points"]) < count:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        return found

    before = len(points(2))
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    server.process.send_signal(signal.SIGCONT)
    intervals = [point["interval_s"] for point in points(before + 4)]
    assert max(intervals) > 4, intervals
    # Points of the missed seconds would be there at once. One may follow another that was late.
    assert sum(interval < 0.1 for interval in intervals) <= 1, intervals


def test_answers_nobody_else(monitored: tuple[Server, int]) -> None:
    _, port = monitored
    for path in ("/", "/style.css", "/script.js", "/charts.js"):
        status, headers, _ = get(port, path)
        assert status == 200
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers
    assert get(port, "/etc/passwd")[0] == 404
    assert get(port, "/%2e%2e/%2e%2e/etc/passwd")[0] in (400, 404)
    # A foreign page with a name that was made to mean this machine.
    assert get(port, "/api/status", Host="evil.example")[0] == 421
    assert get(port, "/api/status", Host=f"localhost:{port}")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        with socket.create_connection((HOST, port), timeout=20) as connection:
            connection.sendall(f"{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
            assert connection.recv(100).startswith((b"HTTP/1.1 405", b"HTTP/1.1 501")), method


@pytest.mark.slow
def test_slow_and_large_requests_take_no_place(monitored: tuple[Server, int]) -> None:
    server, port = monitored
    held = [socket.create_connection((HOST, port), timeout=60) for _ in range(8)]
    for connection in held:
        connection.sendall(b"GET / HT")
    with socket.create_connection((HOST, port), timeout=60) as large:
        large.sendall(b"GET /" + b"x" * 7000)
        with pytest.raises((ConnectionError, AssertionError)):
            for _ in range(100):
                large.sendall(b"y" * 100_000)
            assert large.recv(20).startswith(b"HTTP/1.1 2")
    # Each byte now and then does not extend the time that a request has.
    deadline = time.monotonic() + PATIENCE_S
    for connection in held:
        connection.setblocking(False)
    while time.monotonic() < deadline:
        for connection in held:
            try:
                connection.send(b"x")
            except OSError:
                continue
        try:
            if get(port, "/metrics")[0] == 200:
                break
        except OSError:
            continue
    else:
        pytest.fail("clients that send slowly keep the endpoint from answering")
    for connection in held:
        connection.close()
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"mn\r\n").data == b"MN\r\n"


def test_bad_addresses_end_the_start(tandem: Callable[..., Server], monitored: tuple[Server, int]) -> None:
    _, port = monitored
    for address in (f"{HOST}:{port}", "no.such.host.invalid:1", f"{HOST}:x", f"{HOST}:70000"):
        with pytest.raises(ServerError, match=r"exited with (64|71)"):
            tandem("-o", f"metrics={address}")


def test_a_token_is_asked_for(tandem: Callable[..., Server], tmp_path: Path) -> None:
    """By every path but the probe's; Prometheus sends it as Bearer, a browser as the password of Basic. A new one is
    read upon HUP, and no list of processes shows it."""
    token, port = tmp_path / "token", free_port()
    token.write_text("a-secret-of-some-length\n")
    token.chmod(0o600)
    server = tandem("-o", f"metrics={HOST}:{port},metrics_token_file={token}")
    end = time.monotonic() + PATIENCE_S
    while get(port, "/healthz")[0] != 200:
        assert time.monotonic() < end
    paths = ("/", "/page.js", "/metrics", "/metrics/memcached", "/api/status", "/nowhere")

    def basic(text: str) -> str:
        return "Basic " + base64.b64encode(text.encode()).decode()

    for path in paths:
        for wrong in (None, "", "Bearer", "Bearer ", "Bearer a-secret-of-some-lengt", "Bearer a-secret-of-some-length2",
                      "a-secret-of-some-length", basic("a-secret-of-some-length"), basic("any:"), "Basic !!",
                      "Basic " + "QUFB" * 1800, "Digest a-secret-of-some-length"):  # fmt: skip
            status, headers, body = get(port, path, **({} if wrong is None else {"Authorization": wrong}))
            assert (status, body) == (401, "a token is needed\n"), (path, wrong)
            assert headers["WWW-Authenticate"].startswith("Bearer ")
        for right in ("Bearer a-secret-of-some-length", "bearer  a-secret-of-some-length",
                      basic("anyone:a-secret-of-some-length")):  # fmt: skip
            assert get(port, path, Authorization=right)[0] in (200, 404), (path, right)
    assert "tandem_items" in get(port, "/metrics", Authorization="Bearer a-secret-of-some-length")[2]
    command_line = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert b"a-secret-of-some-length" not in command_line

    def reload(text: str, wanted: str) -> None:
        token.write_text(text)
        server.process.send_signal(signal.SIGHUP)
        while wanted not in server.output():
            assert time.monotonic() < end
            time.sleep(0.01)

    end = time.monotonic() + PATIENCE_S
    reload("short\n", "the token stays as it was")
    assert get(port, "/metrics", Authorization="Bearer a-secret-of-some-length")[0] == 200
    reload("another-secret\n", f"reloaded the metrics token from {token}")
    assert get(port, "/metrics", Authorization="Bearer a-secret-of-some-length")[0] == 401
    assert get(port, "/metrics", Authorization="Bearer another-secret")[0] == 200


def test_a_token_file_that_cannot_be_used_ends_the_start(tandem: Callable[..., Server], tmp_path: Path) -> None:
    for text in (None, "", "short\n", "with a space\n", "x" * 2000, "gr\u00fc\u00dfe-gr\u00fc\u00dfe\n"):
        token = tmp_path / "token"
        if text is not None:
            token.write_text(text)
        with pytest.raises(ServerError, match="metrics token"):
            tandem("-o", f"metrics={HOST}:{free_port()},metrics_token_file={token}")


def run_top(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(tandem_binary()), "top", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60 * TIME_FACTOR)


def test_top_once(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "1")
    with Stream(server.connect()) as stream:
        ask_often(stream, b"get hot\r\nset a 0 0 1\r\nx\r\n", 1000)
        top = run_top("--once", "--interval", "0.2", "--connect", f"{HOST}:{server.port}")
    assert (top.returncode, top.stderr) == (0, "")
    for text in (
        "requests/s",
        "hit ratio",
        "latency (us)",
        "\nRV     receive ",
        "\nSD     send ",
        "hot key ",
        "  hot  ",
    ):
        assert text in top.stdout, top.stdout
    assert max(map(len, top.stdout.splitlines())) <= 80
    version = subprocess.run([str(tandem_binary()), "version"], capture_output=True, text=True, timeout=60).stdout
    assert top.stdout.startswith(f"Tandem {version.split()[1]} at {HOST}:{server.port} "), (top.stdout, version)


def test_top_shows_latencies_of_the_interval(tandem: Callable[..., Server]) -> None:
    """What was slow before the interval is not in its percentiles, nor is what nothing asked for."""
    server = tandem("-t", "1")
    with Stream(server.connect()) as stream:
        slow = b"get " + b" ".join(b"%d" % i for i in range(100_000)) + b"\r\n"
        for _ in range(20):
            stream.exchange(slow)
        ask_often(stream, b"touch a 0\r\n", 500)
        stopping = threading.Event()

        def ask() -> None:
            while not stopping.is_set():
                stream.exchange(b"get hot\r\n")

        client = threading.Thread(target=ask)
        client.start()
        top = run_top("--once", "--interval", "2", "--connect", f"{HOST}:{server.port}")
        stopping.set()
        client.join()
        since_start = stats(stream, "latency")
    assert float(since_start["command:get:max_us"]) > 1000
    rows = {line.split()[0]: line.split()[1:] for line in top.stdout.splitlines() if line.strip()}
    assert rows["touch"] == ["0", "-", "-", "-", "-", "-"], top.stdout
    assert 0 < float(rows["get"][1]) < 1000


def test_top_of_memcached() -> None:
    server = start_memcached()
    try:
        top = run_top("--once", "--interval", "0.2", "--connect", f"{HOST}:{server.port}")
    finally:
        server.discard()
    assert (top.returncode, top.stderr) == (0, "")
    assert top.stdout.startswith("memcached 1.6.18 at ") and "latency" not in top.stdout


def test_top_without_a_server() -> None:
    top = run_top("--once", "--connect", f"{HOST}:{free_port()}")
    assert top.returncode == 69 and "Connection refused" in top.stderr
    assert run_top("--connect", "x:y").returncode == 64
    assert run_top("--interval", "0").returncode == 64
    assert run_top().returncode != 0  # no terminal


def test_top_in_a_terminal(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "1")
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        program = str(tandem_binary())
        os.execv(program, [program, "top", "--interval", "0.1", "--connect", f"{HOST}:{server.port}"])
    seen = b""
    deadline = time.monotonic() + PATIENCE_S
    while b"hit ratio" not in seen or b"q: quit" not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536)
    os.write(terminal, b"q")
    while True:
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:  # the terminal is closed
            break
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
