"""`tandem bench load` against servers that lie, stall, lose or close: it says so, loudly, and exits with 1."""

from __future__ import annotations

import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from conftest import tandem_binary
from harness.server import Server

from bench.load_runs import all_errors, load, stats_of
from bench.lying_server import Lie, Store, serve_tcp, serve_udp, serve_with_a_pause

PROTOCOLS = ["text", "meta", "binary"]


def swap_value_byte(reply: bytes) -> bytes:
    """The right shape, the value's last byte not as it was set."""
    if len(reply) < 64:
        return reply
    at = (
        reply.rindex(b"\r\n", 0, len(reply) - 2) - 1 if reply.endswith(b"\r\n") and reply[0] != 0x81 else len(reply) - 1
    )
    if reply.startswith(b"VALUE"):
        at = reply.rindex(b"\r\nEND\r\n") - 1
    elif reply.startswith(b"VA "):
        at = len(reply) - 3
    return reply[:at] + bytes([reply[at] ^ 1]) + reply[at + 1 :]


def swapped_keys(reply: bytes) -> bytes:
    """Of several values: each under another's key."""
    parts = reply.split(b"VALUE ")
    if len(parts) < 3:
        return reply
    names = [part.split(b" ", 1)[0] for part in parts[1:]]
    rest = [part.split(b" ", 1)[1] for part in parts[1:]]
    names = names[1:] + names[:1]
    return b"".join(b"VALUE " + name + b" " + tail for name, tail in zip(names, rest, strict=True))


TEXT_LIES: dict[str, Lie] = {
    "wrong value": swap_value_byte,
    "wrong key": lambda reply: reply.replace(b"VALUE kkkkkkkk", b"VALUE kkkkkkkx").replace(b"VALUE 0", b"VALUE x"),
    "short value": lambda reply: reply.replace(b" 0 64\r\n", b" 0 63\r\n", 1)[:-6] + b"\r\nEND\r\n",
    "other flags": lambda reply: reply.replace(b" 0 64\r\n", b" 5 64\r\n", 1),
    "error": lambda reply: b"SERVER_ERROR out of memory writing get response\r\n",
    "garbage": lambda reply: bytes(range(255, 100, -1)) * 3,
    "one reply too many": lambda reply: reply + reply,
    "no END": lambda reply: reply[:-5],
    "half a reply": lambda reply: reply[: len(reply) // 2],
    "closed": lambda reply: b"close",
    "silence": lambda reply: b"",
}
META_LIES: dict[str, Lie] = {
    "wrong value": swap_value_byte,
    "wrong length": lambda reply: reply.replace(b"VA 64", b"VA 65", 1),
    "wrong word": lambda reply: b"HD\r\n",
    "half a reply": lambda reply: reply[: len(reply) // 2],
    "closed": lambda reply: b"close",
    "silence": lambda reply: b"",
}


def with_byte(at: int, change: int) -> Lie:
    return lambda reply: reply[:at] + bytes([reply[at] ^ change]) + reply[at + 1 :] if reply else reply


BINARY_LIES: dict[str, Lie] = {
    "wrong value": swap_value_byte,
    "magic": with_byte(0, 1),
    "opcode": with_byte(1, 1),
    "status": with_byte(7, 5),
    "length": with_byte(11, 2),
    "opaque": with_byte(15, 128),
    "flags": with_byte(27, 1),
    "half a reply": lambda reply: reply[: len(reply) // 2],
    "closed": lambda reply: b"close",
    "silence": lambda reply: b"",
}
LIES = [("text", name, lie) for name, lie in TEXT_LIES.items()]
LIES += [("meta", name, lie) for name, lie in META_LIES.items()]
LIES += [("binary", name, lie) for name, lie in BINARY_LIES.items()]


PATIENCE_S = "20"  # of clients with servers that answer: on a busy machine they may be late by half a second


def lying(protocol: str, lie: Lie, *options: str, timeout_s: str = PATIENCE_S) -> tuple[int, dict]:
    """A store that is filled honestly and then lies."""
    store = Store()
    with serve_tcp(store) as port:
        assert load(port, "--preload", "--seconds", "0", "--protocol", protocol, keys=300)[0] == 0
        store.lie = lie
        return load(port, "--protocol", protocol, "--get-ratio", "0.9", "--timeout", timeout_s, *options, keys=300)


@pytest.mark.parametrize("shape", [[], ["--multiget", "4"]], ids=["get", "multiget"])
@pytest.mark.parametrize(("protocol", "name", "lie"), LIES, ids=[f"{p} {n}" for p, n, _ in LIES])
def test_lies_are_found(protocol: str, name: str, lie: Lie, shape: list[str]) -> None:
    # Of other lies some leave the client waiting for the rest of a reply.
    timeout_s = PATIENCE_S if name == "wrong value" else "0.5"
    status, result = lying(protocol, lie, *shape, "--require-hits", timeout_s=timeout_s)
    assert status == 1
    assert all_errors(result) > 0
    assert result["errors"]["first"] != ""
    assert result["errors"]["first"] in result["stderr"]
    if name == "wrong value":
        assert result["errors"]["wrong_values"] > 0
        assert "got " in result["errors"]["first"]


def test_swapped_keys_are_found() -> None:
    status, result = lying("text", swapped_keys, "--multiget", "5")
    assert status == 1
    assert result["errors"]["wrong_replies"] + result["errors"]["wrong_values"] > 0


def test_a_wrong_value_is_counted_and_the_run_goes_on() -> None:
    answers = iter(range(1 << 30))
    status, result = lying(
        "text", lambda reply: reply if next(answers) % 10 else swap_value_byte(reply), "--ops", "500"
    )
    assert status == 1
    assert result["ops"] == 500
    assert result["errors"]["wrong_values"] == pytest.approx(result["gets"] / 10, abs=1)


def test_a_wrong_byte_passes_without_verify_but_not_a_wrong_length() -> None:
    assert lying("text", swap_value_byte, "--no-verify")[0] == 0
    assert lying("text", TEXT_LIES["short value"], "--no-verify")[0] == 1
    assert lying("text", TEXT_LIES["no END"], "--no-verify", timeout_s="0.5")[0] == 1


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_udp_replies_in_several_datagrams(protocol: str, backwards: bool) -> None:
    store = Store()
    values = ["--value-size", "500", "--protocol", protocol]
    with serve_tcp(store) as port:
        load(port, "--preload", "--seconds", "0", *values, keys=300)
    with serve_udp(store, payload_bytes=100, backwards=backwards) as port:
        for shape in ([], ["--multiget", "3"]):
            options = ["--udp", "--require-hits", "--get-ratio", "1", "--pipeline", "4", "--ops", "200"]
            status, result = load(port, *options, *shape, *values, "--timeout", "10", keys=300)
            assert (status, result["stderr"]) == (0, "")
            assert result["hits"] == 200


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_udp_lies_and_losses_are_found(protocol: str) -> None:
    store = Store()
    with serve_tcp(store) as port:
        load(port, "--preload", "--seconds", "0", "--protocol", protocol, keys=300)
    mix = ["--udp", "--get-ratio", "1", "--protocol", protocol]
    store.lie = swap_value_byte
    with serve_udp(store) as port:
        status, result = load(port, *mix, "--timeout", PATIENCE_S, "--ops", "50", keys=300)
        assert (status, result["errors"]["timeouts"]) == (1, 0)
        assert result["errors"]["wrong_values"] == 50
        store.lie = lambda reply: b"x" + reply
        status, result = load(port, *mix, "--timeout", PATIENCE_S, "--ops", "50", keys=300)
        assert (status, result["errors"]["wrong_replies"]) == (1, 50)
    # A lost request is a timeout, and the run goes on: every tenth of 200, and those that a busy machine answers late.
    answers = iter(range(1 << 30))
    store.lie = lambda reply: reply if next(answers) % 10 else b""
    with serve_udp(store) as port:
        status, result = load(port, *mix, "--timeout", "0.4", "--pipeline", "20", "--ops", "200", keys=300)
        assert (status, result["errors"]["wrong_replies"]) == (1, 0)
        timeouts = result["errors"]["timeouts"]
        assert timeouts >= 20 and result["ops"] == 200 - timeouts
        assert result["latency_us"]["count"] == 200
        assert result["latency_us"]["p99"] >= 400_000


def test_udp_nobody_listens() -> None:
    store = Store()
    with serve_udp(store) as port:
        pass
    status, result = load(port, "--udp", "--timeout", "0.3", "--ops", "5")
    assert status == 1
    assert result["errors"]["connection"] + result["errors"]["timeouts"] > 0


PAUSE_S = 0.1
RATE = 2000


@pytest.mark.parametrize("arrivals", ["uniform", "poisson"])
def test_an_open_loop_shows_a_pause_of_100_ms(arrivals: str) -> None:
    """2,000 requests a second for 2 s, and a server that stands still once for 100 ms. 200 of 4,000 requests are due
    in the pause, the first waits for all of it, the last not at all: 5 % are late, 2.5 % by 50 ms or more, 0.1 % (4)
    by 98 ms or more. Lower bounds only: on a busy machine more are late, never fewer."""
    options = ["--get-ratio", "1", "--rate", str(RATE), "--seconds", "2", "--arrivals", arrivals, "--seed", "3"]
    with serve_with_a_pause(RATE, PAUSE_S, b"END\r\n") as port:
        status, result = load(port, *options)
    assert (status, result["stderr"]) == (0, "")
    latency = result["latency_us"]
    late = {
        limit_ms: sum(
            count
            for upper, count in zip(result["histogram"]["upper"], result["histogram"]["counts"], strict=True)
            if upper >= limit_ms * 1000
        )
        for limit_ms in (10, 50, 90)
    }
    if arrivals == "uniform":
        assert latency["count"] == 2 * RATE
        # Requests due while the server stood still, less what the client sent late into it.
        assert late[10] >= 0.9 * RATE * (PAUSE_S - 0.010)
        assert late[50] >= 0.9 * RATE * (PAUSE_S - 0.050)
        assert latency["p99.9"] >= 95_000
    else:
        # A Poisson process's count in a time of mean m deviates by sqrt(m): five of them below.
        assert abs(latency["count"] - 2 * RATE) < 5 * (2 * RATE) ** 0.5
        mean = RATE * (PAUSE_S - 0.050)
        assert late[50] >= mean - 5 * mean**0.5
    assert latency["max"] >= 98_000


def test_a_closed_loop_hides_the_pause() -> None:
    """The same server: one request waits, however long the pause."""
    with serve_with_a_pause(500, PAUSE_S, b"END\r\n") as port:
        status, result = load(port, "--get-ratio", "1", "--ops", "5000")
    assert status == 0
    assert result["latency_us"]["max"] >= 95_000
    assert result["latency_us"]["p99"] < 95_000


def test_the_timeline_shows_the_pause(memcached: Callable[..., Server]) -> None:
    """A real server, stopped for 0.4 of 2 s: three whole tenths of a second answer nothing."""
    server = memcached()

    def pause() -> None:
        while stats_of(server)["cmd_get"] < 100:  # the load has begun
            time.sleep(0.02)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        server.process.send_signal(signal.SIGCONT)

    pausing = threading.Thread(target=pause)
    pausing.start()
    status, result = load(server.port, "--seconds", "2", "--rate", "1000")
    pausing.join()
    assert status == 0
    assert result["latency_us"]["count"] == 2000
    assert result["latency_us"]["max"] >= 300_000
    assert sum(point["ops_per_s"] == 0 for point in result["timeline"]) >= 3


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("transport", [[], ["--udp"]], ids=["tcp", "udp"])
def test_the_rate_is_kept_by_count(memcached: Callable[..., Server], threads: str, transport: list[str]) -> None:
    server = memcached()
    options = ["--preload", "--rate", "3000", "--threads", threads, "--connections", "6", "--timeout", "5"]
    for pipeline in ("1", "5"):
        _, result = load(server.port, *options, *transport, "--pipeline", pipeline, "--seconds", "0.5")
        lost = result["errors"]["timeouts"] if transport else 0  # UDP may lose a datagram on a busy machine
        assert all_errors(result) == lost
        assert result["latency_us"]["count"] == 1500
        assert result["send_lag_us"]["count"] == 1500 / int(pipeline)


def test_a_server_slower_than_the_rate_fails_the_run() -> None:
    with serve_tcp(Store()) as port:
        options = ["--get-ratio", "1", "--rate", "5000000", "--seconds", "0.2", "--timeout", "0.3"]
        status, result = load(port, *options)
    assert status == 1
    assert result["errors"]["timeouts"] > 0


def test_a_datagram_without_a_frame_is_wrong() -> None:
    import socket

    udp = socket.socket(type=socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(10)

    def run() -> None:
        datagram, peer = udp.recvfrom(65536)
        udp.sendto(b"short", peer)
        (request_id,) = struct.unpack(">H", datagram[:2])
        udp.sendto(struct.pack(">HHHH", request_id, 5, 2, 0) + b"END\r\n", peer)

    thread = threading.Thread(target=run)
    thread.start()
    status, result = load(udp.getsockname()[1], "--udp", "--ops", "1", "--get-ratio", "1")
    thread.join()
    udp.close()
    assert status == 1
    assert result["errors"]["wrong_replies"] == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shape", [[], ["--multiget", "3"]], ids=["get", "multiget"])
def test_values_of_another_size_are_explained(protocol: str, shape: list[str]) -> None:
    """Keys that a run with other sizes has set: the message says both sizes, and what to do."""
    options = ["--protocol", protocol, "--distribution", "sequential", *shape]
    with serve_tcp(Store()) as port:
        assert load(port, "--preload", "--seconds", "0", "--value-size", "100", *options, keys=300)[0] == 0
        status, result = load(port, "--get-ratio", "1", *options, keys=300)
        assert status == 1
        assert result["errors"]["first"].startswith("a value of 100 bytes, where this run's has 64; asked ")
        assert "--preload sets them" in result["stderr"] and "--value-size 100" in result["stderr"]
        # With --preload, or the size that is there, it is right.
        assert load(port, "--get-ratio", "1", "--value-size", "100", *options, keys=300)[0] == 0
        status, result = load(port, "--preload", "--get-ratio", "1", *options, keys=300)
        assert (status, result["stderr"]) == (0, "")


def test_keys_that_nothing_set_are_explained() -> None:
    with serve_tcp(Store()) as port:
        status, result = load(port, "--get-ratio", "1", "--require-hits", keys=300)
        assert status == 1 and "the keys were not set before: --preload sets them" in result["stderr"]
        command = [str(tandem_binary()), "bench", "load", "--connect", f"127.0.0.1:{port}", "--seconds", "0.2"]
        command += ["--keys", "300", "--get-ratio", "1"]
        run = subprocess.run([*command], capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0
        assert "only 0.0 % of the keys were found; --preload sets all of them first" in run.stderr
        run = subprocess.run([*command, "--preload"], capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0 and "--preload" not in run.stderr
