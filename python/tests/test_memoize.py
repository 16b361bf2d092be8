"""Cache.memoize: what is computed how often, and what callers get meanwhile."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, cast

import numpy
import pytest
from tandem import Cache, Store
from tandem._memoize import canonical

WAIT_S = 60


@pytest.fixture(params=["store", "server"])
def cache(request: pytest.FixtureRequest) -> Iterator[Cache]:
    source = request.getfixturevalue("tandem_store" if request.param == "store" else "tandem_url")
    with Cache(source, "pickle", namespace="memo:") as cache:
        yield cache


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_result_is_computed_once(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=60, name="price")
    def price(item: int, currency: str = "EUR") -> tuple[int, str]:
        """What it costs."""
        calls.append((item, currency))
        return item * 2, currency

    assert [price(3), price(item=3), price(3, "EUR"), price(cast(int, 3.0)), price(3, currency="USD")] == [
        *[(6, "EUR")] * 4,
        (6, "USD"),
    ]
    assert calls == [(3, "EUR"), (3, "USD")]
    assert price.__doc__ == "What it costs." and price.__wrapped__(1) == (2, "EUR")  # type: ignore[attr-defined]


def test_none_is_a_result(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=None, name="nothing")
    def nothing() -> None:
        calls.append(1)

    assert [nothing(), nothing()] == [None, None]
    assert calls == [1]


def test_results_expire(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=1, name="short")
    def short() -> int:
        calls.append(1)
        return len(calls)

    assert short() == 1
    until(lambda: short() == 2)


def test_an_item_that_outlives_its_result_is_computed_anew(cache: Cache) -> None:
    @cache.memoize(ttl=60, name="outlived")
    def now() -> str:
        return "new"

    cache.set(now.cache_key(), (time.time() - 0.5, "old"))  # type: ignore[attr-defined]
    assert now() == "new"


def test_a_result_can_be_invalidated(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=60, name="f")
    def f(x: int) -> int:
        calls.append(x)
        return len(calls)

    decorated = cast(Any, f)
    assert not decorated.invalidate(1)
    assert (f(1), f(2)) == (1, 2)
    assert decorated.invalidate(1) and (f(1), f(2)) == (3, 2)
    assert decorated.cache_key(1) in cache and decorated.cache_key(3) not in cache


def test_typed_tells_types_apart(cache: Cache) -> None:
    @cache.memoize(ttl=60, typed=True, name="typed")
    def kind(*values: Any) -> str:
        return ",".join(type(value).__name__ for value in values)

    assert [kind(1), kind(1.0), kind(True), kind([1], 1)] == ["int", "float", "bool", "list,int"]


def test_what_the_function_raises_is_not_kept(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=60, name="fails")
    def fails() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise LookupError("not yet")
        return 7

    for _ in range(2):
        with pytest.raises(LookupError):
            fails()
    assert fails() == 7 and fails() == 7 and len(calls) == 3


def test_threads_that_miss_wait_for_the_one_that_computes(cache: Cache) -> None:
    started, go = threading.Event(), threading.Event()
    calls, results = [], []

    @cache.memoize(ttl=60, name="slow")
    def slow(x: int) -> list[int]:
        calls.append(x)
        started.set()
        assert go.wait(WAIT_S)
        return [x]

    threads = [threading.Thread(target=lambda: results.append(slow(1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert started.wait(WAIT_S)
    go.set()
    for thread in threads:
        thread.join()
    assert calls == [1] and results == [[1]] * 8
    assert len({id(result) for result in results}) == 8  # a caller that changes its list changes no other's


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_fork_does_not_wait_for_its_parents_threads(tandem_url: str) -> None:
    inside, leave = threading.Event(), threading.Event()
    with Cache(tandem_url, "json") as cache:

        @cache.memoize(ttl=60, name="forked")
        def slow() -> int:
            inside.set()
            leave.wait()
            return os.getpid()

        computing = threading.Thread(target=slow)
        computing.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            leave.set()
            os._exit(slow() != os.getpid())
        try:
            deadline = time.monotonic() + WAIT_S
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                assert time.monotonic() < deadline, "the child waits"
                time.sleep(0.005)
            assert ended == (child, 0)
        finally:
            if ended == (0, 0):
                os.kill(child, signal.SIGKILL)
            leave.set()
            computing.join()


def test_a_failure_passes_the_turn_on(cache: Cache) -> None:
    first, second = threading.Event(), threading.Event()
    outcomes: list[Any] = []

    @cache.memoize(ttl=60, name="turns")
    def turns() -> int:
        if not first.is_set():
            first.set()
            assert second.wait(WAIT_S)
            raise LookupError
        return 5

    def call() -> None:
        try:
            outcomes.append(turns())
        except LookupError:
            outcomes.append("failed")

    one = threading.Thread(target=call)
    one.start()
    assert first.wait(WAIT_S)
    two = threading.Thread(target=call)
    two.start()
    second.set()
    one.join()
    two.join()
    assert sorted(map(str, outcomes)) == ["5", "failed"]


def test_a_stale_result_serves_while_one_computes(cache: Cache) -> None:
    computing, go = threading.Event(), threading.Event()
    calls = []

    @cache.memoize(ttl=1, stale=1000, name="stale")
    def answer() -> int:
        calls.append(1)
        if len(calls) > 1:
            computing.set()
            assert go.wait(WAIT_S)
        return len(calls)

    assert answer() == 1
    thread = threading.Thread(target=lambda: until(lambda: answer() == 2))
    thread.start()
    assert computing.wait(WAIT_S)  # the result is stale, and one caller computes
    assert [answer() for _ in range(20)] == [1] * 20
    go.set()
    thread.join()
    assert answer() == 2 and len(calls) == 2


def test_one_process_of_all_computes_a_stale_result(cache: Cache) -> None:
    """Two caches stand for two processes: what they share is in the store alone."""
    made = []

    def make(who: str) -> int:
        made.append(who)
        return len(made)

    one, two = (cache.memoize(ttl=1, stale=1000, name="shared")(make) for _ in range(2))
    assert one("x") == two("x") == 1
    lease = cast(Any, one).cache_key("x") + ":lease"
    until(lambda: time.time() > cache[lease.removesuffix(":lease")][0])
    assert cache.add(lease, b"", 1000)  # another process computes
    assert one("x") == two("x") == 1 and made == ["x"]
    cache.delete(lease)
    assert two("x") == 2 and lease not in cache


def test_a_failure_returns_the_lease(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=1, stale=1000, name="lease")
    def f() -> int:
        calls.append(1)
        if len(calls) == 2:
            raise LookupError
        return len(calls)

    def failed() -> bool:
        try:
            f()
        except LookupError:
            return True
        return False

    assert f() == 1
    until(failed)
    assert f() == 3


def test_a_function_may_call_itself(cache: Cache) -> None:
    @cache.memoize(ttl=60, name="fib")
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    assert fib(30) == 832040
    calls: list[int] = []

    @cache.memoize(ttl=60, name="same")
    def same(n: int) -> int:
        calls.append(n)
        return 1 if len(calls) > 1 else same(n) + 1

    assert same(5) == 2


def test_results_that_cannot_be_kept_are_returned() -> None:
    with Store(memory="4MiB") as store:
        cache = Cache(store, "json", on_error="miss")

        @cache.memoize(ttl=60, name="large")
        def large() -> str:
            return "x" * (8 << 20)

        results = []
        threads = [threading.Thread(target=lambda: results.append(len(large()))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [8 << 20] * 4 and cache.errors >= 1


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_tasks_that_miss_wait_for_the_one_that_computes(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=60, name="async")
    async def slow(x: int) -> list[int]:
        calls.append(x)
        await asyncio.sleep(0.05)
        return [x]

    async def main() -> list[list[int]]:
        return list(await asyncio.gather(*(slow(1) for _ in range(20)), slow(2)))

    for _ in range(2):  # another loop finds what the first one has kept
        assert asyncio.run(main()) == [[1]] * 20 + [[2]]
    assert sorted(calls) == [1, 2]


def test_a_task_that_is_cancelled_passes_the_turn_on(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=60, name="cancelled")
    async def f() -> int:
        calls.append(1)
        await asyncio.sleep(3600 if len(calls) == 1 else 0)
        return 9

    async def main() -> int:
        first = asyncio.create_task(f())
        while not calls:
            await asyncio.sleep(0.001)
        second = asyncio.create_task(f())
        await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await asyncio.wait_for(second, WAIT_S)

    assert asyncio.run(main()) == 9 and len(calls) == 2


def test_a_stale_result_serves_tasks(cache: Cache) -> None:
    calls = []

    @cache.memoize(ttl=1, stale=1000, name="async-stale")
    async def f() -> int:
        calls.append(1)
        await asyncio.sleep(0)
        return len(calls)

    async def main() -> None:
        assert await f() == 1
        deadline = time.monotonic() + WAIT_S
        while (last := await f()) == 1 and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert last == 2

    asyncio.run(main())


def test_an_event_loop_does_not_wait_for_a_network(tandem_url: str) -> None:
    threads = set()

    class Where:
        def serialize(self, key: object, value: object) -> tuple[bytes, int]:
            threads.add(threading.current_thread())
            return repr(value).encode(), 0

        def deserialize(self, key: object, value: bytes, flags: int) -> object:
            return eval(value)

    with Cache(tandem_url, Where()) as cache:

        @cache.memoize(ttl=60, name="off-loop")
        async def f() -> int:
            return 1

        assert asyncio.run(f()) == 1 and threads and threading.current_thread() not in threads


# --- keys -------------------------------------------------------------------------------------------------------------


class Colour(Enum):
    red = 1
    blue = 2


DIFFERENT: list[Any] = [
    None,
    1,
    2,
    -1,
    1.5,
    1j,
    float("inf"),
    float("-inf"),
    float("nan"),
    "1",
    b"1",
    "",
    b"",
    "a,b",
    ("a", "b"),
    ["a", "b"],
    ("ab",),
    (("a",), "b"),
    ("a", ("b",)),
    {"a": "b"},
    {"a", "b"},
    (),
    [],
    {},
    frozenset(),
    Colour.red,
    Colour.blue,
    datetime.date(2026, 1, 1),
    datetime.datetime(2026, 1, 1),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    datetime.timedelta(1),
    uuid.UUID(int=1),
    Decimal("0.1"),
    0.1,
]


@pytest.mark.parametrize("typed", [False, True])
def test_different_arguments_have_different_keys(typed: bool) -> None:
    keys = [canonical(value, typed) for value in DIFFERENT]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, Decimal(1), Fraction(1), 1 + 0j, numpy.int64(1), numpy.float32(1)),
        (0.5, Fraction(1, 2), Decimal("0.50"), numpy.float64(0.5)),
        (0, 0.0, -0.0, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a", "b", "c"}, frozenset("cba")),
        ("ab", "".join(["a", "b"])),
    ],
    ids=str,
)
def test_equal_arguments_share_their_key(equal: tuple[Any, ...]) -> None:
    assert len({canonical(value, False) for value in equal}) == 1


def test_keys_are_the_same_in_every_process() -> None:
    program = (
        "import tandem\n"
        "with tandem.Store(memory='4MiB') as store:\n"
        "    f = tandem.Cache(store, 'json').memoize(ttl=1, name='f')(lambda *a, **k: 0)\n"
        "    print(f.cache_key({'a', 'b', 'c'}, 1.5, x={'k': None}))\n"
    )
    keys = {
        subprocess.check_output([sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed})
        for seed in ("1", "2", "3")
    }
    assert len(keys) == 1


def test_arguments_without_a_value_need_a_key(tandem_store: Store) -> None:
    cache = Cache(tandem_store, "json")

    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @cache.memoize(ttl=60)
        def refused(self) -> str:
            return self.name

        @cache.memoize(ttl=60, key=lambda self, item: f"{self.name}/{item}")
        def price(self, item: int) -> str:
            return f"{item} at {self.name}"

    with pytest.raises(TypeError, match="type Shop cannot be a part of a key; pass key="):
        Shop("a").refused()
    assert [Shop("a").price(1), Shop("b").price(1)] == ["1 at a", "1 at b"]


def test_functions_without_a_name_of_their_own_need_one(tandem_store: Store) -> None:
    cache = Cache(tandem_store, "json")
    outer = 5
    with pytest.raises(ValueError, match="needs name="):
        cache.memoize(ttl=1)(lambda: 1)
    with pytest.raises(ValueError, match="needs name="):

        @cache.memoize(ttl=1)
        def closure() -> int:
            return outer

    names = ["a", "b", "x" * 500, "имя", "a b"]
    keys = [cast(Any, cache.memoize(ttl=1, name=name)(lambda: 1)).cache_key() for name in names]
    assert len(set(keys)) == len(names) and all(len(key) <= 160 and " " not in key for key in keys)


def test_arguments_of_memoize(tandem_store: Store) -> None:
    cache = Cache(tandem_store, "json")
    with pytest.raises(ValueError, match="stale needs a ttl"):
        cache.memoize(ttl=None, stale=5)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="ttl must be"):
            cache.memoize(ttl=wrong)
    with pytest.raises(ValueError, match="ttl must be"):
        cache.memoize(ttl=5, stale=-1)

    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="generator"):
        cache.memoize(ttl=5)(generator)
