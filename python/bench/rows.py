"""Rows beside the C call, lmdb's getmulti and a second thread: 64-byte rows of 8-byte keys, in random order."""

from __future__ import annotations

import contextlib
import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tandem
from turns import Subject

ROW_BYTES = 64
STORED = 2  # TANDEM_STORED
MEMORY = 1 << 30
ROWS, GETMULTI_ROWS = 1 << 19, 20_480  # a turn


class Options(ctypes.Structure):
    """tandem_options of tandem/tandem.h."""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("memory_bytes", ctypes.c_uint64),
        ("item_bytes_max", ctypes.c_uint64),
        ("hash_seed", ctypes.c_uint64),
        ("memory_file", ctypes.c_char_p),
        ("numbers", ctypes.c_uint32 * 6),
        ("gpu_value_bytes", ctypes.c_uint64),
        ("gpu", ctypes.c_char_p),
        ("preset", ctypes.c_char_p),
        ("gpus", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("index", ctypes.c_char_p),
    ]


class Keys(ctypes.Structure):
    """tandem_keys."""

    _fields_ = [
        ("bytes", ctypes.c_void_p),
        ("key_bytes", ctypes.c_size_t),
        ("stride", ctypes.c_ssize_t),
        ("count", ctypes.c_size_t),
    ]


class CStore:
    """The wheel's library without the module: what its calls cost themselves."""

    def __init__(self) -> None:
        assert tandem.__file__ is not None
        self.library = ctypes.CDLL(str(Path(tandem.__file__).with_name("libtandem.so.0")))
        self.library.tandem_open.restype = ctypes.c_void_p
        options, error = Options(), ctypes.create_string_buffer(256)
        self.library.tandem_options_init(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
        options.memory_bytes, options.item_bytes_max = MEMORY, 64 << 20
        store = self.library.tandem_open(ctypes.byref(options), error, ctypes.c_size_t(256))
        if store is None:
            raise RuntimeError(error.value.decode())
        self.store = ctypes.c_void_p(store)

    def close(self) -> None:
        self.library.tandem_close(self.store)

    def keys(self, keys: np.ndarray[Any, Any]) -> Keys:
        return Keys(keys.ctypes.data, keys.itemsize, keys.itemsize, len(keys))

    def set_rows(self, keys: Keys, rows: ctypes.c_void_p, codes: ctypes.c_void_p) -> None:
        width, ttl = ctypes.c_size_t(ROW_BYTES), ctypes.c_int64(0)
        stride = ctypes.c_ssize_t(ROW_BYTES)
        if self.library.tandem_set_rows(self.store, ctypes.byref(keys), rows, width, stride, ttl, codes) != 0:
            raise RuntimeError("tandem_set_rows")

    def get_rows(self, keys: Keys, rows: ctypes.c_void_p, found: ctypes.c_void_p) -> None:
        width, stride = ctypes.c_size_t(ROW_BYTES), ctypes.c_ssize_t(ROW_BYTES)
        if self.library.tandem_get_rows(self.store, ctypes.byref(keys), rows, width, stride, found, None) != 0:
            raise RuntimeError("tandem_get_rows")


def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)  # holds the array


class Rows:
    """Two stores of the same rows, one behind Python and one behind C, and an lmdb beside them."""

    def __init__(self, count: int, batch: int, folder: str) -> None:
        import lmdb

        generator = np.random.default_rng(count)
        self.batch = batch
        # Batches of keys for each of two threads.
        self.batches = [
            [generator.integers(0, count, batch, np.uint64) for _ in range(ROWS // batch)] for _ in range(2)
        ]
        self.rows = generator.integers(0, 255, (batch, ROW_BYTES), np.uint8)
        self.store, self.c = tandem.Store(memory=MEMORY), CStore()
        every = generator.permutation(count).astype(np.uint64)
        rows, codes = np.zeros((count, ROW_BYTES), np.uint8), np.zeros(count, np.uint8)
        assert self.store.set_rows(every, rows).all()
        self.c.set_rows(self.c.keys(every), pointer(rows), pointer(codes))
        self.lmdb: Any = lmdb.open(f"{folder}/lmdb", map_size=1 << 31, sync=False)
        with self.lmdb.begin(write=True) as transaction:
            row = bytes(ROW_BYTES)
            for key in range(count):
                transaction.put(key.to_bytes(8, "little"), row)

    def close(self) -> None:
        self.store.close()
        self.c.close()
        self.lmdb.close()

    def get(self, number: int) -> Any:
        """A turn of thread `number`."""
        out, found = np.zeros((self.batch, ROW_BYTES), np.uint8), np.zeros(self.batch, bool)

        def turn() -> int:
            get_rows = self.store.get_rows
            for keys in self.batches[number]:
                get_rows(keys, out=out, found=found)
            assert found.all()
            return len(self.batches[number]) * self.batch

        return turn

    def set(self, number: int) -> Any:
        def turn() -> int:
            set_rows = self.store.set_rows
            for keys in self.batches[number]:
                stored = set_rows(keys, self.rows)
            assert stored.all()
            return len(self.batches[number]) * self.batch

        return turn

    def c_get(self) -> Any:
        out, found = np.zeros((self.batch, ROW_BYTES), np.uint8), np.zeros(self.batch, np.uint8)
        keys = [self.c.keys(each) for each in self.batches[0]]
        to, mask = pointer(out), pointer(found)

        def turn() -> int:
            for each in keys:
                self.c.get_rows(each, to, mask)
            assert (found == 1).all()
            return len(keys) * self.batch

        return turn

    def c_set(self) -> Any:
        codes = np.zeros(self.batch, np.uint8)
        keys = [self.c.keys(each) for each in self.batches[0]]
        rows, to = pointer(self.rows), pointer(codes)

        def turn() -> int:
            for each in keys:
                self.c.set_rows(each, rows, to)
            assert (codes == STORED).all()
            return len(keys) * self.batch

        return turn

    def getmulti(self) -> Any:
        names = [key.tobytes() for key in np.concatenate(self.batches[0])[:GETMULTI_ROWS]]
        parts = [names[at : at + self.batch] for at in range(0, len(names), self.batch)]

        def turn() -> int:
            with self.lmdb.begin() as transaction, transaction.cursor() as cursor:
                for part in parts:
                    cursor.getmulti(part)
            return len(names)

        return turn


def gets(rows: Rows) -> list[Subject]:
    return [
        Subject("tandem", rows.get(0)),
        Subject("the C call", rows.c_get()),
        Subject("lmdb getmulti", rows.getmulti()),
        Subject("tandem, two threads", rows.get(0), threads=(rows.get(0), rows.get(1))),
    ]


def sets(rows: Rows) -> list[Subject]:
    return [
        Subject("tandem", rows.set(0)),
        Subject("the C call", rows.c_set()),
        Subject("tandem, two threads", rows.set(0), threads=(rows.set(0), rows.set(1))),
    ]


@contextlib.contextmanager
def opened(count: int, batch: int) -> Iterator[Rows]:
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        rows = Rows(count, batch, folder)
        try:
            yield rows
        finally:
            rows.close()
