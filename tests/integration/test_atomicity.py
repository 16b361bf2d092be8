"""Commands that read an item and change it, two clients at the same key: nothing of either is lost.

Each client sends long pipelines, so that the server's workers are in the same few instructions at the same time as
often as can be; what is asked for has an answer that any order of whole commands gives, and half a command does not.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest
from harness.server import Server
from harness.threads import at_once
from harness.wire import Stream

TOUCH_ROUNDS, ROUNDS, PIPELINED = 250, 100, 4000
TTL_S = 100_000  # far from 0, and the times of two touches far from each other
STEP_S = 20


@pytest.fixture
def server(tandem: Callable[..., Server]) -> Server:
    # Replaced items wait for threads that a busy machine does not run: with 64 MiB the only item may be evicted.
    return tandem("-t", "2", "-m", "1024")


def pipelines(server: Server, request: bytes, seen: list[bytes], while_running: threading.Event | None = None) -> None:
    """Sends the request again and again, a number of times, or until the other has done so."""
    with Stream(server.connect()) as stream:
        rounds = 0
        while rounds < ROUNDS if while_running is None else not while_running.is_set():
            seen.append(stream.exchange(request * PIPELINED, timeout_s=60).data)
            rounds += 1


def prepare(server: Server, request: bytes) -> bytes:
    with Stream(server.connect()) as stream:
        return stream.exchange(request).data


@pytest.mark.parametrize("touch", ["touch k %d", "gat %d k", "mg k T%d"])
def test_a_touch_is_not_lost_beside_a_count(server: Server, touch: str) -> None:
    """A count keeps the time that the item has; only one client gives it another."""
    prepare(server, b"set k 0 0 1\r\n1\r\n")
    done = threading.Event()

    def toucher() -> None:
        try:
            with Stream(server.connect()) as stream:
                for _ in range(TOUCH_ROUNDS):
                    times = [TTL_S + STEP_S * n for n in range(PIPELINED)]
                    request = b"".join(touch.encode() % s + b"\r\nmg k t O%d\r\n" % s for s in times)
                    answer = stream.exchange(request, timeout_s=60).data
                    shown = re.findall(rb"HD t(-?\d+) O(\d+)\r\n", answer)
                    assert len(shown) == PIPELINED
                    lost = [(left, given) for left, given in shown if not 0 <= int(given) - int(left) <= 3]
                    assert not lost, f"{len(lost)} of {PIPELINED} touches were lost: {lost[:5]}"
        finally:
            done.set()

    at_once(toucher, lambda: pipelines(server, b"incr k 1\r\n", [], done))


def test_no_count_is_lost(server: Server) -> None:
    prepare(server, b"set k 0 0 1\r\n0\r\n")
    seen: list[bytes] = []
    at_once(*(lambda: pipelines(server, b"incr k 1\r\n", seen) for _ in range(2)))
    assert prepare(server, b"get k\r\n").split(b"\r\n")[1] == b"%d" % (2 * ROUNDS * PIPELINED)
    numbers = b"".join(seen).split()
    assert len(set(numbers)) == len(numbers) == 2 * ROUNDS * PIPELINED


@pytest.mark.parametrize("verb", ["append", "prepend"])
def test_no_piece_is_lost(server: Server, verb: str) -> None:
    prepare(server, b"set k 0 0 0\r\n\r\n")
    piece = verb.encode() + b" k 0 0 1\r\n%s\r\n"
    one, other = ([], [])
    with Stream(server.connect()) as stream:
        for _ in range(ROUNDS // 3):
            at_once(
                lambda: few(server, piece % b"1", one),
                lambda: few(server, piece % b"2", other),
            )
            value = stream.exchange(b"get k\r\n").data.split(b"\r\n")[1]
            assert (value.count(b"1"), value.count(b"2")) == (PIPELINED, PIPELINED)
            assert stream.exchange(b"set k 0 0 0\r\n\r\n").data == b"STORED\r\n"


def few(server: Server, request: bytes, seen: list[bytes]) -> None:
    with Stream(server.connect()) as stream:
        seen.append(stream.exchange(request * PIPELINED).data)


def test_one_add_of_a_key_wins_and_one_delete(server: Server) -> None:
    seen: dict[str, list[bytes]] = {"add": [], "delete": []}
    at_once(
        *(lambda: pipelines(server, b"add k 0 0 1\r\n1\r\n", seen["add"]) for _ in range(2)),
        *(lambda: pipelines(server, b"delete k\r\n", seen["delete"]) for _ in range(2)),
    )
    left = prepare(server, b"get k\r\n") != b"END\r\n"
    added = sum(answer.split(b"\r\n").count(b"STORED") for answer in seen["add"])
    deleted = sum(answer.split(b"\r\n").count(b"DELETED") for answer in seen["delete"])
    assert added == deleted + left
    assert deleted > 0


def test_of_one_cas_id_one_cas_wins(server: Server) -> None:
    wins: list[int] = []
    prepare(server, b"set k 0 0 1\r\n0\r\n")
    total = [0, 0]

    def client(which: int) -> None:
        with Stream(server.connect()) as stream:
            for _ in range(ROUNDS):
                cas = int(stream.exchange(b"mg k c\r\n").data.split()[1][1:])
                # The next id is the present one and a little: guesses that a server must refuse, one after the other.
                request = b"".join(b"ms k 1 c C%d\r\n1\r\n" % (cas + n // 2) for n in range(PIPELINED))
                answer = stream.exchange(request, timeout_s=60).data.split(b"\r\n")
                total[which] += sum(word.startswith(b"HD") for word in answer)
                wins.extend(cas + n // 2 for n, word in enumerate(answer) if word.startswith(b"HD"))

    at_once(lambda: client(0), lambda: client(1))
    assert len(wins) == len(set(wins)) == sum(total)
    assert min(total) > 0
