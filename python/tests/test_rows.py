"""Rows beside single calls: every kind of key, dtype, stride and buffer."""

import array
import ctypes
from typing import Any

import numpy as np
import pytest
import tandem

DTYPES = ["?", "i1", "u1", "<i2", ">i2", "<u4", "<i8", "<f2", "<f4", ">f8", "<c8", "<c16", "S7", "V5", "M8[s]"]


def single(store: tandem.Store, key: np.ndarray[Any, Any] | np.generic) -> bytes | None:
    return store.get(key.tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 4)])
def test_values_of_every_dtype(store: tandem.Store, dtype: str, shape: tuple[int, ...]) -> None:
    keys = np.arange(300, dtype=np.uint32)
    raw = np.random.default_rng(1).integers(0, 2, 300 * int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    values = raw.view(dtype).reshape(300, *shape)
    if dtype.startswith("M"):
        with pytest.raises((TypeError, ValueError)):
            store.set_rows(keys, values)
        return
    assert store.set_rows(keys, values).all()
    row = values[7:8]
    assert single(store, keys[7]) == row.tobytes()
    read, found = store.get_rows(keys[::-1], dtype, shape)
    assert found.all() and found.dtype == np.bool_
    assert read.dtype == np.dtype(dtype) and read.shape == values.shape
    assert read.tobytes() == values[::-1].tobytes()


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"])
def test_integer_keys_are_their_bytes(store: tandem.Store, dtype: str) -> None:
    keys = np.arange(100, dtype=dtype)
    assert store.set_rows(keys, keys).all()
    for key in keys[::13]:
        assert single(store, key) == key.tobytes()
    assert store.get_rows(keys[::-3], dtype)[0].tolist() == keys[::-3].tolist()


@pytest.mark.parametrize("width", [1, 2, 17, 250])
def test_keys_of_bytes(store: tandem.Store, width: int) -> None:
    text = np.array([f"{i}" for i in range(10)], dtype=f"S{width}")
    values = np.arange(10)
    assert store.set_rows(text, values).all()
    assert single(store, text[3]) is None or width == 1, "at full width, zeros included"
    assert store.get(b"3" + bytes(width - 1)) == values[3].tobytes()
    for same in (text.view(f"V{width}"), text.view("u1").reshape(10, width)):
        assert store.get_rows(same, int)[1].all()
    wide = np.zeros((10, width + 5), np.uint8)
    wide[:, :width] = text.view("u1").reshape(10, width)
    assert store.get_rows(wide[:, :width], int)[0].tolist() == values.tolist()


def test_strides(store: tandem.Store) -> None:
    keys = np.arange(1000, dtype=np.int64)
    values = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    assert store.set_rows(keys[::-2], values[::-2]).all()
    assert store.set_rows(keys[::2], values[::2]).all()
    out = np.zeros((2000, 4), np.float32)
    store.get_rows(keys, out=out[::2])
    assert (out[::2] == values).all() and not out[1::2].any()
    store.get_rows(keys, out=out[::-2])
    assert (out[::-2] == values).all()
    # One value for all.
    assert store.set_rows(keys, np.broadcast_to(values[:1], values.shape)).all()
    assert (store.get_rows(keys, np.float32, 4)[0] == values[0]).all()


def test_fields_of_one_array(store: tandem.Store) -> None:
    rows = np.zeros(500, dtype=[("key", "<u4"), ("value", "<f4", (3,))])
    rows["key"] = np.arange(500)
    rows["value"] = np.random.default_rng(2).random((500, 3))
    wanted = rows["value"].copy()
    assert store.set_rows(rows["key"], rows["value"]).all()
    rows["value"] = 0
    store.get_rows(rows["key"], out=rows["value"])
    assert (rows["value"] == wanted).all()


def test_rows_that_are_not_there_stay(store: tandem.Store) -> None:
    keys = np.arange(5, dtype=np.uint64)
    store.set_rows(keys[:2], np.arange(2, dtype=np.int32))
    store.set(keys[2].tobytes(), b"other length")
    out = np.full(5, -1, np.int32)
    codes = np.full(5, 9, np.uint8)
    values, found = store.get_rows(keys, out=out, found=codes)
    assert values is out and found is codes
    assert out.tolist() == [0, 1, -1, -1, -1]
    assert codes.tolist() == [1, 1, 2, 0, 0]
    assert store.get_rows(keys, out=out)[1].tolist() == [True, True, False, False, False]
    assert store.get_rows(keys, np.int32)[0].tolist() == [0, 1, 0, 0, 0]


def test_removing_and_touching(store: tandem.Store) -> None:
    keys = np.arange(200, dtype=np.uint64)
    store.set_rows(keys[::2], keys[::2], ttl=10_000)
    wanted = [i % 2 == 0 for i in range(200)]
    assert store.touch_rows(keys, 100).tolist() == wanted
    assert store.touch_rows(keys, None).tolist() == wanted
    assert store.remove_rows(keys).tolist() == wanted
    assert not store.remove_rows(keys).any()


def test_of_equal_keys_the_last_remains(store: tandem.Store) -> None:
    keys = np.full(5000, 7, np.uint64)
    store.set_rows(keys, np.arange(5000))
    assert store.get_rows(keys[:1], int)[0][0] == 4999


@pytest.mark.parametrize("keys", [np.empty(0, np.uint64), np.empty((0, 8), np.uint8), np.empty(0, "S3")])
def test_no_rows(store: tandem.Store, keys: np.ndarray[Any, Any]) -> None:
    assert len(store.set_rows(keys, np.empty((0, 3)))) == 0
    values, found = store.get_rows(keys, np.float32, (2, 2))
    assert values.shape == (0, 2, 2) and found.shape == (0,)
    assert len(store.remove_rows(keys)) == 0 == len(store.touch_rows(keys, 1))


class Lent:
    """An array that only DLPack can read."""

    def __init__(self, of: np.ndarray[Any, Any]) -> None:
        self.of = of

    def __dlpack__(self, **options: Any) -> Any:
        return self.of.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.of.__dlpack_device__()


def test_arrays_by_dlpack(store: tandem.Store) -> None:
    keys = np.arange(100, dtype=np.int64)
    values = np.random.default_rng(3).random((100, 4))
    assert store.set_rows(Lent(keys[::-1]), Lent(values[::-1])).all()
    out = np.zeros((100, 4))
    values_, found = store.get_rows(Lent(keys), out=Lent(out))
    assert isinstance(values_, Lent) and found.all()
    assert (out == values).all()
    with pytest.raises(ValueError, match="contiguous"):
        store.set_rows(Lent(keys), Lent(values.T.copy().T))
    assert store.set_rows(Lent(keys[:2]), Lent(np.zeros((2, 3), np.complex64))).all()


def test_arrays_of_the_standard_library(store: tandem.Store) -> None:
    keys = array.array("Q", range(10))
    values = (ctypes.c_float * 10)(*range(10))
    store.set_rows(keys, values)
    out = array.array("f", [0] * 10)
    store.get_rows(keys, out=out, found=bytearray(10))
    assert out.tolist() == list(range(10))


BASE = np.arange(10, dtype=np.uint64)
READ_ONLY = np.zeros(10)
READ_ONLY.flags.writeable = False
SHARED = np.zeros(80, np.uint8)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "keys must be an array", lambda s: s.get_rows([1, 2], int)),
        (TypeError, "keys must be an array", lambda s: s.get_rows(5, int)),
        (TypeError, "keys must be integers", lambda s: s.get_rows(BASE.astype(float), int)),
        (TypeError, "keys must be integers", lambda s: s.get_rows(BASE.astype("U3"), int)),
        (TypeError, "keys must be integers", lambda s: s.get_rows(BASE.reshape(5, 2), int)),
        (TypeError, "keys must be integers", lambda s: s.get_rows(BASE.astype(bool), int)),
        (TypeError, "keys must be integers", lambda s: s.get_rows(np.uint64(5), int)),
        (TypeError, "little-endian", lambda s: s.get_rows(BASE.astype(">u8"), int)),
        (TypeError, "objects", lambda s: s.get_rows(BASE.astype(object), int)),
        (TypeError, "objects", lambda s: s.set_rows(BASE, BASE.astype(object))),
        (TypeError, "objects", lambda s: s.set_rows(BASE, np.zeros(10, [("Odd", "i4"), ("x", "O")]))),
        (TypeError, "objects", lambda s: s.set("key", BASE.astype(object))),
        (TypeError, "objects", lambda s: s.get_rows(BASE, object)),
        (ValueError, "1 to 250 bytes, not 251", lambda s: s.get_rows(np.zeros(3, "S251"), int)),
        (ValueError, "1 to 250 bytes, not 0", lambda s: s.get_rows(np.zeros((3, 0), np.uint8), int)),
        (ValueError, "ascontiguousarray", lambda s: s.get_rows(np.zeros((8, 20), np.uint8)[:, ::2], int)),
        (ValueError, "ascontiguousarray", lambda s: s.set_rows(BASE, np.zeros((4, 10)).T)),
        (ValueError, "ascontiguousarray", lambda s: s.get_rows(BASE, out=np.zeros((10, 8))[:, ::2])),
        (ValueError, "values has 9 rows", lambda s: s.set_rows(BASE, np.zeros(9))),
        (ValueError, "values has -1 rows", lambda s: s.set_rows(BASE, np.zeros(()))),
        (ValueError, "out has 9 rows", lambda s: s.get_rows(BASE, out=np.zeros(9))),
        (ValueError, "out is read-only", lambda s: s.get_rows(BASE, out=READ_ONLY)),
        (ValueError, "out is read-only", lambda s: s.get_rows(BASE, out=bytes(10))),
        (ValueError, "rows of out overlap", lambda s: s.get_rows(
            BASE, out=np.lib.stride_tricks.as_strided(SHARED, (10, 16), (4, 1)))),
        (ValueError, "out overlaps keys", lambda s: s.get_rows(SHARED[:64].view("u8"), out=SHARED[16:80].view("u8"))),
        (ValueError, "found overlaps out", lambda s: s.get_rows(BASE, out=SHARED.view("u8"), found=SHARED[:10])),
        (ValueError, "found has 9 rows", lambda s: s.get_rows(BASE, int, found=np.zeros(9, bool))),
        (ValueError, "found is not contiguous", lambda s: s.get_rows(BASE, int, found=np.zeros(20, bool)[::2])),
        (TypeError, "found must be of bool or uint8", lambda s: s.get_rows(BASE, int, found=np.zeros(10))),
        (TypeError, "needs out=, or dtype=", lambda s: s.get_rows(BASE)),
        (TypeError, "not both", lambda s: s.get_rows(BASE, int, out=np.zeros(10))),
        (ValueError, "ttl", lambda s: s.set_rows(BASE, BASE, ttl=0)),
        (ValueError, "ttl", lambda s: s.touch_rows(BASE, -1)),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(store: tandem.Store, error: type[Exception], message: str, call: Any) -> None:
    store.set_rows(BASE, BASE)
    with pytest.raises(error, match=message):
        call(store)
    assert (store.get_rows(BASE, np.uint64)[0] == BASE).all()
    assert len(store) == 10
    assert not SHARED.any() and BASE.tolist() == list(range(10))


def test_rows_that_are_too_large() -> None:
    with tandem.Store(memory="8MiB", item_max=4096) as store, pytest.raises(tandem.TooLarge, match="5000"):
        store.set_rows(BASE, np.zeros((10, 5000), np.uint8))


def test_a_full_store_tells_by_its_mask() -> None:
    with tandem.Store(memory="4MiB", item_max=4096, evict=False) as store:
        stored = store.set_rows(np.arange(10_000), np.zeros((10_000, 2000), np.uint8))
        assert stored[0] and not stored[-1]


def test_rows_that_are_far_apart(store: tandem.Store) -> None:
    """By more than 32 bits can tell; of the memory between them nothing is read."""
    memory: Any = np.zeros((1 << 31) + 8, np.uint8)
    rows = np.lib.stride_tricks.as_strided(memory, (2, 8), (1 << 31, 1))
    keys = np.arange(2, dtype=np.uint64)
    assert store.set_rows(keys, np.array([7, 9], np.int64)).all()
    assert store.get_rows(keys, out=rows)[1].all()
    assert memory[0] == 7 and memory[1 << 31] == 9
    assert store.set_rows(keys[::-1], rows).all()
    assert store.get_rows(keys, np.int64)[0].tolist() == [9, 7]
    with pytest.raises(tandem.TooLarge, match=f"{len(memory)} bytes"):
        store.set("a", memory)
    assert store.get_into(keys[:1].tobytes(), memory) == 8


def test_without_numpy(store: tandem.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    keys = array.array("Q", range(3))
    stored = store.set_rows(keys, array.array("i", [5, 6, 7]))
    assert isinstance(stored, memoryview) and stored.tolist() == [True] * 3
    out = array.array("i", [0] * 3)
    assert store.get_rows(keys, out=out)[1].tolist() == [True] * 3
    assert out.tolist() == [5, 6, 7]
    with pytest.raises(ImportError, match="numpy"):
        store.get_rows(keys, "i4")
