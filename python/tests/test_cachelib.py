"""tandem.contrib.cachelib beyond cachelib's own suites (suites/run.py), and in Flask-Caching."""

from __future__ import annotations

import pytest
from tandem import Store
from tandem.contrib.cachelib import TandemCache


def test_keys_that_servers_do_not_take(tandem_url: str) -> None:
    cache = TandemCache(tandem_url, key_prefix="p:", on_error="raise")
    keys = ["x" * 300, "x" * 301, "a b", "a\r\nb", "", "ключ", "plain"]
    assert cache.set_many({key: key for key in keys}) == keys
    assert cache.get_many(*keys) == keys
    assert cache.delete_many(*keys) == keys and not any(map(cache.has, keys))
    cache.close()


def test_more_time_without_the_values(tandem_store: Store) -> None:
    cache = TandemCache(tandem_store, default_timeout=1000)
    cache.set_many({"a": 1, "b": 2})
    assert cache.touch("a", 5) and not cache.touch("absent")
    assert cache.touch_many("a", "absent", "b", timeout=0) == ["a", "b"]


def test_failures_are_misses_unless_told_otherwise(tandem_store: Store) -> None:
    large = "x" * (33 << 20)
    cache = TandemCache(tandem_store)
    assert cache.set("a", large) is False and cache.get("a") is None and cache.cache.errors == 0
    assert cache.set_many({"a": large, "b": 1}) == ["b"]
    assert cache.add("c", large) is False and cache.cache.errors == 1


def test_flask_caching(tandem_url: str) -> None:
    flask = pytest.importorskip("flask")
    flask_caching = pytest.importorskip("flask_caching")
    app = flask.Flask("app")
    calls = []
    app.config.update(
        CACHE_TYPE="tandem.contrib.cachelib.TandemCache",
        CACHE_OPTIONS={"source": tandem_url, "key_prefix": "flask:", "on_error": "raise"},
    )
    caching = flask_caching.Cache(app)

    def page(item: int) -> str:
        calls.append(item)
        return f"item {item}"

    app.route("/<int:item>")(caching.cached(timeout=50)(page))

    def twice(x: int) -> int:
        calls.append(-x)
        return 2 * x

    double = caching.memoize(50)(twice)

    client = app.test_client()
    assert [client.get(path).text for path in ("/1", "/1", "/2")] == ["item 1", "item 1", "item 2"]
    with app.app_context():
        assert double(4) == double(4) == 8
        caching.delete_memoized(double)
        assert double(4) == 8
    assert calls == [1, 2, -4, -4]
    with app.app_context():
        assert caching.clear() and client.get("/1").text == "item 1"
    assert calls[-1] == 1
