"""A server beside an accelerator (here a simulated one): `stats gpu`, its metrics, its options, and giving it up."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import HOST, PATIENCE_S, Server, free_port
from harness.wire import Stream
from prometheus_client.parser import text_string_to_metric_families

from integration.conftest import stats

pytestmark = pytest.mark.beyond_memcached("memcached uses no GPU")
ON_DEVICE = "gpu=sim,preset=2"


def wait_for(server: Server, name: str, wanted: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while (told := stats(server, b"gpu")).get(f"gpu:{name}") != wanted:
        assert time.monotonic() < end, told
        time.sleep(0.01)


def test_without(tandem: Callable[..., Server]) -> None:
    assert stats(tandem("-o", "gpu=off"), b"gpu") == {
        "gpu:present": "no",
        "gpu:preset": "auto",
        "gpu:index_kind": "cuckoo",
    }


def test_with(tandem: Callable[..., Server]) -> None:
    port = free_port()
    server = tandem("-t", "2", "-o", f"{ON_DEVICE},metrics={HOST}:{port}")
    with Stream(server.connect()) as stream:
        wait_for(server, "serves", "yes")
        request, expected = b"", b""
        for i in range(2000):
            request += b"set k%d 0 0 4\r\n%04d\r\nget k%d none\r\n" % (i, i, i)
            expected += b"STORED\r\nVALUE k%d 0 4\r\n%04d\r\nEND\r\n" % (i, i)
        assert stream.exchange(request).data == expected
        told = stats(server, b"gpu")
        assert (told["gpu:backend"], told["gpu:preset"], told["gpu:replica_state"]) == ("sim", "mirrored", "current")
        assert int(told["gpu:queries"]) > 2000
        assert int(told["gpu:batches"]) >= int(told["gpu:launches"]) > 0
        assert told["gpu:failed_batches"] == "0"
        assert "gpu:queries_min" not in told, "every batch goes there"
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=20) as reply:
            families = {f.name: f for f in text_string_to_metric_families(reply.read().decode())}
        assert families["tandem_gpu_queries"].samples[0].value >= int(told["gpu:queries"])
        assert families["tandem_gpu_serves"].samples[0].value == 1


def test_plain_reads_are_parsed_there(tandem: Callable[..., Server]) -> None:
    """Without copies of items the GPU finds the keys of pipelined reads, in the input and in the index."""
    server = tandem("-t", "1", "-o", ON_DEVICE)
    with Stream(server.connect()) as stream:
        wait_for(server, "serves", "yes")
        keys = range(500)
        stream.exchange(b"".join(b"set k%d 0 0 4\r\n%04d\r\n" % (i, i) for i in keys))
        request = b"".join(b"get k%d\r\n" % i for i in keys) + b"delete k0\r\nget k0\r\ngets k1 k2\r\n"
        hits = b"".join(b"VALUE k%d 0 4\r\n%04d\r\nEND\r\n" % (i, i) for i in keys)
        deadline = time.monotonic() + PATIENCE_S
        located = 0
        while located < 2000:  # a busy host may go without the GPU
            assert time.monotonic() < deadline, located
            answer = stream.exchange(request).data
            assert answer.startswith(hits + b"DELETED\r\nEND\r\nVALUE k1 0 4 ")
            assert stream.exchange(b"set k0 0 0 4\r\n0000\r\n").data == b"STORED\r\n"
            told = stats(server, b"gpu")
            located = int(told["gpu:PP:device_queries"])
        assert int(told["gpu:Search:device_queries"]) >= located
        assert told["gpu:KC:device_queries"] == told["gpu:WR:device_queries"] == "0"
        assert int(told["gpu:lines_left_other"]) > 0


def test_several_share_the_index(tandem: Callable[..., Server]) -> None:
    port = free_port()
    server = tandem("-t", "2", "-o", f"{ON_DEVICE},gpus=2,metrics={HOST}:{port}")
    with Stream(server.connect()) as stream:
        wait_for(server, "serves", "yes")
        keys = range(2000)
        stream.exchange(b"".join(b"set k%d 0 0 4\r\n%04d\r\n" % (i, i) for i in keys))
        found = stream.exchange(b"get " + b" ".join(b"k%d" % i for i in keys) + b"\r\n").data
        assert found == b"".join(b"VALUE k%d 0 4\r\n%04d\r\n" % (i, i) for i in keys) + b"END\r\n"
        told = stats(server, b"gpu")
        assert told["gpu:count"] == "2"
        queries = [int(told[f"gpu:{i}:queries"]) for i in range(2)]
        assert min(queries) > 500
        assert sum(queries) == int(told["gpu:queries"])
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=20) as reply:
            families = {f.name: f for f in text_string_to_metric_families(reply.read().decode())}
        samples = families["tandem_gpu_queries"].samples
        assert {s.labels["gpu"] for s in samples} == {"0", "1"}


def test_three_are_refused() -> None:
    run = subprocess.run([tandem_binary(), "serve", "--gpu", "sim", "--gpus", "3"], capture_output=True, timeout=20)
    assert run.returncode == 64
    assert b"--gpus: 3 is none of 0, 1, 2, 4, 8" in run.stderr


def test_with_copies_of_items(tandem: Callable[..., Server]) -> None:
    port = free_port()
    server = tandem("-o", f"{ON_DEVICE},gpu_values=8MiB,gpu_value_max=64,metrics={HOST}:{port}")
    with Stream(server.connect()) as stream:
        wait_for(server, "serves", "yes")
        large = b"x" * 60
        assert stream.exchange(b"set a 5 0 4\r\n1234\r\nset b 0 0 60\r\n" + large + b"\r\n").data == b"STORED\r\n" * 2
        hit = b"VALUE a 5 4\r\n1234\r\nEND\r\nVALUE b 0 60\r\n" + large + b"\r\nEND\r\n"
        turns = hits = 0
        deadline = time.monotonic() + PATIENCE_S
        while turns < 10 or hits < 5:  # a busy host may go without the GPU
            assert time.monotonic() < deadline, hits
            assert stream.exchange(b"get a\r\nget b\r\n").data == hit
            turns += 1
            told = stats(server, b"gpu")
            hits = int(told["gpu:values_hits"])
        assert told["gpu:values"] == "on"
        assert hits <= turns  # b is too large
        assert stream.exchange(b"incr a 1\r\nget a\r\n").data == b"1235\r\nVALUE a 5 4\r\n1235\r\nEND\r\n"
        assert (
            stream.exchange(b"get a\r\ndelete a\r\nget a\r\n").data
            == b"VALUE a 5 4\r\n1235\r\nEND\r\nDELETED\r\nEND\r\n"
        )
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=20) as reply:
            families = {f.name: f for f in text_string_to_metric_families(reply.read().decode())}
        assert families["tandem_gpu_value_hits"].samples[0].value >= int(told["gpu:values_hits"])


def test_the_planner_says_what_it_chose(tandem: Callable[..., Server]) -> None:
    port = free_port()
    server = tandem("-o", f"gpu=sim,preset=1,metrics={HOST}:{port}")
    wait_for(server, "serves", "yes")
    told = stats(server, b"planner")
    assert (told["planner:chooses"], told["planner:plan"]) == ("yes", "cpu"), "there was no load"
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=20) as reply:
        families = {f.name: f for f in text_string_to_metric_families(reply.read().decode())}
    assert families["tandem_planner_choice"].samples[0].labels["plan"] == "cpu"
    assert stats(tandem("-o", ON_DEVICE), b"planner") == {"planner:chooses": "no"}


def test_is_given_up_upon_a_signal(tandem: Callable[..., Server]) -> None:
    server = tandem("-o", ON_DEVICE)
    with Stream(server.connect()) as stream:
        wait_for(server, "serves", "yes")
        assert stream.exchange(b"set a 0 0 1\r\nx\r\n").data == b"STORED\r\n"
        server.process.send_signal(signal.SIGUSR2)
        wait_for(server, "serves", "no")
        assert "GPU given up" in server.output()
        assert "gpu:lost" in stats(server, b"gpu")
        assert stream.exchange(b"get a\r\n").data == b"VALUE a 0 1\r\nx\r\nEND\r\n"


def test_one_that_is_not_there_is_a_line_in_the_log(tandem: Callable[..., Server]) -> None:
    server = tandem("-o", "gpu=99")
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"get a\r\n").data == b"END\r\n"
    assert "no GPU" in server.output()


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a GPU")
def test_a_preset_that_asks_for_one_says_why_there_is_none(tandem: Callable[..., Server]) -> None:
    assert "no GPU: " in tandem("-o", "preset=2").output()
    assert "no GPU" not in tandem("-o", "preset=1").output()
