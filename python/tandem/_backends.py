"""What tandem.Cache keeps its items in: a store of this process, or memcached servers through pymemcache."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from tandem._core import Store
from tandem._types import Full, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable

Data = tuple[bytes, int]  # value and flags

KEY_BYTES_MAX = 250
# memcached takes a larger expiry for Unix time.
RELATIVE_MAX_S = 30 * 24 * 3600


class Backend(Protocol):
    waits: bool  # on a network: an event loop must not call it
    failures: tuple[type[BaseException], ...]  # what `on_error="miss"` forgives

    def has(self, key: bytes) -> bool: ...
    def get(self, key: bytes) -> Data | None: ...
    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Data]: ...
    def gets(self, key: bytes) -> tuple[bytes, int, int | bytes] | None: ...
    def set(self, key: bytes, data: Data, ttl: int | None) -> None: ...
    def set_many(self, items: dict[bytes, Data], ttl: int | None) -> list[bytes]: ...
    def add(self, key: bytes, data: Data, ttl: int | None) -> bool: ...
    def replace(self, key: bytes, data: Data, ttl: int | None) -> bool: ...
    def cas(self, key: bytes, data: Data, cas: int | bytes, ttl: int | None) -> bool: ...
    def incr(self, key: bytes, by: int) -> int | None: ...
    def touch(self, key: bytes, ttl: int | None) -> bool: ...
    def delete(self, key: bytes) -> bool: ...
    def delete_many(self, keys: Sequence[bytes]) -> None: ...
    def keys(self, prefix: bytes) -> Iterator[bytes]: ...
    def clear(self, prefix: bytes) -> None: ...
    def close(self) -> None: ...


class StoreBackend:
    """A store of this process."""

    waits = False
    failures: tuple[type[BaseException], ...] = (Full, TooLarge)

    def __init__(self, store: Store) -> None:
        self.store = store

    def has(self, key: bytes) -> bool:
        return key in self.store

    def get(self, key: bytes) -> Data | None:
        return self.store._get_data(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Data]:
        read = self.store._get_data
        return {key: data for key in keys if (data := read(key)) is not None}

    def gets(self, key: bytes) -> tuple[bytes, int, int | bytes] | None:
        item = self.store.gets(key)
        return None if item is None else (item.value, item.flags, item.cas)

    def set(self, key: bytes, data: Data, ttl: int | None) -> None:
        self.store.set(key, data[0], ttl, flags=data[1])

    def set_many(self, items: dict[bytes, Data], ttl: int | None) -> list[bytes]:
        failed = []
        for key, (value, flags) in items.items():
            try:
                self.store.set(key, value, ttl, flags=flags)
            except self.failures:
                failed.append(key)
        return failed

    def add(self, key: bytes, data: Data, ttl: int | None) -> bool:
        return self.store.add(key, data[0], ttl, flags=data[1])

    def replace(self, key: bytes, data: Data, ttl: int | None) -> bool:
        return self.store.replace(key, data[0], ttl, flags=data[1])

    def cas(self, key: bytes, data: Data, cas: int | bytes, ttl: int | None) -> bool:
        return self.store.cas(key, data[0], int(cas), ttl, flags=data[1])

    def incr(self, key: bytes, by: int) -> int | None:
        try:
            return self.store.incr(key, by)
        except KeyError:
            return None

    def touch(self, key: bytes, ttl: int | None) -> bool:
        return self.store.touch(key, ttl)

    def delete(self, key: bytes) -> bool:
        return self.store.delete(key)

    def delete_many(self, keys: Sequence[bytes]) -> None:
        self.store.delete_many(keys)

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        return (key for key in self.store if key.startswith(prefix))

    def clear(self, prefix: bytes) -> None:
        if prefix:
            self.store.delete_many(list(self.keys(prefix)))
        else:
            self.store.clear()

    def close(self) -> None:
        """The store is the caller's to close."""


class _Raw:
    """A pymemcache serde that leaves values and flags as they are."""

    def serialize(self, key: Any, value: Data) -> Data:
        return value

    def deserialize(self, key: Any, value: bytes, flags: int) -> Data:
        return value, flags


def _address(url: str) -> str | tuple[str, int]:
    """pymemcache's address of `tcp://HOST:PORT` or `unix:PATH`."""
    parts = urlsplit(url)
    if parts.scheme == "unix" and parts.path:
        return parts.path
    if parts.scheme == "tcp" and parts.hostname and not parts.path:
        return parts.hostname, parts.port or 11211
    raise ValueError(f"not an address of a server: {url!r}; tcp://HOST:PORT or unix:PATH is")


def client_of(urls: Sequence[str]) -> Any:
    """A pymemcache client of those servers that any number of threads may share."""
    from pymemcache.client.base import PooledClient
    from pymemcache.client.hash import HashClient

    options: dict[str, Any] = {"default_noreply": False, "no_delay": True, "allow_unicode_keys": True}
    options |= {"connect_timeout": 5, "timeout": 5, "serde": _Raw()}
    if len(urls) == 1:
        return PooledClient(_address(urls[0]), **options)
    return HashClient([_address(url) for url in urls], use_pooling=True, **options)


class ClientBackend:
    """memcached servers, through pymemcache."""

    waits = True
    failures: tuple[type[BaseException], ...]

    def __init__(self, urls: Sequence[str]) -> None:
        try:
            from pymemcache.exceptions import MemcacheError, MemcacheServerError, MemcacheUnexpectedCloseError
        except ImportError as error:
            raise ImportError("a cache of servers needs the package pymemcache: pip install pymemcache") from error
        self._lost, self._refused = MemcacheUnexpectedCloseError, MemcacheServerError
        self.failures = (OSError, MemcacheError, Full, TooLarge)
        self.urls = list(urls)
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._client = client_of(self.urls)

    @property
    def client(self) -> Any:
        if self._pid != os.getpid():  # a child of fork() must not read the parent's replies
            self._open()
        return self._client

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._lost as error:
            raise ConnectionError("the server closed the connection") from error
        except self._refused as error:
            said = str(error.args[0], "utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else ""
            if "too large" in said:
                raise TooLarge(f"the server: {said}") from error
            if "out of memory" in said:
                raise Full(f"the server: {said}") from error
            raise

    @staticmethod
    def _expiry(ttl: int | None) -> int:
        if ttl is None:
            return 0
        return ttl if ttl <= RELATIVE_MAX_S else ttl + int(time.time())

    def _checked(self, key: bytes) -> bytes | str:
        """The text protocol ends a key at a blank, so such a key would be another command."""
        if not 0 < len(key) <= KEY_BYTES_MAX:
            raise ValueError(f"key must have 1 to {KEY_BYTES_MAX} bytes, not {len(key)}")
        if len(key.split()) != 1 or key.strip() != key or b"\0" in key:
            raise ValueError(f"key has blanks or zero bytes, which servers do not take: {key!r}")
        # Of several servers pymemcache chooses by the text of the key, and would take b"a" for another than "a".
        return key if len(self.urls) == 1 else key.decode()

    def has(self, key: bytes) -> bool:
        return self.get(key) is not None

    def get(self, key: bytes) -> Data | None:
        found: Data | None = self._call(self.client.get, self._checked(key))
        return found

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Data]:
        names = {self._checked(key): key for key in keys}
        found: dict[bytes | str, Data] = self._call(self.client.get_many, list(names))
        return {names[name]: data for name, data in found.items()}

    def gets(self, key: bytes) -> tuple[bytes, int, int | bytes] | None:
        data, cas = self._call(self.client.gets, self._checked(key))
        return None if data is None else (data[0], data[1], cas)

    def set(self, key: bytes, data: Data, ttl: int | None) -> None:
        self._call(self.client.set, self._checked(key), data, self._expiry(ttl))

    def set_many(self, items: dict[bytes, Data], ttl: int | None) -> list[bytes]:
        names = {self._checked(key): key for key in items}
        data = {name: items[key] for name, key in names.items()}
        failed: list[bytes | str] = self._call(self.client.set_many, data, self._expiry(ttl))
        return [names[name] for name in failed]

    def add(self, key: bytes, data: Data, ttl: int | None) -> bool:
        return bool(self._call(self.client.add, self._checked(key), data, self._expiry(ttl)))

    def replace(self, key: bytes, data: Data, ttl: int | None) -> bool:
        return bool(self._call(self.client.replace, self._checked(key), data, self._expiry(ttl)))

    def cas(self, key: bytes, data: Data, cas: int | bytes, ttl: int | None) -> bool:
        return bool(self._call(self.client.cas, self._checked(key), data, cas, self._expiry(ttl)))

    def incr(self, key: bytes, by: int) -> int | None:
        from pymemcache.exceptions import MemcacheClientError

        try:
            number: int | None = self._call(self.client.incr, self._checked(key), by)
        except MemcacheClientError as error:
            raise ValueError(f"the item of {key!r} is not a number") from error
        return number

    def touch(self, key: bytes, ttl: int | None) -> bool:
        return bool(self._call(self.client.touch, self._checked(key), self._expiry(ttl)))

    def delete(self, key: bytes) -> bool:
        return bool(self._call(self.client.delete, self._checked(key)))

    def delete_many(self, keys: Sequence[bytes]) -> None:
        self._call(self.client.delete_many, [self._checked(key) for key in keys])

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        raise TypeError("a server does not list its keys: len() and iteration need a tandem.Store")

    def clear(self, prefix: bytes) -> None:
        if prefix:
            raise TypeError("a server cannot clear one namespace: use another namespace, or a cache without one")
        self._call(self.client.flush_all)

    def close(self) -> None:
        self.client.close()


def backend_of(source: object) -> Backend:
    """`source` is a Store, the URL of a server, or several of them."""
    if isinstance(source, Store):
        return StoreBackend(source)
    if isinstance(source, str):
        return ClientBackend([source])
    if isinstance(source, Iterable):
        urls = list(source)
        if urls and all(isinstance(url, str) for url in urls):
            return ClientBackend(urls)
    raise TypeError(f"a cache needs a tandem.Store or URLs of servers, not {type(source).__name__}")
