"""Django cache backends.

`tandem.contrib.django.TandemCache`: servers, as Django's PyMemcacheCache, which it extends. `LOCATION` is a server or
several ("127.0.0.1:11211", "unix:/run/tandem/tandem.sock"). What it adds:

- `touch_many`, and `delete_many` in one round trip to each server.
- The `a...` methods await the network: no thread for each call, and all tasks share one connection to a server.

`tandem.contrib.django.StoreCache`: a store in the process, in place of LocMemCache. `OPTIONS` are those of
tandem.Store, `LOCATION` names the store. Its `a...` methods need no thread either, and `store` has the calls for arrays
(`caches["default"].store.get_rows(...)`). Each process has a store of its own.

Both: `incr` is atomic, and several keys are one call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache, InvalidCacheKey, memcache_key_warnings
from django.core.cache.backends.memcached import PyMemcacheCache
from django.core.exceptions import ImproperlyConfigured
from tandem._core import Store
from tandem._types import TooLarge
from tandem.cache import Cache
from tandem.contrib._asyncio import Reply, ServerRefused, connection

__all__ = ["StoreCache", "TandemCache"]


class TandemCache(PyMemcacheCache):  # type: ignore[misc]
    """Servers: see the module."""

    def touch_many(self, keys: Iterable[str], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> list[str]:
        """Gives each key `timeout` from now, in one round trip to each server. Returns the keys without a value."""
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        until = b"T%d" % self.get_backend_timeout(timeout)
        missed = []
        for client, its in self._by_server(names).items():
            # pymemcache pipelines sets and deletes alone; it reads on until the no-op behind the rest is answered.
            commands = b"".join(self._meta(b"mg", name, until) for name in its)
            raw = self._cache._safely_run_func(client, client.raw_command, b"", commands + b"mn", "MN\r\n")
            replies = raw.splitlines() or [b""] * len(its)
            missed += [name for name, reply in zip(its, replies, strict=True) if not reply.startswith(b"HD")]
        return [names[name] for name in missed]

    def delete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        names = [self.make_and_validate_key(key, version=version) for key in keys]
        for client, its in self._by_server(names).items():
            # As pymemcache's own calls: a server that is down is marked, and no error with the option ignore_exc.
            self._cache._safely_run_func(client, client.delete_many, False, its)

    async def aget(self, key: str, default: Any = None, version: int | None = None) -> Any:
        name = self.make_and_validate_key(key, version=version)
        (reply,) = await self._ask({name: self._meta(b"mg", name, b"v", b"f")})
        return default if reply.value is None else self._value(name, reply)

    async def aset(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        name = self.make_and_validate_key(key, version=version)
        try:
            await self._ask({name: self._store(name, value, timeout, b"MS")})
        except ServerRefused:
            await self.adelete(key, version=version)  # the old value must not stay, as in set()
            raise

    async def aadd(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        name = self.make_and_validate_key(key, version=version)
        (reply,) = await self._ask({name: self._store(name, value, timeout, b"ME")})
        return reply.code == b"HD"

    async def atouch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return not await self.atouch_many([key], timeout, version)

    async def atouch_many(
        self, keys: Iterable[str], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        """As `touch_many`."""
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        until = b"T%d" % self.get_backend_timeout(timeout)
        replies = await self._ask({name: self._meta(b"mg", name, until) for name in names})
        return [key for key, reply in zip(names.values(), replies, strict=True) if reply.code != b"HD"]

    async def adelete(self, key: str, version: int | None = None) -> bool:
        name = self.make_and_validate_key(key, version=version)
        (reply,) = await self._ask({name: self._meta(b"md", name)})
        return reply.code == b"HD"

    async def adelete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        names = [self.make_and_validate_key(key, version=version) for key in keys]
        await self._ask({name: self._meta(b"md", name) for name in names})

    async def aget_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        replies = await self._ask({name: self._meta(b"mg", name, b"v", b"f") for name in names})
        found = zip(names.items(), replies, strict=True)
        return {key: self._value(name, reply) for (name, key), reply in found if reply.value is not None}

    async def aset_many(
        self, data: Mapping[str, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        names = {self.make_and_validate_key(key, version=version): key for key in data}
        commands = {name: self._store(name, data[key], timeout, b"MS") for name, key in names.items()}
        replies = await self._ask(commands)
        return [key for key, reply in zip(names.values(), replies, strict=True) if reply.code != b"HD"]

    async def aincr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        name = self.make_and_validate_key(key, version=version)
        mode = b"MD" if delta < 0 else b"MI"
        (reply,) = await self._ask({name: self._meta(b"ma", name, b"D%d" % abs(delta), mode, b"v")})
        if reply.value is None:
            raise ValueError(f"Key '{name}' not found")
        return int(reply.value)

    async def aclear(self) -> None:
        for client in self._cache.clients.values():
            await self._send(client, [b"flush_all\r\n"])

    async def _ask(self, commands: Mapping[str, bytes]) -> list[Reply]:
        replies: dict[str, Reply] = {}
        for client, names in self._by_server(commands).items():
            answered = await self._send(client, [commands[name] for name in names])
            replies.update(zip(names, answered, strict=True))
        return [replies.get(name, NO_REPLY) for name in commands]

    async def _send(self, client: Any, commands: Sequence[bytes]) -> Sequence[Reply]:
        """With pymemcache's options: time limits, and failures that are misses."""
        option = self._options.get
        try:
            opening = connection(client.server, option("tls_context"))
            opened = await asyncio.wait_for(opening, option("connect_timeout"))
            return await asyncio.wait_for(opened.send(commands), option("timeout"))
        except (OSError, asyncio.TimeoutError, ServerRefused):
            if not option("ignore_exc"):
                raise
            return [NO_REPLY] * len(commands)

    def _by_server(self, names: Iterable[str]) -> dict[Any, list[str]]:
        """pymemcache's clients with their keys."""
        found: dict[Any, list[str]] = {}
        for name in names:
            client = self._cache._get_client(name)
            if client is not None:  # all servers are down, and the option ignore_exc is on
                found.setdefault(client, []).append(name)
        return found

    def _store(self, name: str, value: Any, timeout: Any, mode: bytes) -> bytes:
        data, flags = self._options["serde"].serialize(name, value)
        data = data.encode() if isinstance(data, str) else data
        until = b"T%d" % self.get_backend_timeout(timeout)
        return self._meta(b"ms", name, b"%d" % len(data), until, b"F%d" % flags, mode) + data + b"\r\n"

    def _value(self, name: str, reply: Reply) -> Any:
        flags = next(int(flag[1:]) for flag in reply.flags if flag.startswith(b"f"))
        return self._options["serde"].deserialize(name, reply.value, flags)

    def _meta(self, command: bytes, name: str, *flags: bytes) -> bytes:
        key = _bytes(self._options.get("key_prefix", b"")) + name.encode()
        return b" ".join((command, key, *flags)) + b"\r\n"


NO_REPLY = Reply(b"", [], None)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


_stores: dict[str, tuple[Store, dict[str, Any]]] = {}
_stores_lock = threading.Lock()


def _forget_stores() -> None:
    """In a child of fork(), which cannot use its parent's stores, nor a lock that another thread had."""
    global _stores, _stores_lock
    _stores, _stores_lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget_stores)


def _store_of(name: str, options: dict[str, Any]) -> Store:
    """The process's store of that name: Django makes a backend for each thread."""
    with _stores_lock:
        if name not in _stores:
            try:
                _stores[name] = Store(**options), options
            except TypeError:
                raise ImproperlyConfigured(f"StoreCache: OPTIONS that tandem.Store does not take: {options}") from None
        store, its = _stores[name]
    if its != options:
        raise ImproperlyConfigured(f"StoreCache: two caches share LOCATION {name!r} and differ in OPTIONS")
    return store


class StoreCache(BaseCache):  # type: ignore[misc]
    """A store in the process: see the module. `OPTIONS["serializer"]` is tandem.Cache's, "pickle" unless set."""

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._name, self._options = name, dict(params.get("OPTIONS") or {})
        self._serializer = self._options.pop("serializer", "pickle")
        self._made: Cache | None = None
        self._of: Store | None = None

    @property
    def store(self) -> Store:
        """The tandem.Store, for its calls for arrays and scans."""
        return _store_of(self._name, self._options)

    @property
    def _cache(self) -> Cache:
        store = self.store
        if self._made is None or self._of is not store:
            self._of, self._made = store, Cache(store, self._serializer)
        return self._made

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self._cache.get(self.make_and_validate_key(key, version=version), default)

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        return {names[name]: value for name, value in self._cache.get_many(names).items()}

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        if self.set_many({key: value}, timeout, version):
            raise TooLarge(f"the value of {key!r} is too large for the store, or it has no memory for it")

    def set_many(
        self, data: Mapping[str, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        names = {self.make_and_validate_key(key, version=version): key for key in data}
        lasts, ttl = self._ttl(timeout)
        if not lasts:
            self._cache.delete_many(names)
            return []
        failed = self._cache.set_many({name: data[key] for name, key in names.items()}, ttl)
        return [names[name] for name in failed]

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        name = self.make_and_validate_key(key, version=version)
        lasts, ttl = self._ttl(timeout)
        return self._cache.add(name, value, ttl) if lasts else name not in self._cache

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return not self.touch_many([key], timeout, version)

    def touch_many(self, keys: Iterable[str], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> list[str]:
        """Gives each key `timeout` from now. Returns the keys without a value."""
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        lasts, ttl = self._ttl(timeout)
        if lasts:
            return [key for name, key in names.items() if not self._cache.touch(name, ttl)]
        return [key for name, key in names.items() if not self._cache.delete(name)]

    def delete(self, key: str, version: int | None = None) -> bool:
        return self._cache.delete(self.make_and_validate_key(key, version=version))

    def delete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        self._cache.delete_many([self.make_and_validate_key(key, version=version) for key in keys])

    def has_key(self, key: str, version: int | None = None) -> bool:
        return self.make_and_validate_key(key, version=version) in self._cache

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Adds `delta` in one step. Where a number is negative, or `delta` is, the item gets the default timeout."""
        name = self.make_and_validate_key(key, version=version)
        try:
            return self._cache.incr(name, delta, ttl=self._ttl(DEFAULT_TIMEOUT)[1])
        except KeyError:
            raise ValueError(f"Key '{key}' not found") from None
        except ValueError as error:
            raise TypeError(str(error)) from error

    def clear(self) -> None:
        self._cache.clear()

    def validate_key(self, key: str) -> None:
        for warning in memcache_key_warnings(key):
            raise InvalidCacheKey(warning)

    # The store answers at once: an event loop waits no longer for it than for a dict.

    async def aget(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self.get(key, default, version)

    async def aget_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        return self.get_many(keys, version)

    async def aset(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self.set(key, value, timeout, version)

    async def aset_many(
        self, data: Mapping[str, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        return self.set_many(data, timeout, version)

    async def aadd(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self.add(key, value, timeout, version)

    async def atouch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return self.touch(key, timeout, version)

    async def atouch_many(
        self, keys: Iterable[str], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> list[str]:
        """As `touch_many`."""
        return self.touch_many(keys, timeout, version)

    async def adelete(self, key: str, version: int | None = None) -> bool:
        return self.delete(key, version)

    async def adelete_many(self, keys: Iterable[str], version: int | None = None) -> None:
        self.delete_many(keys, version)

    async def ahas_key(self, key: str, version: int | None = None) -> bool:
        return self.has_key(key, version)

    async def aincr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        return self.incr(key, delta, version)

    async def aclear(self) -> None:
        self.clear()

    def _ttl(self, timeout: Any) -> tuple[bool, float | None]:
        """Whether there is any time, and how many seconds; None: for ever."""
        seconds = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return seconds is None or seconds > 0, seconds
