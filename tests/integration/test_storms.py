"""Descriptors that run out, connections by the thousand, a wall clock that jumps, a network that loses datagrams: the
server lives, and other clients notice nothing.

TANDEM_FAULTS (default 1) multiplies how much there is of it: `make soak-faults`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.faults import WALL_AHEAD_MS, Faults, all_sleep
from harness.lossy import LossyNetwork
from harness.server import HOST, TIME_FACTOR, Server, wait_until
from harness.wire import Stream, UdpClient

MULTIPLE = int(os.environ.get("TANDEM_FAULTS", "1"))
CHURN = int(5000 / TIME_FACTOR) * MULTIPLE


def stat(stream: Stream, name: str) -> int:
    for line in stream.exchange(b"stats\r\n").data.decode().splitlines():
        words = line.split()
        if words[:2] == ["STAT", name]:
            return int(float(words[2]))
    raise AssertionError(f"no {name}")


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def test_descriptors_run_out(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "2")
    room, clients = 10, 30
    with contextlib.ExitStack() as stack:
        witness = stack.enter_context(Stream(server.connect()))
        assert witness.exchange(b"set k 0 0 1\r\nv\r\n").data == b"STORED\r\n"
        _, most = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (open_files(server.pid) + room, most))
        waiting = []
        for _ in range(clients):
            connection = stack.enter_context(server.connect())
            connection.sendall(b"get k\r\n")
            waiting.append(connection)

        def answered() -> list[socket.socket]:
            return select.select(waiting, [], [], 0)[0]

        wait_until(lambda: len(answered()) >= room, "those are served for whom there are descriptors")
        wait_until(lambda: all_sleep(server.pid), "it does not look for descriptors all the time")
        assert room <= len(answered()) <= room + 2  # one may have been on its way out when they were counted
        assert witness.exchange(b"get k\r\n").data == b"VALUE k 0 1\r\nv\r\nEND\r\n"
        assert stat(witness, "listen_disabled_num") >= 1
        assert server.output().count("accept: Too many open files") == 1, "once a minute, however often it was tried"
        # Some go, and more take their place.
        while waiting:
            served = answered()
            for connection in served:
                assert connection.recv(100) == b"VALUE k 0 1\r\nv\r\nEND\r\n"
                connection.close()
                waiting.remove(connection)
            if not served:
                wait_until(lambda: bool(answered()), "a descriptor that is free serves the next one")
        assert stat(witness, "curr_items") == 1


def test_thousands_of_connections_one_after_the_other(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "2")
    hit = b"VALUE k 0 1\r\nv\r\nEND\r\n"
    reset = struct.pack("ii", 1, 0)  # SO_LINGER: ends at once, and frees the port
    with Stream(server.connect()) as witness:
        assert witness.exchange(b"set k 0 0 1\r\nv\r\n").data == b"STORED\r\n"

        def churn(count: int) -> None:
            for i in range(count):
                with server.connect() as connection:
                    if i % 10 != 0:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    # A request, half a one, more than is read of the answer, nothing.
                    connection.sendall((b"get k\r\n", b"set k 0 0 5\r\nab", b"get k\r\n" * 100, b"")[i % 4])
                    if i % 4 == 0:
                        assert connection.recv(100) == hit
                if i % 100 == 0:  # another client's turn comes
                    assert witness.exchange(b"get k\r\n").data == hit
            # The last ones may not have been accepted yet: what is counted is what is open, too.
            wait_until(lambda: stat(witness, "curr_connections") <= before, "all have gone")
            wait_until(lambda: open_files(server.pid) <= files, "their descriptors are closed")

        before, files = stat(witness, "curr_connections"), open_files(server.pid)
        churn(500)
        memory = resident_mib(server.pid)
        churn(CHURN)
        assert resident_mib(server.pid) < memory + 4
        # One that is reset before it is accepted need not be there any more.
        assert stat(witness, "total_connections") >= (CHURN + 500) * 99 // 100


@pytest.mark.skipif(TIME_FACTOR > 1, reason="what is preloaded comes before a sanitizer's own")
def test_the_wall_clock_jumps(tandem: Callable[..., Server], tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    with faults.preloaded():
        server = tandem("-t", "1")
    day = 86400
    with Stream(server.connect()) as stream:
        earliest = time.monotonic()
        assert stream.exchange(b"ms stays 1 T1000\r\nv\r\n").data == b"HD\r\n"
        assert stream.exchange(b"set absolute 0 %d 1\r\nv\r\n" % (time.time() + 1000)).data == b"STORED\r\n"
        latest = time.monotonic()
        for ahead in (day, -2 * day, 400 * day, 0):
            faults.set(WALL_AHEAD_MS, 1000 * ahead)
            wait_until(lambda ahead=ahead: abs(stat(stream, "time") - time.time() - ahead) <= 2, "the clock is read")
            # What is stored keeps its time to live.
            for key in (b"stays", b"absolute"):
                asked = time.monotonic()
                left = int(stream.exchange(b"mg %s t\r\n" % key).data.split(b" t")[1])
                answered = time.monotonic()
                assert 1000 - (answered - earliest) - 3 <= left <= 1000 - (asked - latest) + 3, (ahead, key, left)
            # What is stored now for an absolute time goes by the new clock.
            asked = time.monotonic()
            then = int(time.time() + ahead + 50)
            assert stream.exchange(b"set new 0 %d 1\r\nv\r\n" % then).data == b"STORED\r\n"
            left = int(stream.exchange(b"mg new t\r\n").data.split(b" t")[1])
            assert 50 - (time.monotonic() - asked) - 3 <= left <= 53
            assert stream.exchange(b"set past 0 %d 1\r\nv\r\nget past\r\n" % (then - 100)).data == b"STORED\r\nEND\r\n"
            assert 0 <= stat(stream, "uptime") < 300
        assert stream.exchange(b"ms short 1 T1\r\nv\r\n").data == b"HD\r\n"
        wait_until(lambda: stream.exchange(b"get short\r\n").data == b"END\r\n", "it expires")


def test_datagrams_are_lost_doubled_and_reordered(tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "2")
    values = {b"k%d" % i: bytes((i * 7 + j) % 251 for j in range(1 + 613 * i)) for i in range(24)}  # up to 11 datagrams
    with Stream(server.connect()) as stream:
        for key, value in values.items():
            assert stream.exchange(b"set %s 3 0 %d\r\n%s\r\n" % (key, len(value), value)).data == b"STORED\r\n"
        whole = asked = 0
        with LossyNetwork((HOST, server.port), seed=1) as network, UdpClient(network.address) as client:
            parts: dict[int, dict[int, bytes]] = {}
            wanted: dict[int, bytes] = {}
            for turn in range(40 * MULTIPLE):
                key = b"k%d" % (turn % len(values))
                answer = b"VALUE %s 3 %d\r\n%s\r\nEND\r\n" % (key, len(values[key]), values[key])
                while True:  # until an answer is whole
                    asked += 1
                    assert asked < 4000 * MULTIPLE
                    mine = client.send(b"get %s\r\n" % key)
                    wanted[mine], parts[mine] = answer, {}
                    complete = False
                    while not complete and (datagram := client.receive(0.03 * TIME_FACTOR)) is not None:
                        # Late ones of earlier requests come, too: each belongs to the request that it names.
                        assert datagram.request_id in wanted
                        known = parts[datagram.request_id]
                        assert known.setdefault(datagram.sequence, datagram.payload) == datagram.payload
                        if len(known) == datagram.total:
                            assert b"".join(known[i] for i in range(datagram.total)) == wanted[datagram.request_id]
                            complete = datagram.request_id == mine
                    if complete:
                        whole += 1
                        break
            assert min(network.lost, network.doubled, network.delayed) > 10
            print(
                f"{asked} asked, {whole} whole; {network.lost} lost, {network.doubled} doubled, {network.delayed} late"
            )
        for key, value in values.items():
            assert stream.exchange(b"get %s\r\n" % key).data == b"VALUE %s 3 %d\r\n%s\r\nEND\r\n" % (
                key,
                len(value),
                value,
            )
