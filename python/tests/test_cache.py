"""tandem.Cache over a store and over a server."""

from __future__ import annotations

import os
import sys
import threading
import time
import unittest
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
import tandem
from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient
from pymemcache.serde import pickle_serde
from tandem import Cache, Server, Store


@pytest.fixture(params=["store", "server"])
def source(request: pytest.FixtureRequest) -> Store | str:
    return cast("Store | str", request.getfixturevalue("tandem_store" if request.param == "store" else "tandem_url"))


@pytest.fixture
def cache(source: Store | str) -> Iterator[Cache]:
    with Cache(source, "pickle", namespace="v1:") as cache:
        yield cache


@pytest.fixture
def local(tandem_store: Store) -> Cache:
    return Cache(tandem_store, "pickle", namespace="v1:")


def test_values_of_any_type(cache: Cache) -> None:
    for value in (b"b", "text", 7, -7, None, True, (1, [2.5, {"a": {3}}])):
        cache["key"] = value
        assert cache["key"] == value and type(cache["key"]) is type(value)
        assert "key" in cache
    assert cache.get("absent") is None and cache.get("absent", 5) == 5
    with pytest.raises(KeyError, match="absent"):
        cache["absent"]
    assert "absent" not in cache
    del cache["key"]
    with pytest.raises(KeyError):
        del cache["key"]


def test_calls_that_depend_on_what_is_there(cache: Cache) -> None:
    assert not cache.replace("key", 1)
    assert cache.add("key", 2) and not cache.add("key", 3)
    assert cache.replace("key", 4) and cache["key"] == 4
    assert cache.touch("key", 100) and not cache.touch("absent", 100)
    assert cache.setdefault("key", 5) == 4 and cache.setdefault("other", 6) == 6
    assert cache.pop("key") == 4 and cache.pop("key", None) is None
    with pytest.raises(KeyError):
        cache.pop("key")
    with pytest.raises(TypeError):
        cache.pop("key", 1, 2)
    assert cache.delete("other") and not cache.delete("other")


def test_many_keys_in_one_call(cache: Cache) -> None:
    items = {f"key{i}": i for i in range(300)}
    assert cache.set_many(items, ttl=100) == []
    assert cache.get_many([*items, "absent"]) == items
    cache.delete_many(list(items)[1:])
    assert cache.get_many(items) == {"key0": 0}
    assert cache.get_many([]) == {} and cache.set_many([]) == []
    assert cache.set_many([("a", 1), ("a", 2)]) == [] and cache["a"] == 2


def test_numbers(cache: Cache) -> None:
    with pytest.raises(KeyError):
        cache.incr("n")
    assert cache.incr("n", initial=10) == 10
    assert cache.incr("n") == 11 and cache.incr("n", 5) == 16
    assert cache.incr("n", -20) == -4 and cache.incr("n", 1) == -3 and cache["n"] == -3
    cache["n"] = (1 << 64) - 1
    assert cache.incr("n", 1) == 1 << 64 and cache.incr("n", -1) == (1 << 64) - 1
    cache["text"] = "5"
    with pytest.raises(ValueError, match="not an int"):
        cache.incr("text")
    with pytest.raises(TypeError, match="by must be an int, not float"):
        cache.incr("n", 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", [1, -1])
def test_numbers_are_counted_in_one_step(cache: Cache, by: int) -> None:
    cache["n"] = 0
    counts = [threading.Thread(target=lambda: [cache.incr("n", by) for _ in range(100)]) for _ in range(4)]
    for thread in counts:
        thread.start()
    for thread in counts:
        thread.join()
    assert cache["n"] == 400 * by


def test_time_to_live(cache: Cache) -> None:
    cache.set("short", 1, ttl=1)
    cache.set("long", 2, ttl=timedelta(days=400))  # memcached itself takes more than 30 days for Unix time
    cache.set_many({"part": 3}, ttl=0.25)
    assert cache.get_many(["short", "long", "part"]) == {"short": 1, "long": 2, "part": 3}
    deadline = time.monotonic() + 60
    while cache.get_many(["short", "part"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert cache["long"] == 2


@pytest.mark.parametrize("ttl", [0, -1, timedelta(0), float("inf"), float("nan")])
def test_no_time_is_no_time_to_live(cache: Cache, ttl: Any) -> None:
    cache["key"] = 1
    for call in (
        lambda: cache.set("key", 2, ttl),
        lambda: cache.set_many({"key": 2}, ttl),
        lambda: cache.touch("key", ttl),
    ):
        with pytest.raises(ValueError, match="ttl must be more than 0"):
            call()
    assert cache["key"] == 1


@pytest.mark.parametrize("ttl", ["60", True, b"1"])
def test_time_to_live_is_a_number(cache: Cache, ttl: Any) -> None:
    with pytest.raises(TypeError, match="ttl must be"):
        cache.set("key", 1, ttl)


@pytest.mark.parametrize("key", [1, b"key", None, ("a",)])
def test_keys_are_str(cache: Cache, key: Any) -> None:
    for call in (
        lambda: cache[key],
        lambda: cache.set(key, 1),
        lambda: cache.get_many([key]),
        lambda: cache.delete(key),
    ):
        with pytest.raises(TypeError, match=f"key must be a str, not {type(key).__name__}"):
            call()
    assert key not in cache


@pytest.mark.parametrize("key", ["", "x" * 248, "é" * 124])
def test_keys_that_are_too_long_or_empty(cache: Cache, key: str) -> None:
    for call in (lambda: cache[key], lambda: cache.set(key, 1), lambda: cache.set_many({"a": 1, key: 1})):
        with pytest.raises(ValueError, match="key"):
            call()


@pytest.mark.parametrize("key", ["a b", "a\r\nflush_all", "a\0", "a\t", " a"])
def test_a_server_takes_no_blanks_in_keys(tandem_url: str, key: str) -> None:
    with Cache(tandem_url, "json") as cache:
        cache["kept"] = 1
        for call in (lambda: cache.get(key), lambda: cache.set(key, 1), lambda: cache.delete_many(["kept", key])):
            with pytest.raises(ValueError, match="blanks"):
                call()
        assert cache["kept"] == 1


def test_keys_of_any_script(cache: Cache) -> None:
    cache["ключ"] = "value"
    assert cache["ключ"] == "value" and cache.get_many(["ключ"]) == {"ключ": "value"}


def test_namespaces_do_not_meet(tandem_store: Store) -> None:
    one, two = Cache(tandem_store, "json", namespace="one:"), Cache(tandem_store, "json", namespace="two:")
    bare = Cache(tandem_store, "json")
    one["a"], one["b"], two["a"] = 1, 2, 3
    assert dict(one) == {"a": 1, "b": 2} and dict(two) == {"a": 3} and len(one) == 2
    assert sorted(bare) == ["one:a", "one:b", "two:a"]
    one.clear()
    assert not one and dict(two) == {"a": 3}
    bare.clear()
    assert len(bare) == 0


def test_keys_of_others_may_be_any_bytes(tandem_store: Store) -> None:
    tandem_store.set(b"\xff\xfe", b"value")
    cache = Cache(tandem_store, "json")
    (key,) = cache
    assert cache[key] == b"value"


def test_a_server_lists_no_keys(tandem_url: str) -> None:
    with Cache(tandem_url, "json", namespace="v1:") as cache:
        for call in (lambda: len(cache), lambda: list(cache), cache.clear):
            with pytest.raises(TypeError, match="a server"):
                call()
    with Cache(tandem_url, "json") as cache:
        cache["a"] = 1
        cache.clear()
        assert "a" not in cache


def test_pymemcache_reads_what_a_cache_writes(tandem_server: Server, tandem_url: str) -> None:
    with Cache(tandem_url, "pickle") as cache:
        client = Client(tandem_server.address, serde=pickle_serde, default_noreply=False)
        for value in (b"b", "text", 7, (1, 2), None, 2.5):
            cache["key"] = value
            if value is not None:
                assert client.get("key") == value
            client.set("key", value)
            assert cache["key"] == value
        client.close()


def test_a_cache_of_several_servers(tandem_server: Server) -> None:
    with Server(threads=1) as other, Cache([tandem_server.url, other.url], "json", namespace="spread:") as cache:
        items = {str(i): i for i in range(200)}
        assert cache.set_many(items) == [] and cache.get_many(items) == items
        with Cache(other.url, "json", namespace="spread:") as half:
            assert 20 < len(half.get_many(items)) < 180


def test_pymemcache_finds_the_same_servers(tandem_server: Server) -> None:
    with Server(threads=1) as other, Cache([tandem_server.url, other.url], "pickle") as cache:
        items = {f"same{i}": i for i in range(50)}
        cache.set_many(items)
        client = HashClient([tandem_server.address, other.address], serde=pickle_serde)
        assert client.get_many(list(items)) == items
        client.close()


def test_a_child_of_fork_opens_a_connection_of_its_own(tandem_url: str) -> None:
    with Cache(tandem_url, "json") as cache:
        cache.set_many({"parent": "p", "child": "c"})
        pid = os.fork()
        who = "parent" if pid else "child"
        try:
            right = all(cache[who] == who[0] for _ in range(300))
        finally:
            if pid == 0:
                os._exit(not right)
        assert right and os.waitpid(pid, 0)[1] == 0


def test_a_cache_over_a_unix_socket() -> None:
    with Server(unix=True, threads=1) as server, Cache(server.url, "json") as cache:
        cache["a"] = [1]
        assert cache["a"] == [1]


@pytest.mark.parametrize("url", ["127.0.0.1:11211", "http://127.0.0.1", "tcp://", "unix:", "tcp://a/b", ""])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="not an address of a server"):
        Cache(url, "json")


@pytest.mark.parametrize("source", [None, 1, [], [1], b"tcp://a", {}])
def test_a_cache_needs_a_store_or_servers(source: Any) -> None:
    with pytest.raises(TypeError, match="a cache needs"):
        Cache(source, "json")


def test_arguments_of_a_cache(tandem_store: Store) -> None:
    with pytest.raises(ValueError, match="on_error"):
        Cache(tandem_store, "json", on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="serializer"):
        Cache(tandem_store)  # type: ignore[call-arg]
    assert repr(Cache(tandem_store, "json", namespace="a:")) == (
        "<tandem.Cache namespace='a:' serializer=tandem.serde.Json()>"
    )


# --- failures ---------------------------------------------------------------------------------------------------------


def test_values_that_are_too_large(source: Store | str) -> None:
    large = "x" * (33 << 20)
    with Cache(source, "json") as cache, pytest.raises(tandem.TooLarge):
        cache["key"] = large
    with Cache(source, "json", on_error="miss") as cache:
        cache["key"] = large
        assert cache.errors == 1 and "key" not in cache
        assert cache.set_many({"key": large, "small": 1}) in (["key"], ["key", "small"])


def test_a_server_that_is_gone() -> None:
    with Server(threads=1) as server:
        url = server.url
    with Cache(url, "json") as cache:
        for call in (lambda: cache.get("a"), lambda: cache.set("a", 1), lambda: cache.incr("a"), cache.clear):
            with pytest.raises(ConnectionError):
                call()
    with Cache(url, "json", on_error="miss") as cache:
        assert cache.get("a", 5) == 5 and "a" not in cache and cache.get_many(["a"]) == {}
        cache["a"] = 1
        assert cache.set_many({"a": 1, "b": 2}) == ["a", "b"] and not cache.add("a", 1)
        assert cache.incr("a", 3) == 3 and cache.setdefault("a", 9) == 9 and not cache.delete("a")
        assert cache.errors == 10
        with pytest.raises(TypeError):
            cache.get(1)  # type: ignore[arg-type]


def test_a_server_that_comes_back(tmp_path: Any) -> None:
    path = tmp_path / "s"
    cache = Cache(f"unix:{path}", "json", on_error="miss")
    for number in range(2):
        with Server(unix=path, threads=1):
            deadline = time.monotonic() + 60
            while cache.get("a") != number and time.monotonic() < deadline:  # the first call meets the old connection
                cache["a"] = number
            assert cache["a"] == number
    cache.close()


def test_items_that_cannot_be_read(tandem_store: Store) -> None:
    tandem_store.set("v1:a", b"no pickle", flags=1)
    tandem_store.set("v1:b", b"5", flags=2)
    cache = Cache(tandem_store, "pickle", namespace="v1:")
    for call in (lambda: cache["a"], lambda: cache.get_many(["a", "b"])):
        with pytest.raises(tandem.serde.DecodeError, match="'a'"):
            call()
    lenient = Cache(tandem_store, "pickle", namespace="v1:", on_error="miss")
    assert lenient.get("a") is None and lenient.get_many(["a", "b"]) == {"b": 5} and lenient.errors == 2


def test_a_closed_store_is_no_miss(tandem_store: Store) -> None:
    cache = Cache(tandem_store, "json", on_error="miss")
    tandem_store.close()
    with pytest.raises(tandem.Closed):
        cache.get("a")


# --- CPython's own tests of mappings ----------------------------------------------------------------------------------


def test_cpythons_mapping_protocol() -> None:
    """test.mapping_tests of the Python that runs this; distributions leave it out at times."""
    mapping_tests = pytest.importorskip("test.mapping_tests")
    stores: list[Store] = []

    def empty() -> Cache:
        stores.append(Store(memory="4MiB"))
        return Cache(stores[-1], "pickle")

    case = type("CacheMapping", (mapping_tests.BasicTestMappingProtocol,), {"type2test": staticmethod(empty)})
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    assert suite.countTestCases() >= 14
    result = unittest.TextTestRunner(sys.stderr).run(suite)
    for store in stores:
        store.close()
    assert result.wasSuccessful() and not result.skipped
