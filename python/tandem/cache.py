"""tandem.Cache: any Python value, in a store of this process or in memcached servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from tandem._backends import Backend, Data, backend_of
from tandem._core import Store
from tandem._memoize import KeyOf, Memoizer
from tandem._ttl import seconds
from tandem.serde import FLAG_INTEGER, DecodeError, Serializer, serializer

if TYPE_CHECKING:
    from tandem._memoize import Decorator

__all__ = ["Cache"]

T = TypeVar("T")
P = ParamSpec("P")
Ttl = float | timedelta | None
_ATTEMPTS = 1000


class Cache(MutableMapping[str, Any]):
    """A mapping of str to any Python value, which forgets: items expire and are evicted.

    `source` is a tandem.Store, the URL of a server (`tcp://HOST:PORT`, `unix:PATH`; needs pymemcache), or several URLs,
    over which keys are spread. `serializer` is "pickle", "json", "msgpack", or an object with pymemcache's
    serialize() and deserialize(). There is no default, as reading pickles from a store that others write to runs their
    code. `namespace` is put before each key. `on_error="miss"` counts failures in `errors`: of the network, values
    that are too large or for which there is no memory, and items that the serializer cannot read. A get is then a miss
    and a set does nothing. Mistakes of the caller, such as a key of a wrong type, raise in any case.

    Any number of threads may use a cache. len() and iteration walk through the whole store, and need one.
    """

    def __init__(
        self,
        source: Store | str | Iterable[str],
        serializer: str | Serializer,
        *,
        namespace: str = "",
        on_error: Literal["raise", "miss"] = "raise",
    ) -> None:
        if on_error not in ("raise", "miss"):
            raise ValueError(f"on_error must be 'raise' or 'miss', not {on_error!r}")
        self._serde = _serializer(serializer)
        self._backend: Backend = backend_of(source)
        self._prefix = _encoded(namespace)
        self._forgive: tuple[type[BaseException], ...] = ()
        if on_error == "miss":
            self._forgive = (*self._backend.failures, DecodeError)
        self._errors = 0
        self._lock = threading.Lock()

    @property
    def errors(self) -> int:
        """Failures that `on_error="miss"` has turned into misses."""
        return self._errors

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` where there is none."""
        found = self._read(key)
        return default if found is None else found[0]

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of those keys that have one, in one call."""
        names = {self._key(key): key for key in keys}
        values = {}
        for key, data in self._try({}, self._backend.get_many, list(names)).items():
            found = self._try(None, self._decoded, names[key], data)
            if found is not None:
                values[names[key]] = found[0]
        return values

    def set(self, key: str, value: Any, ttl: Ttl = None) -> None:
        """Sets the value, for `ttl` seconds from now (rounded up); None: until it is evicted."""
        self._try(None, self._backend.set, self._key(key), self._encoded(key, value), seconds(ttl))

    def set_many(self, items: Mapping[str, Any] | Iterable[tuple[str, Any]], ttl: Ttl = None) -> list[str]:
        """Sets all of them, in one call. Returns the keys that were not stored."""
        pairs = dict(items)
        names = {self._key(key): key for key in pairs}
        data = {key: self._encoded(name, pairs[name]) for key, name in names.items()}
        failed = self._try(list(names), self._backend.set_many, data, seconds(ttl))
        return [names[key] for key in failed]

    def add(self, key: str, value: Any, ttl: Ttl = None) -> bool:
        """Sets the value if the key has none. Returns whether it did."""
        return self._try(False, self._backend.add, self._key(key), self._encoded(key, value), seconds(ttl))

    def replace(self, key: str, value: Any, ttl: Ttl = None) -> bool:
        """Sets the value if the key has one. Returns whether it did."""
        return self._try(False, self._backend.replace, self._key(key), self._encoded(key, value), seconds(ttl))

    def incr(self, key: str, by: int = 1, initial: int | None = None, ttl: Ttl = None) -> int:
        """Adds `by` to an int atomically, and returns the sum.

        Without a value it sets `initial`, with `ttl`; None: KeyError. A value that is no int is a ValueError. Where
        the old or the new number is negative, or `by` is, the item gets `ttl`; else it keeps what it had.
        """
        if isinstance(by, bool) or not isinstance(by, int):
            raise TypeError(f"by must be an int, not {type(by).__name__}")
        name, lasts = self._key(key), seconds(ttl)
        result = self._try(initial if initial is not None else by, self._increment, name, by, initial, lasts)
        if result is None:
            raise KeyError(key)
        return result

    def touch(self, key: str, ttl: Ttl) -> bool:
        """Gives the item `ttl` seconds from now. Returns whether there was one."""
        return self._try(False, self._backend.touch, self._key(key), seconds(ttl))

    def delete(self, key: str) -> bool:
        """Removes the item. Returns whether there was one."""
        return self._try(False, self._backend.delete, self._key(key))

    def delete_many(self, keys: Iterable[str]) -> None:
        """Removes all of them, in one call."""
        self._try(None, self._backend.delete_many, [self._key(key) for key in keys])

    def clear(self) -> None:
        """Removes the items of the namespace; without a namespace, all that the store or the servers have."""
        self._try(None, self._backend.clear, self._prefix)

    def close(self) -> None:
        """Closes connections to servers; a later call opens them anew. A store stays open: it is the caller's."""
        self._backend.close()

    def pop(self, key: str, *default: Any) -> Any:
        """The value, which is removed; `default`, or KeyError, where there is none."""
        if len(default) > 1:
            raise TypeError(f"pop() takes at most 2 arguments, not {1 + len(default)}")
        found = self._read(key)
        if found is None or not self.delete(key):
            if default:
                return default[0]
            raise KeyError(key)
        return found[0]

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value; where there is none, `default`, which becomes the value."""
        for _ in range(_ATTEMPTS):
            found = self._read(key)
            if found is not None:
                return found[0]
            if self.add(key, default):
                break
            if self._forgive:  # the failure has been counted, and would be again
                break
        return default

    def memoize(
        self,
        ttl: Ttl,
        stale: float | timedelta = 0,
        typed: bool = False,
        *,
        name: str | None = None,
        key: KeyOf | None = None,
    ) -> Decorator:
        """A decorator that keeps a function's results for `ttl` seconds. It may be `async def`.

        Callers in this process that miss the same result wait for the one that computes it. With `stale`, a result is
        kept that much longer: one caller, of all processes that share the cache, computes it anew, and the others get
        the old one meanwhile. What the function raises is not kept.

        Arguments are told apart by value (None, numbers, str, bytes, dates, enums, UUIDs, and tuples, lists, sets and
        dicts of these); `typed` tells 1 from 1.0. For others, `self` among them, pass `key`, which makes a str of the
        arguments. Results are kept under the function's module and name, or `name`, which a lambda and a closure need.

        The function gets `cache_key(*args)`, `invalidate(*args)`, and `__wrapped__`.
        """
        return Memoizer(self, self._backend.waits, seconds(ttl), seconds(stale) if stale else 0, typed, name, key)

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, key: str) -> Any:
        found = self._read(key)
        if found is None:
            raise KeyError(key)
        return found[0]

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        return self._try(False, self._backend.has, self._key(key))

    def __iter__(self) -> Iterator[str]:
        start = len(self._prefix)
        return (_decoded(key[start:]) for key in self._backend.keys(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self._backend.keys(self._prefix))

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __repr__(self) -> str:
        return f"<tandem.Cache namespace={_decoded(self._prefix)!r} serializer={self._serde!r}>"

    def _read(self, key: str) -> tuple[Any] | None:
        name = self._key(key)
        try:  # without _try(), for half the time of a get
            data = self._backend.get(name)
            return None if data is None else (self._serde.deserialize(key, *data),)
        except self._forgive:
            self._count_error()
            return None

    def _key(self, key: str) -> bytes:
        if not isinstance(key, str):
            raise TypeError(f"key must be a str, not {type(key).__name__}")
        if not key:
            raise ValueError("key is empty")
        return self._prefix + key.encode("utf-8", "surrogateescape")

    def _encoded(self, key: str, value: Any) -> Data:
        data, flags = self._serde.serialize(key, value)
        return data.encode() if isinstance(data, str) else data, flags

    def _decoded(self, key: str, data: Data) -> tuple[Any] | None:
        return (self._serde.deserialize(key, *data),)

    def _try(self, default: T, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return function(*arguments, **named)
        except self._forgive:
            self._count_error()
            return default

    def _count_error(self) -> None:
        with self._lock:
            self._errors += 1

    def _increment(self, key: bytes, by: int, initial: int | None, ttl: int | None) -> int | None:
        for _ in range(_ATTEMPTS):
            item = self._backend.gets(key)
            if item is None:
                if initial is None:
                    return None
                if self._backend.add(key, (b"%d" % initial, FLAG_INTEGER), ttl):
                    return initial
                continue
            old = _number(key, item[0], item[1])
            if old >= 0 and by >= 0 and old + by < 1 << 64:
                number = self._backend.incr(key, by)  # what another has made of it meanwhile is counted, too
                if number is not None:
                    return number
            elif self._backend.cas(key, (b"%d" % (old + by), FLAG_INTEGER), item[2], ttl):
                return old + by
        raise TimeoutError(f"the item of {key!r} changes all the time")


def _number(key: bytes, value: bytes, flags: int) -> int:
    if flags == FLAG_INTEGER:
        return int(value)
    raise ValueError(f"the item of {key!r} is not an int")


def _serializer(named: str | Serializer) -> Serializer:
    return serializer(named)


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _decoded(key: bytes) -> str:
    """Keys that others have written may be any bytes; as of file names, they survive the way there and back."""
    return key.decode("utf-8", "surrogateescape")
