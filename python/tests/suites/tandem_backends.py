"""Django's tests of memcached backends over tandem.contrib.django. Django's tests/cache comes from its sdist."""

import asyncio
import os
import socket

import numpy as np
import pymemcache
from asgiref.sync import async_to_sync
from cache import tests as django_tests
from django.core.cache import cache, caches
from django.core.exceptions import ImproperlyConfigured
from django.test import TestCase, override_settings
from django_settings import CACHES, SERVERS
from pymemcache.exceptions import MemcacheClientError

TANDEM, STORE = CACHES["tandem"], CACHES["store"]
EXCLUDED = django_tests.memcached_excluded_caches


@override_settings(CACHES=django_tests.caches_setting_for_tests(base=TANDEM, exclude=EXCLUDED))
class TandemCacheTests(django_tests.BaseMemcachedTests, TestCase):
    base_params = TANDEM
    incr_decr_type_error = MemcacheClientError


@override_settings(CACHES=django_tests.caches_setting_for_tests(base=STORE, exclude=EXCLUDED))
class StoreCacheTests(django_tests.BaseMemcachedTests, TestCase):
    """All but what is about a client's connections and list of servers."""

    base_params = STORE
    incr_decr_type_error = TypeError
    test_location_multiple_servers = None
    test_close = None
    test_set_many_returns_failing_keys = None


class AsyncTests:
    """What Django's own tests ask of the dummy backend alone (tests/cache/tests_async.py), of a cache that keeps."""

    async def test_single_keys(self):
        self.assertIsNone(await cache.aget("absent"))
        self.assertEqual(await cache.aget("absent", "default"), "default")
        await cache.aset("key", {"a": [1, "é"]})
        self.assertEqual(await cache.aget("key"), {"a": [1, "é"]})
        self.assertIs(await cache.ahas_key("key"), True)
        self.assertIs(await cache.aadd("key", 1), False)
        self.assertIs(await cache.aadd("other", 1), True)
        self.assertIs(await cache.atouch("key", 100), True)
        self.assertIs(await cache.atouch("absent"), False)
        self.assertIs(await cache.adelete("key"), True)
        self.assertIs(await cache.adelete("key"), False)
        self.assertEqual(await cache.aget_or_set("key", lambda: 5), 5)

    async def test_numbers(self):
        await cache.aset("n", 41)
        self.assertEqual(await cache.aincr("n"), 42)
        self.assertEqual(await cache.adecr("n", 2), 40)
        self.assertEqual(await cache.aget("n"), 40)
        with self.assertRaises(ValueError):
            await cache.aincr("absent")

    async def test_many_keys(self):
        data = {f"key{i}": i for i in range(100)}
        self.assertEqual(await cache.aset_many(data), [])
        self.assertEqual(await cache.aget_many([*data, "absent"]), data)
        self.assertEqual(await cache.atouch_many([*data, "absent"], 50), ["absent"])
        await cache.adelete_many(list(data)[1:])
        self.assertEqual(await cache.aget_many(data), {"key0": 0})
        await cache.aclear()
        self.assertEqual(await cache.aget_many(data), {})

    async def test_expiry(self):
        await cache.aset("key", 1, timeout=0)
        self.assertIsNone(await cache.aget("key"))
        await cache.aset("key", 1)
        self.assertEqual(await cache.atouch_many(["key"], timeout=0), [])
        self.assertIsNone(await cache.aget("key"))

    def test_touch_many(self):
        cache.set_many({"a": 1, "b": 2})
        self.assertEqual(cache.touch_many(["a", "absent", "b"], 100), ["absent"])
        self.assertEqual(cache.touch_many(["a"], 0), [])
        self.assertEqual(cache.get_many(["a", "b"]), {"b": 2})

    def test_sync_and_async_share_what_they_keep(self):
        cache.set("key", (1, 2))
        self.assertEqual(async_to_sync(cache.aget)("key"), (1, 2))
        async_to_sync(cache.aset)("key", "async")
        self.assertEqual(cache.get("key"), "async")
        self.assertEqual(async_to_sync(caches["prefix"].aget)("key"), None)

    def tearDown(self):
        cache.clear()


@override_settings(CACHES=django_tests.caches_setting_for_tests(base=TANDEM, exclude=EXCLUDED))
class TandemCacheAsyncTests(AsyncTests, TestCase):
    async def test_a_value_that_is_too_large_leaves_no_old_one(self):
        await cache.aset("key", "small")
        with self.assertRaisesMessage(Exception, "too large"):
            await cache.aset("key", "x" * (2 << 20))
        self.assertIsNone(await cache.aget("key"))

    async def test_tasks_share_a_connection(self):
        replies = await asyncio.gather(*(caches["default"].aset(f"key{i}", i) for i in range(200)))
        self.assertEqual(replies, [None] * 200)
        values = await asyncio.gather(*(cache.aget(f"key{i}") for i in range(200)))
        self.assertEqual(values, list(range(200)))
        now = (await asyncio.to_thread(connections_of, SERVERS)).values()
        self.assertLessEqual(max(now), 4)  # this loop's, and those of this thread's pymemcache clients and the counter

    def test_servers_that_are_down(self):
        down = {"BACKEND": TANDEM["BACKEND"], "LOCATION": "127.0.0.1:1"}
        for name in ("aget_many", "delete_many", "touch_many"):
            with self.settings(CACHES={"default": down}), self.assertRaises(ConnectionError):
                call = getattr(cache, name)  # of the cache with these settings
                (async_to_sync(call) if name == "aget_many" else call)(["key"])
        with self.settings(CACHES={"default": down | {"OPTIONS": {"ignore_exc": True}}}):
            self.assertEqual(async_to_sync(cache.aget)("key", "default"), "default")
            self.assertEqual(async_to_sync(cache.aget_many)(["key"]), {})
            self.assertEqual(async_to_sync(cache.aset_many)({"key": 1}), ["key"])
            self.assertIs(async_to_sync(cache.aadd)("key", 1), False)
            self.assertIsNone(cache.delete_many(["key", "other"]))
            self.assertEqual(cache.touch_many(["key", "other"]), ["key", "other"])

    def test_a_server_that_does_not_answer(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            location = f"127.0.0.1:{silent.getsockname()[1]}"
            params = {"BACKEND": TANDEM["BACKEND"], "LOCATION": location, "OPTIONS": {"timeout": 0.1}}
            late = self.assertRaises((TimeoutError, asyncio.TimeoutError))
            with self.settings(CACHES={"default": params}), late:
                async_to_sync(cache.aget)("key")


def connections_of(servers):
    """How many each has now."""
    found = {}
    for server in servers:
        host, _, port = server.rpartition(":")
        client = pymemcache.Client((host, int(port)))
        found[server] = int(client.stats()[b"curr_connections"])
        client.close()
    return found


@override_settings(CACHES=django_tests.caches_setting_for_tests(base=STORE, exclude=EXCLUDED))
class StoreCacheAsyncTests(AsyncTests, TestCase):
    def test_rows(self):
        store = caches["default"].store
        keys, values = np.arange(5, dtype=np.uint64), np.ones((5, 4), np.float32)
        self.assertTrue(store.set_rows(keys, values).all())
        self.assertTrue((store.get_rows(keys, np.float32, 4)[0] == values).all())

    def test_options_of_a_store_are_one(self):
        other = {"default": STORE | {"OPTIONS": {"memory": "128MiB"}}}
        with self.settings(CACHES=other), self.assertRaisesMessage(ImproperlyConfigured, "differ in OPTIONS"):
            cache.get("key")

    def test_options_of_another_backend(self):
        other = {"default": STORE | {"LOCATION": "other", "OPTIONS": {"MAX_ENTRIES": 5}}}
        with self.settings(CACHES=other), self.assertRaisesMessage(ImproperlyConfigured, "MAX_ENTRIES"):
            cache.get("key")

    def test_a_child_of_fork_has_a_store_of_its_own(self):
        cache.set("key", "parent")
        pid = os.fork()
        if pid == 0:
            cache.set("child", 1)
            os._exit(not (cache.get("key") is None and cache.get("child") == 1))
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(cache.get("key"), "parent")
