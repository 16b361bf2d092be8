"""Results of functions, kept in a cache: `tandem.Cache.memoize`.

A kept result is the pair (time until which it is fresh, value). The item lives `stale` seconds longer than that, during
which the caller that adds the lease, an item of its own, computes anew, and all other callers take the old value.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from datetime import date, datetime, timedelta, timezone
from datetime import time as time_of_day
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Complex, Number, Rational, Real
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import UUID

if TYPE_CHECKING:
    import asyncio

    from tandem.cache import Cache

F = TypeVar("F", bound=Callable[..., Any])
KeyOf = Callable[..., str]

_NAME_MAX = 100


class Decorator(Protocol):
    def __call__(self, function: F) -> F: ...


class Memoizer:
    """What `memoize` was told, and the decorator."""

    def __init__(
        self,
        cache: Cache,
        waits: bool,
        ttl: int | None,
        stale: int | None,
        typed: bool,
        name: str | None,
        key: KeyOf | None,
    ) -> None:
        if ttl is None and stale:
            raise ValueError("stale needs a ttl: a result that never expires is never stale")
        self.cache, self.waits = cache, waits
        self.ttl, self.stale = ttl, stale or 0
        self.typed, self.name, self.key = typed, name, key

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("memoize: what a generator yields cannot be kept; return a list")
        self.key_of = self._key_maker(function)
        wrapper: Any = self._async(function) if inspect.iscoroutinefunction(function) else self._sync(function)
        wrapper = functools.wraps(function)(wrapper)
        wrapper.cache_key = self.key_of
        wrapper.invalidate = lambda *args, **kwargs: self.cache.delete(self.key_of(*args, **kwargs))
        return cast(F, wrapper)

    def _key_maker(self, function: Callable[..., Any]) -> KeyOf:
        name = self.name
        if name is None:
            qualname = getattr(function, "__qualname__", "<lambda>")
            if "<lambda>" in qualname or getattr(function, "__closure__", None):
                raise ValueError(
                    "memoize: a lambda or closure needs name=, as its own name does not tell it from others"
                )
            name = f"{function.__module__}.{qualname}"
        # Names of any length and script, and arguments of any size, make a key that every server takes.
        shown = name if name.isascii() and name.isprintable() and " " not in name and len(name) <= _NAME_MAX else "memo"
        signature, typed, own = inspect.signature(function), self.typed, self.key

        def key_of(*args: Any, **kwargs: Any) -> str:
            digest = hashlib.blake2b(repr(name).encode(), digest_size=24)
            if own is not None:
                digest.update(own(*args, **kwargs).encode("utf-8", "surrogatepass"))
            else:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                digest.update(canonical(bound.arguments, typed))
            return f"{shown}:{digest.hexdigest()}"

        return key_of

    def read(self, key: str) -> tuple[Any, bool] | None:
        """The kept result, and whether it is fresh; without `stale` only a fresh one, which its item may outlive."""
        entry = self.cache.get(key)
        if not isinstance(entry, (tuple, list)) or len(entry) != 2 or not isinstance(entry[0], (int, float)):
            return None
        is_fresh = time.time() < entry[0]
        return (entry[1], is_fresh) if is_fresh or self.stale else None

    def write(self, key: str, value: Any) -> None:
        if self.ttl is None:
            self.cache.set(key, (1e300, value))
        else:
            self.cache.set(key, (time.time() + self.ttl, value), self.ttl + self.stale)

    def take_lease(self, key: str) -> bool:
        """A lease that its owner does not return, because it was killed, ends with the old value."""
        return self.cache.add(f"{key}:lease", b"", self.stale)

    def return_lease(self, key: str) -> None:
        self.cache.delete(f"{key}:lease")

    def _sync(self, function: Callable[..., Any]) -> Callable[..., Any]:
        flights = _ThreadFlights()

        def compute(key: str, args: Any, kwargs: Any) -> Any:
            entry = self.read(key)  # another may have computed it since
            if entry is not None and entry[1]:
                return entry[0]
            value = function(*args, **kwargs)
            self.write(key, value)
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            key = self.key_of(*args, **kwargs)
            while True:
                entry = self.read(key)
                if entry is not None and (entry[1] or not self.take_lease(key)):
                    return entry[0]
                if entry is not None:
                    try:
                        return compute(key, args, kwargs)
                    finally:
                        self.return_lease(key)
                flight, leads = flights.join(key)
                if leads:
                    with flight:
                        return compute(key, args, kwargs)
                if flight.owner == threading.get_ident():  # the function calls itself with the same arguments
                    return function(*args, **kwargs)
                flight.done.wait()
                if flight.computed and self.read(key) is None:  # it could not be kept: do not queue for it
                    return function(*args, **kwargs)

        return call

    def _async(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        import asyncio  # takes longer than all else that `import tandem` does

        flights = _TaskFlights()

        async def ask(method: Callable[..., Any], *arguments: Any) -> Any:
            """A store answers at once; a network does not, and pymemcache blocks its thread meanwhile."""
            return await asyncio.to_thread(method, *arguments) if self.waits else method(*arguments)

        async def compute(key: str, args: Any, kwargs: Any) -> Any:
            entry = await ask(self.read, key)
            if entry is not None and entry[1]:
                return entry[0]
            value = await function(*args, **kwargs)
            await ask(self.write, key, value)
            return value

        async def call(*args: Any, **kwargs: Any) -> Any:
            key = self.key_of(*args, **kwargs)
            while True:
                entry = await ask(self.read, key)
                if entry is not None and (entry[1] or not await ask(self.take_lease, key)):
                    return entry[0]
                if entry is not None:
                    try:
                        return await compute(key, args, kwargs)
                    finally:
                        await ask(self.return_lease, key)
                flight, leads = flights.join(key)
                if leads:
                    with flight:
                        return await compute(key, args, kwargs)
                if flight.owner is asyncio.current_task():
                    return await function(*args, **kwargs)
                await flight.done.wait()
                if flight.computed and await ask(self.read, key) is None:
                    return await function(*args, **kwargs)

        return call


class _Flight:
    """One computation, for which other callers wait. As a context manager it is its owner's."""

    def __init__(self, done: Any, owner: Any, leave: Callable[[], None]) -> None:
        self.done, self.owner, self._leave = done, owner, leave
        self.computed = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        self.computed = kind is None
        self._leave()
        self.done.set()


class _ThreadFlights:
    """The computations of this process by key."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    def join(self, key: str) -> tuple[_Flight, bool]:
        """The flight of the key, and whether the caller has begun it."""
        if self._pid != os.getpid():  # a child of fork(), where the threads that compute are not
            self._reset()
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                return flight, False
            flight = _Flight(threading.Event(), threading.get_ident(), lambda: self._leave(key))
            self._flights[key] = flight
            return flight, True

    def _leave(self, key: str) -> None:
        with self._lock:
            del self._flights[key]


class _TaskFlights:
    """The computations of each event loop by key."""

    def __init__(self) -> None:
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Flight]]
        self._loops = weakref.WeakKeyDictionary()

    def join(self, key: str) -> tuple[_Flight, bool]:
        import asyncio

        flights = self._loops.setdefault(asyncio.get_running_loop(), {})
        flight = flights.get(key)
        if flight is not None:
            return flight, False
        flight = _Flight(asyncio.Event(), asyncio.current_task(), lambda: flights.__delitem__(key))
        flights[key] = flight
        return flight, True


# Their repr() has all of them, in one form.
_PLAIN = (type(None), date, datetime, time_of_day, timedelta, timezone, UUID)


def canonical(value: Any, typed: bool) -> bytes:
    """Bytes that equal values share, in every process; pickle's differ with which strings are the same object."""
    if isinstance(value, (tuple, list)):
        return _joined(b"T" if isinstance(value, tuple) else b"L", [canonical(each, typed) for each in value])
    if isinstance(value, (set, frozenset)):
        return _joined(b"S", sorted(canonical(each, typed) for each in value))
    if isinstance(value, dict):
        pairs = sorted((canonical(key, typed), canonical(each, typed)) for key, each in value.items())
        return _joined(b"D", [part for pair in pairs for part in pair])
    if isinstance(value, Enum):
        return f"E{type(value).__module__}.{type(value).__qualname__}.{value.name}".encode()
    if isinstance(value, str):
        plain = b"s" + value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        plain = b"b" + value
    elif isinstance(value, (Number, Decimal)):
        plain = b"n" + _number(value).encode()
    elif type(value) in _PLAIN:
        plain = b"r" + repr(value).encode()
    else:
        raise TypeError(f"memoize: an argument of type {type(value).__name__} cannot be a part of a key; pass key=")
    if not typed:
        return plain
    return _joined(b"Y", [f"{type(value).__module__}.{type(value).__qualname__}".encode(), plain])


def _number(value: Any) -> str:
    """1, 1.0, True and Decimal(1) are equal and share their results unless `typed`."""
    if isinstance(value, Complex) and not isinstance(value, Real):
        return _number(value.real) if not value.imag else f"{_number(value.real)},{_number(value.imag)}j"
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        return repr(float(value))
    exact = Fraction(value) if isinstance(value, (float, Decimal, Rational)) else Fraction(int(value))
    return str(exact)


def _joined(kind: bytes, parts: list[bytes]) -> bytes:
    """Each part with its length, so that no two sequences of parts make the same bytes."""
    return kind + b"%d" % len(parts) + b"".join(b":%d:" % len(part) + part for part in parts)
