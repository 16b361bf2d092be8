"""What time does: every way to set an expiry, and flush_all with a delay, against the real clock.

The scenarios sleep at the same time, each on a server of its own. Times have a second's grain: nothing is asked within
a second and a half of a deadline. One that had no processor until it was too late to ask begins again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from conftest import start_tandem
from harness.server import Server
from harness.wire import Stream

pytestmark = pytest.mark.slow

SHORT_S = 9  # what is set to this is present at BEFORE_S and gone at AFTER_S
LONG_S = 60
BEFORE_S = 1.5
AFTER_S = SHORT_S + 1.6


class TooLateError(Exception):
    """What was to be asked before a moment may have been asked after it."""


def ask_before(moment: float, stream: Stream, requests: list[bytes]) -> list[bytes]:
    replies = [stream.exchange(request).data for request in requests]
    if time.monotonic() > moment:
        raise TooLateError
    return replies


def prepare(now: int) -> list[bytes]:
    def item(key: bytes, expiry: object) -> bytes:
        return b"set %s 0 %s 1\r\n1\r\n" % (key, str(expiry).encode())

    return [
        item(b"never", 0),
        item(b"relative", SHORT_S),
        item(b"long", 60),
        item(b"absolute", now + SHORT_S),
        item(b"absolute_long", now + 60),
        item(b"month", 60 * 60 * 24 * 30),
        item(b"month_and_a_second", 60 * 60 * 24 * 30 + 1),
        item(b"past", now - 100),
        item(b"negative", -1),
        item(b"touched_short", 0), b"touch touched_short %d\r\n" % SHORT_S,
        item(b"touched_long", SHORT_S), b"touch touched_long 60\r\n",
        item(b"touched_never", SHORT_S), b"touch touched_never 0\r\n",
        item(b"gat_short", 0), b"gat %d gat_short\r\n" % SHORT_S,
        item(b"gat_long", SHORT_S), b"gat 60 gat_long\r\n",
        item(b"mg_short", 0), b"mg mg_short T%d\r\n" % SHORT_S,
        item(b"mg_long", SHORT_S), b"mg mg_long T60\r\n",
        item(b"appended", SHORT_S), b"append appended 0 0 1\r\n2\r\n",
        item(b"incremented", SHORT_S), b"incr incremented 5\r\n",
        item(b"grown", SHORT_S), b"incr grown 100\r\n",
        item(b"replaced_never", SHORT_S), b"replace replaced_never 0 0 1\r\n1\r\n",
        item(b"replaced_short", 0), b"replace replaced_short 0 %d 1\r\n1\r\n" % SHORT_S,
        item(b"stale_short", 0), b"md stale_short I T%d\r\n" % SHORT_S,
        b"ms meta 1 T%d\r\n1\r\n" % SHORT_S,
        b"mg vivified N%d\r\n" % SHORT_S,
        b"ma counted N%d\r\n" % SHORT_S,
    ]  # fmt: skip


LASTING = [
    "never", "long", "absolute_long", "month", "touched_long", "touched_never", "gat_long", "mg_long", "replaced_never",
]  # fmt: skip
ENDING = [
    "relative", "absolute", "touched_short", "gat_short", "mg_short", "appended", "incremented", "grown",
    "replaced_short", "stale_short", "meta", "vivified", "counted",
]  # fmt: skip
GONE = ["past", "negative", "month_and_a_second"]


def every_way_to_expire(server: Server) -> dict[str, dict[str, bytes]]:
    """The replies to `mg KEY v t` for each key, before and after, and to commands on keys that have expired."""
    moments = {}
    with Stream(server.connect()) as stream:
        stream.exchange(b"flush_all\r\n")  # of what it left when it was late
        began, began_unix = time.monotonic(), time.time()
        requests = prepare(int(began_unix))
        for request in requests:
            stream.exchange(request)
        keys = [request.split()[1].decode() for request in requests if request.startswith(b"set ")]
        keys += ["meta", "vivified", "counted"]
        gets = [f"mg {key} v t u\r\n".encode() for key in keys]
        for name, moment, until in (("before", BEFORE_S, SHORT_S - 1.5), ("after", AFTER_S, LONG_S - 1.5)):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            moments[name] = dict(zip(keys, ask_before(began + until, stream, gets), strict=True))
        moments["commands"] = {
            "add": stream.exchange(b"add relative 0 0 1\r\n2\r\nget relative\r\n").data,
            "replace": stream.exchange(b"replace absolute 0 0 1\r\n2\r\n").data,
            "append": stream.exchange(b"append touched_short 0 0 1\r\n2\r\n").data,
            "incr": stream.exchange(b"incr gat_short 1\r\n").data,
            "cas": stream.exchange(b"cas mg_short 0 0 1 1\r\n2\r\n").data,
            "delete": stream.exchange(b"delete counted\r\n").data,
            "touch": stream.exchange(b"touch appended 0\r\n").data,
        }
    return moments


def time_left_and_time_since_access(server: Server) -> None:
    with Stream(server.connect()) as stream:
        began = time.monotonic()
        stream.exchange(b"set t 0 100 1\r\n1\r\nset l 0 0 1\r\n1\r\n")
        time.sleep(3.0)
        left = int(stream.exchange(b"mg t t\r\n").data[4:])
        since = int(stream.exchange(b"mg l l u\r\n").data[4:])
        expires = int(stream.exchange(b"me t\r\n").data.split(b"exp=")[1].split()[0])
        most = time.monotonic() - began + 2
        assert 100 - most <= left <= 98
        assert 2 <= since <= most
        assert -98 <= expires <= most - 100


def flush_all_with_a_delay(server: Server) -> None:
    """What was stored before the moment is gone after it, also what was stored while it was awaited."""
    found = b"VALUE %s 0 1\r\n1\r\nEND\r\n"
    with Stream(server.connect()) as stream:
        began = time.monotonic()
        stream.exchange(b"set before 0 0 1\r\n1\r\n")
        assert stream.exchange(b"flush_all 7\r\n").data == b"OK\r\n"
        at_once = ask_before(began + 4, stream, [b"get before\r\n", b"set between 0 0 1\r\n1\r\n"])
        assert at_once == [found % b"before", b"STORED\r\n"]
        time.sleep(1.0)
        later = ask_before(began + 4, stream, [b"get before\r\n", b"get between\r\n"])
        assert later == [found % b"before", found % b"between"]
        time.sleep(8.0)
        assert stream.exchange(b"get before between\r\n").data == b"END\r\n"
        assert stream.exchange(b"add before 0 0 1\r\n1\r\nget before\r\n").data == b"STORED\r\n" + found % b"before"


def flush_all_in_a_second_is_at_once(server: Server) -> None:
    """As memcached, which takes a second off a delay."""
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"set k 0 0 1\r\n1\r\nflush_all 1\r\nget k\r\n").data == b"STORED\r\nOK\r\nEND\r\n"


def flush_all_forgets_an_earlier_delay(server: Server) -> None:
    with Stream(server.connect()) as stream:
        stream.exchange(b"flush_all 3\r\nflush_all\r\n")
        time.sleep(0.1)
        stream.exchange(b"set kept 0 0 1\r\n1\r\n")
        time.sleep(5.0)
        assert stream.exchange(b"get kept\r\n").data == b"VALUE kept 0 1\r\n1\r\nEND\r\n"


def expired_items_make_room(server: Server) -> None:
    """Memory full of expired items takes new ones with -M."""
    value = b"x" * 50_000
    with Stream(server.connect()) as stream:
        for number in range(1000):
            assert stream.exchange(b"set a%d 0 2 50000\r\n%s\r\n" % (number, value)).data == b"STORED\r\n"
        time.sleep(4.0)
        answers = [stream.exchange(b"set b%d 0 0 50000\r\n%s\r\n" % (n, value)).data for n in range(1000)]
    stored = answers.count(b"STORED\r\n")
    assert stored == 1000, f"{stored} of 1000 values were stored into memory full of expired ones"


def run(scenario: Callable[[Server], object], server: Server) -> object:
    while True:
        with contextlib.suppress(TooLateError):
            return scenario(server)


SCENARIOS = (
    every_way_to_expire,
    time_left_and_time_since_access,
    flush_all_with_a_delay,
    flush_all_in_a_second_is_at_once,
    flush_all_forgets_an_earlier_delay,
    expired_items_make_room,
)


@pytest.fixture(scope="module")
def scenarios() -> Iterator[dict[str, Future]]:
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(SCENARIOS)))
        futures = {}
        for scenario in SCENARIOS:
            server = start_tandem("-t", "2", *(["-M"] if scenario is expired_items_make_room else []))
            stack.callback(server.close)
            futures[scenario.__name__] = pool.submit(run, scenario, server)
        yield futures


@pytest.fixture
def story(scenarios: dict[str, Future]) -> dict[str, dict[str, bytes]]:
    return scenarios["every_way_to_expire"].result()


@pytest.mark.parametrize("name", [scenario.__name__ for scenario in SCENARIOS])
def test_scenario(name: str, scenarios: dict[str, Future]) -> None:
    scenarios[name].result()


@pytest.mark.parametrize("key", LASTING)
def test_stays(key: str, story: dict[str, dict[str, bytes]]) -> None:
    assert story["before"][key].startswith(b"VA ")
    assert story["after"][key].startswith(b"VA ")


@pytest.mark.parametrize("key", ENDING)
def test_ends(key: str, story: dict[str, dict[str, bytes]]) -> None:
    assert story["before"][key].startswith(b"VA "), "gone too early"
    assert story["after"][key] == b"EN\r\n", "still there"


@pytest.mark.parametrize("key", GONE)
def test_was_never_there(key: str, story: dict[str, dict[str, bytes]]) -> None:
    assert story["before"][key] == b"EN\r\n"


def test_every_key_is_judged(story: dict[str, dict[str, bytes]]) -> None:
    assert set(story["before"]) == {*LASTING, *ENDING, *GONE}


def test_commands_on_expired_items(story: dict[str, dict[str, bytes]]) -> None:
    assert story["commands"] == {
        "add": b"STORED\r\nVALUE relative 0 1\r\n2\r\nEND\r\n",
        "replace": b"NOT_STORED\r\n",
        "append": b"NOT_STORED\r\n",
        "incr": b"NOT_FOUND\r\n",
        "cas": b"NOT_FOUND\r\n",
        "delete": b"NOT_FOUND\r\n",
        "touch": b"NOT_FOUND\r\n",
    }
