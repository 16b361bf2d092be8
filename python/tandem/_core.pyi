from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, Sequence, ValuesView
import datetime
import os
import types
from typing import Any, NoReturn, TypeVar, overload

from typing_extensions import Buffer, Self

import tandem._types

_Key = TypeVar("_Key", bound=str | bytes)
_T = TypeVar("_T")
__version__: str

class Store(MutableMapping[str | bytes, bytes]):
    """
    A store in this process: a mapping from keys (str, as UTF-8, or bytes; 1 to 250 bytes) to bytes. A full store evicts
    what was not used lately; items expire at their ttl. It may be used from all threads at once.
    """

    def __init__(
        self,
        *,
        memory: int | str = "1GiB",
        item_max: int | str | None = None,
        memory_file: str | os.PathLike[str] | None = None,
        evict: bool = True,
        ordered: bool = False,
        threads_max: int = 1024,
        gpus: int = 0,
        gpu: str = "cuda",
        preset: str = "auto",
        gpu_values: int | str = 0,
        index: str | None = None,
    ) -> None:
        """
        Opens a store.

        memory: of items and index, 4 MiB to 128 GiB. item_max: the largest item, key and header included; 64 MiB, and
        at most half of `memory`. memory_file: items lie in this file and outlive the process. evict: False: a full
        store refuses with `Full`. ordered: keeps the keys in order, for `scan`. threads_max: that may use the store at
        once. index: its kind, in place of the preset's: cuckoo, set_associative (of a fixed size, evicts), hash_tree
        (ordered), slab_list. Sizes are bytes or a text with a unit, a power of 1024.
        """

    def __getitem__(self, key: str | bytes, /) -> bytes: ...
    def __setitem__(self, key: str | bytes, value: Buffer, /) -> None: ...
    def __delitem__(self, key: str | bytes, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    @overload
    def get(self, key: str | bytes, default: None = None) -> bytes | None:
        """The value, or `default`."""
    @overload
    def get(self, key: str | bytes, default: bytes) -> bytes: ...
    @overload
    def get(self, key: str | bytes, default: bytes | _T) -> bytes | _T: ...
    def set(
        self, key: str | bytes, value: Buffer, ttl: float | datetime.timedelta | None = None, *, flags: int = 0
    ) -> None:
        """Stores the value. ttl: seconds from now, rounded up; None: it does not expire."""

    def _get_data(self, key: str | bytes, /) -> tuple[bytes, int] | None: ...
    def close(self) -> None:
        """
        Closes the store and frees its memory. It waits for batches that other threads are in; every later call raises
        `Closed`. Closing again is nothing.
        """

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None: ...
    def __repr__(self) -> str: ...
    def __reduce__(self) -> NoReturn: ...
    def gets(self, key: str | bytes) -> tandem._types.Item | None:
        """The value with its flags and cas, or None."""

    def get_into(self, key: str | bytes, out: Buffer) -> int | None:
        """
        Copies the value to the start of `out`, once, and returns its length; None if there is none. ValueError if `out`
        is shorter: nothing is copied then.
        """

    def add(
        self, key: str | bytes, value: Buffer, ttl: float | datetime.timedelta | None = None, *, flags: int = 0
    ) -> bool:
        """Stores the value if there is none. Whether it did."""

    def replace(
        self, key: str | bytes, value: Buffer, ttl: float | datetime.timedelta | None = None, *, flags: int = 0
    ) -> bool:
        """Stores the value if there is one. Whether it did."""

    def exchange(
        self, key: str | bytes, value: Buffer, ttl: float | datetime.timedelta | None = None, *, flags: int = 0
    ) -> bytes | None:
        """
        Stores the value and returns the one that was there, both at once; None if there was none. What is refused
        leaves the old value.
        """

    def append(self, key: str | bytes, value: Buffer) -> bool:
        """Adds to the end of a value; its flags and ttl stay. False if there is none."""

    def prepend(self, key: str | bytes, value: Buffer) -> bool:
        """The same in front of it."""

    def cas(
        self,
        key: str | bytes,
        value: Buffer,
        cas: int,
        ttl: float | datetime.timedelta | None = None,
        *,
        flags: int = 0,
    ) -> bool:
        """Stores the value if the item is still the one that `gets` returned with this `cas`. Whether it did."""

    def incr(
        self, key: str | bytes, by: int = 1, initial: int | None = None, ttl: float | datetime.timedelta | None = None
    ) -> int:
        """
        Adds to a decimal number of 64 bits, and returns the new one: above it wraps, below 0 it stops. Without a value
        it stores and returns `initial`, with that ttl; KeyError if that is None.
        """

    def delete(self, key: str | bytes) -> bool:
        """Removes the item. Whether there was one."""

    def touch(self, key: str | bytes, ttl: float | datetime.timedelta | None) -> bool:
        """Gives the item another ttl; None: it does not expire. Whether there is one."""

    @overload
    def pop(self, key: str | bytes) -> bytes:
        """Removes the item and returns its value, both at once; without one `default`, or KeyError."""
    @overload
    def pop(self, key: str | bytes, default: bytes) -> bytes: ...
    @overload
    def pop(self, key: str | bytes, default: bytes | _T) -> bytes | _T: ...
    def setdefault(self, key: str | bytes, default: Buffer) -> bytes:
        """The value; `default`, which is stored, if there is none."""

    def get_many(self, keys: Iterable[_Key]) -> dict[_Key, bytes]:
        """The values of the keys that have one, by the keys as given."""

    def set_many(
        self,
        items: Mapping[_Key, Buffer] | Iterable[tuple[_Key, Buffer]],
        ttl: float | datetime.timedelta | None = None,
    ) -> list[_Key]:
        """Stores the values, in order, and returns the keys that were not stored: too large, or no room."""

    def delete_many(self, keys: Iterable[str | bytes]) -> int:
        """Removes the items and returns how many there were."""

    def touch_many(self, keys: Iterable[str | bytes], ttl: float | datetime.timedelta | None) -> int:
        """Gives the items another ttl and returns how many there were."""

    def stats(self) -> tandem._types.Stats:
        """What the store holds and has done."""

    def __len__(self) -> int:
        """
        How many items there are. Above 65,536 they are not counted: those that have expired or were cleared belong to
        it until their memory is taken back.
        """

    def clear(self) -> None:
        """Removes every item."""

    def __iter__(self) -> Iterator[bytes]:
        """The keys that the store has now. Items may be evicted or expire before they are reached."""

    def scan(
        self,
        prefix: str | bytes = b"",
        start: str | bytes | None = None,
        stop: str | bytes | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """
        Items in the order of their keys' bytes, from `start` up to but not including `stop`. Each thousand is a
        snapshot. ValueError: the store was opened without ordered=True.
        """

    def get_rows(
        self,
        keys: Any,
        dtype: Any = None,
        shape: int | Sequence[int] | None = None,
        *,
        out: Any = None,
        found: Any = None,
    ) -> tuple[Any, Any]:
        """
        Copies a value of fixed size for each key, and returns (values, found). keys: integers (their bytes, little-
        endian), S or V of 1 to 250 bytes at full width, or uint8[n, k]. Into `out`, whose rows are contiguous, or a new
        array of `dtype` and `shape` a row. A row stays as it was, 0 in a new array, where there is no value of that
        many bytes. found: bool[n]; in a uint8 array of your own 2 tells that the value has another length.
        """

    def set_rows(self, keys: Any, values: Any, ttl: float | datetime.timedelta | None = None) -> Any:
        """
        Stores a row of `values` for each key, in order: of equal keys the last remains. Returns bool[n]: stored. Dtype
        and shape are not kept.
        """

    def remove_rows(self, keys: Any) -> Any:
        """Removes the items. Returns bool[n]: there was one."""

    def touch_rows(self, keys: Any, ttl: float | datetime.timedelta | None) -> Any:
        """Gives the items another ttl; None: they do not expire. Returns bool[n]: there is one."""

    def keys(self) -> KeysView[str | bytes]: ...
    def values(self) -> ValuesView[bytes]: ...
    def items(self) -> ItemsView[str | bytes, bytes]: ...
    def popitem(self) -> tuple[str | bytes, bytes]:
        """Removes an item and returns it."""
