"""cachelib's interface over tandem.Cache, for Flask-Caching and others that take a cachelib cache.

Flask-Caching (2.5 and newer): `CACHE_TYPE = "tandem.contrib.cachelib.TandemCache"`, with arguments in `CACHE_OPTIONS`:
`{"source": "tcp://127.0.0.1:11211"}`.

Beyond cachelib's own backends: `inc` and `dec` are atomic, and `touch`, `touch_many` give items more time without
sending their values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cachelib.base import BaseCache
from tandem._ttl import seconds
from tandem.cache import Cache

if TYPE_CHECKING:
    from tandem._core import Store
    from tandem.serde import Serializer

__all__ = ["TandemCache"]

_KEY_BYTES_MAX = 250


class TandemCache(BaseCache):
    """A cachelib cache in a store of this process, or in memcached servers.

    `source`, `serializer` and `on_error` are those of tandem.Cache; here failures are misses unless told otherwise, as
    in cachelib's other backends. `key_prefix` is put before each key. Keys that servers do not take, longer than 250
    bytes or with blanks, are kept under their SHA-256.
    """

    def __init__(
        self,
        source: Store | str | Iterable[str],
        serializer: str | Serializer = "pickle",
        default_timeout: int | timedelta = 300,
        key_prefix: str | None = None,
        on_error: str = "miss",
        ignore_delete_many_errors: bool = True,
    ) -> None:
        super().__init__(0 if not default_timeout else seconds(default_timeout) or 0)
        self.ignore_delete_many_errors = ignore_delete_many_errors  # cachelib has it since 0.16
        self.key_prefix = key_prefix or ""
        self.cache = Cache(source, serializer, on_error=on_error)  # type: ignore[arg-type]

    def get(self, key: str) -> Any:
        return self.cache.get(self._key(key))

    def get_many(self, *keys: str) -> list[Any]:
        names = [self._key(key) for key in keys]
        values = self.cache.get_many(names)
        return [values.get(name) for name in names]

    def set(self, key: str, value: Any, timeout: int | timedelta | None = None) -> bool:
        return self.set_many({key: value}, timeout) == [key]

    def set_many(self, mapping: dict[str, Any], timeout: int | timedelta | None = None) -> list[Any]:
        names = {self._key(key): key for key in mapping}
        failed = set(self.cache.set_many({name: mapping[key] for name, key in names.items()}, self._ttl(timeout)))
        return [key for name, key in names.items() if name not in failed]

    def add(self, key: str, value: Any, timeout: int | timedelta | None = None) -> bool:
        return self.cache.add(self._key(key), value, self._ttl(timeout))

    def delete(self, key: str) -> bool:
        return self.cache.delete(self._key(key))

    def delete_many(self, *keys: str) -> list[Any]:
        names = [self._key(key) for key in keys]
        self.cache.delete_many(names)
        left = self.cache.get_many(names)
        failed = [key for key, name in zip(keys, names, strict=True) if name in left]
        if failed and not self.ignore_delete_many_errors:
            raise RuntimeError(f"Failed to delete keys: {failed}")
        return [key for key in keys if key not in failed]

    def has(self, key: str) -> bool:
        return self._key(key) in self.cache

    def clear(self) -> bool:
        self.cache.clear()
        return True

    def inc(self, key: str, delta: int = 1) -> int | None:
        """Adds `delta` atomically. An item that was there keeps its time unless a number is
        negative."""
        return self.cache.incr(self._key(key), delta, initial=delta, ttl=self._ttl(None))

    def dec(self, key: str, delta: int = 1) -> int | None:
        return self.inc(key, -delta)

    def touch(self, key: str, timeout: int | timedelta | None = None) -> bool:
        """Gives an item `timeout` from now, without reading it. Returns whether there was one."""
        return self.cache.touch(self._key(key), self._ttl(timeout))

    def touch_many(self, *keys: str, timeout: int | timedelta | None = None) -> list[str]:
        """Gives all of them `timeout` from now. Returns those that there were."""
        ttl = self._ttl(timeout)
        return [key for key in keys if self.cache.touch(self._key(key), ttl)]

    def close(self) -> None:
        """Closes connections to servers; a later call opens them anew."""
        self.cache.close()

    def _ttl(self, timeout: int | timedelta | None) -> int | None:
        """cachelib's 0 is never."""
        lasts = self.default_timeout if timeout is None else timeout
        return seconds(lasts) if lasts else None

    def _key(self, key: str) -> str:
        name = self.key_prefix + key
        if len(name.encode()) <= _KEY_BYTES_MAX and name.isprintable() and " " not in name and name:
            return name
        return f"{self.key_prefix if name != self.key_prefix else ''}sha256:{hashlib.sha256(name.encode()).hexdigest()}"
