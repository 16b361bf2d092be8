"""Single calls beside peers: gets and sets of 8-byte keys and 64-byte values, in random order."""

from __future__ import annotations

import contextlib
import operator
import random
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import tandem
from turns import Subject

VALUE = bytes(range(64))
GETS, SLOW_GETS, PUTS, SLOW_SETS = 50_000, 2_000, 5_000, 300
# diskcache writes its items one by one; its figures are of that many at most.
DISKCACHE_KEYS = 10_000


class Points:
    """The stores, filled with `count` keys, and the keys of a turn."""

    def __init__(self, count: int, folder: str) -> None:
        import cachetools
        import lmdb

        keys = [number.to_bytes(8, "little") for number in range(count)]
        self.random = random.Random(count)
        self.keys = keys
        self.store = tandem.Store(memory="1GiB")
        self.dict: dict[bytes, bytes] = dict.fromkeys(keys, VALUE)
        self.lru: Any = cachetools.LRUCache(count)
        # Without syncing, as the other stores do not sync either.
        self.lmdb: Any = lmdb.open(f"{folder}/lmdb", map_size=1 << 31, sync=False)
        with self.lmdb.begin(write=True) as transaction:
            for key in keys:
                self.store[key] = VALUE
                self.lru[key] = VALUE
                transaction.put(key, VALUE)
        self.disk: Any = None
        if count <= DISKCACHE_KEYS:
            import diskcache

            self.disk = diskcache.Cache(f"{folder}/diskcache")
            with self.disk.transact():
                for key in keys:
                    self.disk.set(key, VALUE)

    def close(self) -> None:
        self.store.close()
        self.lmdb.close()
        if self.disk is not None:
            self.disk.close()

    def some(self, count: int) -> list[bytes]:
        return self.random.choices(self.keys, k=count)


def calls(some: Callable[[int], list[bytes]], count: int, call: Callable[[bytes], Any]) -> Callable[[], int]:
    """A turn: call(key) for so many keys, which are drawn outside of the time that counts."""
    drawn = some(count)

    def turn() -> int:
        for key in drawn:
            call(key)
        return count

    return turn


def item_calls(some: Callable[[int], list[bytes]], count: int, mapping: Any) -> Callable[[], int]:
    drawn = some(count)

    def turn() -> int:
        for key in drawn:
            mapping[key]
        return count

    return turn


def gets(points: Points) -> list[Subject]:
    def in_one_transaction() -> int:
        with points.lmdb.begin() as transaction:
            get = transaction.get
            for key in drawn:
                get(key)
        return len(drawn)

    def one_each() -> int:
        begin = points.lmdb.begin
        for key in drawn:
            with begin() as transaction:
                transaction.get(key)
        return len(drawn)

    def longer(count: int) -> list[bytes]:
        return [VALUE + b"."] * count

    drawn = points.some(GETS)
    subjects = [
        Subject("tandem", calls(points.some, GETS, points.store.get)),
        Subject("lmdb, in one transaction", in_one_transaction),
        Subject("lmdb, one transaction each", one_each),
        Subject("cachetools LRU", item_calls(points.some, GETS, points.lru)),
        Subject("dict", item_calls(points.some, GETS, points.dict)),
        # What no get can be faster than: a method's call, and one that makes a value's bytes.
        Subject("dict.get", calls(points.some, GETS, points.dict.get)),
        Subject("a call that copies 64 bytes", calls(longer, GETS, operator.itemgetter(slice(len(VALUE))))),
    ]
    if points.disk is not None:
        subjects.append(Subject("diskcache", calls(points.some, SLOW_GETS, points.disk.get)))
    return subjects


def sets(points: Points) -> list[Subject]:
    """Over values that are there."""

    def in_one_transaction() -> int:
        with points.lmdb.begin(write=True) as transaction:
            put = transaction.put
            for key in drawn:
                put(key, VALUE)
        return len(drawn)

    def one_each(key: bytes) -> None:
        with points.lmdb.begin(write=True) as transaction:
            transaction.put(key, VALUE)

    def lru(key: bytes) -> None:
        points.lru[key] = VALUE

    drawn = points.some(GETS)
    store_set = points.store.set
    subjects = [
        Subject("tandem", calls(points.some, GETS, lambda key: store_set(key, VALUE))),
        Subject("lmdb, in one transaction", in_one_transaction),
        Subject("lmdb, one transaction each", calls(points.some, PUTS, one_each)),
        Subject("cachetools LRU", calls(points.some, GETS, lru)),
    ]
    if points.disk is not None:
        disk_set = points.disk.set
        subjects.append(Subject("diskcache", calls(points.some, SLOW_SETS, lambda key: disk_set(key, VALUE))))
    return subjects


@contextlib.contextmanager
def opened(count: int) -> Iterator[Points]:
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        points = Points(count, folder)
        try:
            yield points
        finally:
            points.close()
