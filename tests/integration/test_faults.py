"""Memory that cannot be had, interrupted system calls: the server lives, clients are served, no stored value is lost.

TANDEM_FAULTS (default 1) multiplies how many faults there are: `make soak-faults` has 20 times as many.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import start_tandem, tandem_binary
from harness.faults import FAIL_FROM, FAILED, IO, IO_FAULTS, IO_FAULTS_OF, NEVER, Faults, wait_started
from harness.server import HOST, PATIENCE_S, TIME_FACTOR, Server, free_port
from harness.wire import Stream, WireTimeout

MULTIPLE = int(os.environ.get("TANDEM_FAULTS", "1"))
SANITIZED = TIME_FACTOR > 1  # a sanitizer has an allocator of its own, which nothing can be put before
EX_OSERR = 71

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer's allocator cannot be replaced")

KEPT = {b"kept%d" % i: b"value %d " % i * (1 + 37 * i) for i in range(60)}
MANY = b"".join(b" kept%d" % (i % 60) for i in range(400))
SCRIPT = [
    b"set a 0 0 3\r\nabc\r\n",
    b"set big 0 0 300000\r\n" + b"b" * 300000 + b"\r\n",
    b"get big\r\n" * 8,
    b"get" + MANY + b"\r\n",
    b"gets a big none\r\n",
    b"append a 0 0 2\r\nxy\r\n",
    b"incr n 1\r\nset n 5 0 1\r\n1\r\nincr n 10\r\n",
    b"mg a s v t f c\r\nms m 3 T60\r\nabc\r\nmd m\r\nma n\r\nmn\r\nme a\r\n",
    b"stats\r\nstats items\r\nstats slabs\r\nstats sizes\r\nstats conns\r\nstats settings\r\n",
    b"stats latency\r\nstats hotkeys\r\nstats detail on\r\nstats detail dump\r\nstats detail off\r\n",
    b"lru_crawler metadump all\r\n",
    b"get " + b"k" * 240 + (b" " + b"q" * 240) * 600 + b"\r\n",
    b"set half 0 0 100\r\nabc",
    b"watch evictions\r\n",
    b"quit\r\n",
]


def store_kept(server: Server) -> None:
    with Stream(server.connect()) as stream:
        for key, value in KEPT.items():
            assert stream.exchange(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value)).data == b"STORED\r\n"


def check_kept(stream: Stream) -> None:
    """What was acknowledged before is there, on a connection that was there before."""
    request = b"get " + b" ".join(KEPT) + b"\r\n"
    reply = stream.exchange(request)
    want = b"".join(b"VALUE %s 0 %d\r\n%s\r\n" % (k, len(v), v) for k, v in KEPT.items())
    assert not reply.closed and reply.data == want + b"END\r\n"


def run_script(server: Server, request: bytes) -> None:
    """Any answer will do, or an end of the connection; no answer within the time does not."""
    try:
        connection = server.connect()
    except OSError:
        return
    with Stream(connection) as stream:
        stream.finish(request, 30) if not request.startswith(b"watch") else stream.send(request)


@pytest.mark.parametrize("count", [1, 5])
def test_each_allocation_of_a_serving_worker_may_fail(
    count: int, tandem: Callable[..., Server], tmp_path: Path
) -> None:
    faults = Faults(tmp_path)
    with faults.preloaded():
        server = tandem("-t", "1", "-o", "no_lru_crawler")
    store_kept(server)
    wait_started(server.pid)
    injected = 0
    with Stream(server.connect()) as quiet:
        check_kept(quiet)
        for request in SCRIPT:
            n = 0
            while n < 400:
                faults.fail(n, count)
                run_script(server, request)
                failed = faults.get(FAILED)
                faults.set(FAIL_FROM, NEVER)
                server.check_alive()
                check_kept(quiet)
                if failed == 0:
                    break
                injected += failed
                n += 1 if n < 40 * MULTIPLE else 17
    print(f"{injected} allocations failed, {count} at a time")
    assert injected >= 100


def test_each_allocation_of_the_start_may_fail(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    ended = served = n = 0
    port = free_port()
    command = [str(tandem_binary()), "serve", "--port", str(port), "--memory", "64MiB", "--threads", "2"]
    while True:
        faults.fail(n)
        process = subprocess.Popen(
            command, env={**os.environ, **faults.environment()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        said = process.stderr.readline()
        if b"serving on" in said:
            process.terminate()
            served += 1
        rest = process.communicate(timeout=30 * TIME_FACTOR)[1]
        failed = faults.get(FAILED)
        text = (said + rest).decode(errors="replace")
        if b"serving on" in said:
            assert process.returncode == 0, (n, process.returncode, text)
        else:
            ended += 1
            assert process.returncode > 0, (n, process.returncode, text)
            assert "memory" in text, (n, process.returncode, text)
        if failed == 0:
            break
        n += 1 if n < 60 * MULTIPLE else 29
    print(f"{served} starts served, {ended} said why not")
    assert served > 10


def test_without_any_memory_it_ends_with_a_message_or_serves_when_there_is_some(tmp_path: Path) -> None:
    """Where a worker is at the time decides: it drops connections, or cannot go on."""
    faults = Faults(tmp_path)
    with faults.preloaded():
        server = start_tandem("-t", "1")
    try:
        store_kept(server)
        wait_started(server.pid)
        faults.fail(0, 1 << 40)
        for _ in range(10):
            for request in SCRIPT:
                if server.is_alive():
                    run_script(server, request)
        assert faults.get(FAILED) > 0
        faults.set(FAIL_FROM, NEVER)
        served = False
        deadline = time.monotonic() + PATIENCE_S
        while server.is_alive() and not served:
            assert time.monotonic() < deadline, server.describe("it neither ends nor serves")
            with contextlib.suppress(OSError, WireTimeout), Stream(server.connect()) as stream:
                if (reply := stream.exchange(b"mn\r\n", 5)).closed:  # by one that is ending
                    continue
                assert reply.data == b"MN\r\n"
                check_kept(stream)
                served = True
        if not served:
            assert server.process.returncode == EX_OSERR, server.describe("it did not end as it should")
            assert "out of memory" in server.output()
    finally:
        server.kill()
        server.log.close()


@pytest.mark.parametrize("percent", [5, 50])
def test_interrupted_and_short_input_and_output(percent: int, tandem: Callable[..., Server], tmp_path: Path) -> None:
    faults = Faults(tmp_path, seed=percent)
    with faults.preloaded():
        server = tandem("-t", "2", "-I", "4m", "-U", str(udp_port := free_port()))
    store_kept(server)
    large = bytes(range(256)) * 12000
    faults.set(IO, percent)
    for turn in range(20 * MULTIPLE):
        with Stream(server.connect()) as stream:
            for _ in range(20):
                check_kept(stream)
            key = b"turn%d" % turn
            if turn % 5 == 0:
                assert stream.exchange(b"set large 0 0 %d\r\n%s\r\n" % (len(large), large)).data == b"STORED\r\n"
                want = b"VALUE large 0 %d\r\n%s\r\nEND\r\n" % (len(large), large)
                assert stream.exchange(b"get large\r\nget large\r\n", 60).data == 2 * want
            assert stream.exchange(b"set %s 0 0 1\r\n0\r\n" % key).data == b"STORED\r\n"
            assert stream.exchange(b"incr %s 1\r\n" % key * 100).data == b"".join(b"%d\r\n" % i for i in range(1, 101))
        with socket.socket(type=socket.SOCK_DGRAM) as udp:
            udp.settimeout(20)
            udp.connect((HOST, udp_port))
            for number in range(40):
                frame = number.to_bytes(2) + b"\0\0\0\1\0\0"
                udp.send(frame + b"get kept0\r\nget kept0\r\n")
                want = frame + b"VALUE kept0 0 %d\r\n%s\r\nEND\r\n" % (len(KEPT[b"kept0"]), KEPT[b"kept0"])
                assert [udp.recv(2000), udp.recv(2000)] == [want, want]
    faults.set(IO, 0)
    injected = faults.get(IO_FAULTS)
    by_call = {call: faults.get(word) for call, word in IO_FAULTS_OF.items()}
    print(f"{injected} calls were interrupted or short: {by_call}")
    assert injected > 100 * percent // 5
    if percent < 50:
        del by_call["accept"]  # of some twenty
    assert min(by_call.values()) > 0
