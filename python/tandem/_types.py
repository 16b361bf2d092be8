"""What the native module raises and returns."""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import NamedTuple


class Error(Exception):
    """The base of this package's own exceptions."""


class Closed(Error):
    """The store has been closed."""


class Forked(Error):
    """The store was opened before a fork, by the parent."""


class TooManyThreads(Error):
    """More threads use the store than its `threads_max`."""


class TooLarge(Error, ValueError):
    """The item would be larger than the store's `item_max`. A set removes the old item, as memcached does."""


class Full(Error, MemoryError):
    """The store has no room, and may not evict or could not."""


class Item(NamedTuple):
    """A value as `Store.gets` returns it. `cas` changes with every change of the key."""

    value: bytes
    flags: int
    cas: int


class Stats(NamedTuple):
    """Of a store; memory in bytes. `items` counts those that have expired until their memory is taken back."""

    items: int
    item_bytes: int
    memory_used: int
    memory_limit: int
    index_bytes: int
    gets: int
    hits: int
    misses: int
    stores: int
    evictions: int
    expired: int


class StoreItems(ItemsView[str | bytes, bytes]):
    """A store's items; those that go meanwhile are left out."""

    def __init__(self, store: Mapping[str | bytes, bytes]) -> None:
        super().__init__(store)
        self._store = store

    def __iter__(self) -> Iterator[tuple[str | bytes, bytes]]:
        for key in self._store:
            value = self._store.get(key)
            if value is not None:
                yield key, value


class StoreValues(ValuesView[bytes]):
    """Its values likewise."""

    def __init__(self, store: Mapping[str | bytes, bytes]) -> None:
        super().__init__(store)
        self._store = store

    def __iter__(self) -> Iterator[bytes]:
        for _, value in StoreItems(self._store):
            yield value
