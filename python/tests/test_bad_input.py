"""Input that is refused: the exception, its text, and that nothing has changed. Rows have theirs in test_rows.py."""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tandem

# Of each a call with the key that is refused.
CALLS_WITH_A_KEY: dict[str, Callable[[tandem.Store, Any], Any]] = {
    "get": lambda s, key: s.get(key),
    "getitem": lambda s, key: s[key],
    "contains": lambda s, key: key in s,
    "gets": lambda s, key: s.gets(key),
    "get_into": lambda s, key: s.get_into(key, bytearray(9)),
    "get_many": lambda s, key: s.get_many(["kept", key]),
    "set": lambda s, key: s.set(key, b"v"),
    "setitem": lambda s, key: s.__setitem__(key, b"v"),
    "add": lambda s, key: s.add(key, b"v"),
    "replace": lambda s, key: s.replace(key, b"v"),
    "append": lambda s, key: s.append(key, b"v"),
    "prepend": lambda s, key: s.prepend(key, b"v"),
    "cas": lambda s, key: s.cas(key, b"v", 1),
    "incr": lambda s, key: s.incr(key, initial=1),
    "touch": lambda s, key: s.touch(key, 1),
    "setdefault": lambda s, key: s.setdefault(key, b"v"),
    "pop": lambda s, key: s.pop(key, None),
    "exchange": lambda s, key: s.exchange(key, b"v"),
    "delete": lambda s, key: s.delete(key),
    "delitem": lambda s, key: s.__delitem__(key),
    "set_many": lambda s, key: s.set_many([("kept", b"changed"), (key, b"v")]),
    "delete_many": lambda s, key: s.delete_many(["kept", key]),
    "touch_many": lambda s, key: s.touch_many(["kept", key], 1),
}


@pytest.fixture
def kept(store: tandem.Store) -> tandem.Store:
    store["kept"] = b"value"
    return store


def refused(store: tandem.Store, error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    before = store.gets("kept")
    with pytest.raises(error, match=message):
        call()
    assert store.gets("kept") == before and list(store) == [b"kept"]


@pytest.mark.parametrize("name", CALLS_WITH_A_KEY)
def test_keys(kept: tandem.Store, name: str) -> None:
    call = CALLS_WITH_A_KEY[name]
    for key, size in (("", 0), (b"", 0), ("k" * 251, 251), (b"k" * 251, 251), ("\u00e9" * 126, 252)):
        refused(kept, ValueError, f"1 to 250 bytes, not {size}", lambda key=key: call(kept, key))  # type: ignore[misc]
    for wrong, of in ((1, "int"), (None, "NoneType"), (1.5, "float"), (bytearray(b"k"), "bytearray"), (["k"], "list")):
        text = of if wrong is None else f"str or bytes, not {of}"
        refused(kept, TypeError, text, lambda wrong=wrong: call(kept, wrong))  # type: ignore[misc]
    refused(kept, UnicodeEncodeError, "surrogates", lambda: call(kept, "\ud800"))


CALLS_WITH_A_VALUE: dict[str, Callable[[tandem.Store, Any], Any]] = {
    "set": lambda s, value: s.set("kept", value),
    "setitem": lambda s, value: s.__setitem__("kept", value),
    "add": lambda s, value: s.add("new", value),
    "replace": lambda s, value: s.replace("kept", value),
    "append": lambda s, value: s.append("kept", value),
    "prepend": lambda s, value: s.prepend("kept", value),
    "cas": lambda s, value: s.cas("kept", value, s.gets("kept").cas),  # type: ignore[union-attr]
    "setdefault": lambda s, value: s.setdefault("new", value),
    "exchange": lambda s, value: s.exchange("kept", value),
    "set_many": lambda s, value: s.set_many({"kept": b"changed", "new": value}),
}


@pytest.mark.parametrize("name", CALLS_WITH_A_VALUE)
def test_values(kept: tandem.Store, name: str) -> None:
    call = CALLS_WITH_A_VALUE[name]
    for wrong, text in ((1, "not int"), (None, "NoneType"), ("text", "encode"), ([b"v"], "not list")):
        refused(kept, TypeError, text, lambda wrong=wrong: call(kept, wrong))  # type: ignore[misc]
    refused(kept, TypeError, "objects", lambda: call(kept, np.array([None])))
    refused(kept, ValueError, "ascontiguousarray", lambda: call(kept, np.zeros((4, 4))[:, ::2]))
    refused(kept, ValueError, "ascontiguousarray", lambda: call(kept, memoryview(b"abcd")[::2]))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "by is an int, not str", lambda s: s.incr("kept", "1")),
        (TypeError, "by is an int, not float", lambda s: s.incr("kept", 1.5)),
        (ValueError, "by is out of range", lambda s: s.incr("kept", 2**64)),
        (ValueError, "by is out of range", lambda s: s.incr("kept", -(2**64))),
        (TypeError, "initial is an int, not str", lambda s: s.incr("n", initial="1")),
        (ValueError, "initial is out of range", lambda s: s.incr("n", initial=-1)),
        (ValueError, "not a decimal number", lambda s: s.incr("kept")),
        (KeyError, "n", lambda s: s.incr("n")),
        (TypeError, "cas", lambda s: s.cas("kept", b"v", "1")),
        (ValueError, "flags is out of range", lambda s: s.set("kept", b"v", flags=2**32)),
        (ValueError, "flags is out of range", lambda s: s.set("kept", b"v", flags=-1)),
        (TypeError, "flags is an int, not str", lambda s: s.set("kept", b"v", flags="1")),
        (ValueError, "flags is out of range", lambda s: s.replace("kept", b"v", flags=2**32)),
        (ValueError, "flags is out of range", lambda s: s.exchange("kept", b"v", flags=2**32)),
        (ValueError, "flags is out of range", lambda s: s.cas("kept", b"v", s.gets("kept").cas, flags=2**32)),
        (TypeError, r"get\(\) misses the argument 'key'", lambda s: s.get()),
        (TypeError, r"get\(\) misses the argument 'key'", lambda s: s.get(default=1)),
        (TypeError, r"get\(\) takes at most 2 arguments by place, not 3", lambda s: s.get("kept", 1, 2)),
        (TypeError, r"get\(\) got multiple values for argument 'key'", lambda s: s.get("kept", key="kept")),
        (TypeError, r"get\(\) got an unexpected keyword argument 'other'", lambda s: s.get("kept", other=1)),
        (TypeError, r"set\(\) misses the argument 'value'", lambda s: s.set("kept")),
        (TypeError, r"set\(\) misses the argument 'value'", lambda s: s.set("kept", ttl=5)),
        (TypeError, r"set\(\) takes at most 3 arguments by place, not 4", lambda s: s.set("kept", b"v", None, 5)),
        (TypeError, r"set\(\) got multiple values for argument 'ttl'", lambda s: s.set("kept", b"v", 5, ttl=5)),
        (TypeError, r"set\(\) got an unexpected keyword argument 'tt'", lambda s: s.set("kept", b"v", tt=5)),
        (TypeError, "descriptor|requires", lambda s: tandem.Store.get(5, "kept")),  # type: ignore[call-overload]
        (TypeError, "descriptor|requires", lambda s: tandem.Store.__getitem__({}, "kept")),  # type: ignore[index]
        (TypeError, "not iterable|incompatible", lambda s: s.get_many(5)),
        (TypeError, "not iterable", lambda s: s.set_many(5)),
        (TypeError, "pairs .key, value., not bytes", lambda s: s.set_many([b"kv"])),
        (TypeError, "pairs .key, value., not tuple", lambda s: s.set_many([("kept", b"changed"), ("kept", b"v", 1)])),
        (ZeroDivisionError, "by zero", lambda s: s.get_many(str(1 // n) for n in (1, 0))),
        (ZeroDivisionError, "by zero", lambda s: s.set_many(("kept", b"%d" % (1 // n)) for n in (1, 0))),
        (TypeError, "ttl", lambda s: s.touch("kept", "1")),
        (ValueError, "ttl", lambda s: s.touch("kept", 0)),
        (ValueError, "ttl", lambda s: s.touch_many(["kept"], -1)),
        (ValueError, "ttl", lambda s: s.set_many({"kept": b"changed"}, ttl=0)),
        (ValueError, "out has 4 bytes, and the value 5", lambda s: s.get_into("kept", bytearray(4))),
        (ValueError, "out is read-only", lambda s: s.get_into("kept", bytes(9))),
        (ValueError, "contiguous", lambda s: s.get_into("kept", np.zeros(18, np.uint8)[::2])),
        (ValueError, "contiguous", lambda s: s.get_into("kept", np.zeros((4, 4), np.uint8).T)),
        (TypeError, "objects", lambda s: s.get_into("kept", np.zeros(9, object))),
        (TypeError, "out must be an array .*, not list", lambda s: s.get_into("kept", [0] * 9)),
        (TypeError, "already-initialized|incompatible", lambda s: s.__init__(memory="16MiB")),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:nanobind")
def test_what_else_is_refused(kept: tandem.Store, error: type[Exception], message: str, call: Any) -> None:
    refused(kept, error, message, lambda: call(kept))


def test_an_array_that_get_into_refuses_is_not_written_to(kept: tandem.Store) -> None:
    out = bytearray(b"----")
    with pytest.raises(ValueError, match="out has 4 bytes"):
        kept.get_into("kept", out)
    assert out == b"----"


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "memory: .* is no size", {"memory": "12x"}),
        (ValueError, "memory: .* is no size", {"memory": ""}),
        (ValueError, "memory: .* is no size", {"memory": "-8MiB"}),
        (ValueError, "memory: .* is no size", {"memory": "nan"}),
        (ValueError, "memory is out of range", {"memory": -1}),
        (ValueError, "4 MiB to 128 GiB", {"memory": "1MiB"}),
        (ValueError, "4 MiB to 128 GiB", {"memory": "1TiB"}),
        (TypeError, "memory is an int or a str, not float", {"memory": 1.5e9}),
        (TypeError, "memory is an int or a str, not bool", {"memory": True}),
        (ValueError, "item_max is at most 1 GiB", {"memory": "8GiB", "item_max": "2GiB"}),
        (ValueError, "item", {"memory": "8MiB", "item_max": "8MiB"}),
        (ValueError, "threads_max", {"threads_max": 0}),
        (TypeError, "incompatible", {"threads_max": -1}),
        (ValueError, "memory_file is empty", {"memory_file": ""}),
        (TypeError, "path|PathLike", {"memory_file": 5}),
        (OSError, "nowhere", {"memory_file": "/nowhere/file"}),
        (ValueError, "preset", {"preset": "none such"}),
        (ValueError, "gpus", {"gpus": 3, "gpu": "sim"}),
        (ValueError, "no index of kind none such", {"index": "none such"}),
        (ValueError, "index is empty", {"index": ""}),
        (ValueError, "kind slab_list cannot be ordered", {"index": "slab_list", "ordered": True}),
        (ValueError, "devices cannot follow", {"index": "hash_tree", "gpus": 1, "gpu": "sim"}),
        (TypeError, "incompatible", {"index": 1}),
        (TypeError, "incompatible", {"none_such": 1}),
    ],
)
def test_options(error: type[Exception], message: str, options: dict[str, Any]) -> None:
    with pytest.raises(error, match=message):
        tandem.Store(**({"memory": "8MiB"} | options))


@pytest.mark.filterwarnings("ignore:nanobind")
def test_a_store_without_init_does_nothing() -> None:
    class Own(tandem.Store):
        def __init__(self) -> None:
            pass

    for store in (Own(), tandem.Store.__new__(tandem.Store)):
        for call in (
            lambda s: s.get("a"),
            lambda s: s["a"],
            lambda s: s.set("a", b"v"),
            lambda s: s.__setitem__("a", b"v"),
            lambda s: s.__delitem__("a"),
            lambda s: "a" in s,
            lambda s: s.gets("a"),
            len,
            repr,
            iter,
            lambda s: s.close(),
        ):
            with pytest.raises(TypeError):
                call(store)


@pytest.mark.parametrize(("bound", "of"), [(1, "int"), (b"k" * 251, "at most 250")])
@pytest.mark.parametrize("name", ["prefix", "start", "stop"])
def test_bounds_of_a_scan(ordered: tandem.Store, name: str, bound: Any, of: str) -> None:
    with pytest.raises((TypeError, ValueError), match=of):
        ordered.scan(**{name: bound})


class OnDevice:
    """An array that by its DLPack is on a CUDA device."""

    def __init__(self, of: np.ndarray[Any, Any]) -> None:
        self.of = of

    def __dlpack__(self, **options: Any) -> Any:
        # DLManagedTensor begins with the address of the data and the type of the device.
        capsule = self.of.__dlpack__()
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(address(capsule, b"dltensor") + 8).value = 2
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_arrays_on_a_device(store: tandem.Store) -> None:
    keys, rows = np.arange(4, dtype=np.uint64), np.arange(4.0)
    store.set_rows(keys, rows)
    out = np.zeros(4)
    for name, call in (
        ("keys", lambda: store.get_rows(OnDevice(keys), float)),
        ("out", lambda: store.get_rows(keys, out=OnDevice(out))),
        ("values", lambda: store.set_rows(keys, OnDevice(-rows))),
        ("out", lambda: store.get_into(keys[:1].tobytes(), OnDevice(out))),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=f"{name} is in a device's memory: copy it to the host"):
            call()
    assert not out.any() and store.get_rows(keys, float)[0].tolist() == rows.tolist()


class Unwilling:
    """An array with a buffer that it does not lend, as CuPy's have one, and Python code behind the other way."""

    def __buffer__(self, flags: int) -> memoryview:
        raise TypeError("not on this device")

    @property
    def __dlpack__(self) -> Any:
        return [].append


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes in Python have no buffers")
def test_arrays_that_lend_no_buffer(store: tandem.Store) -> None:
    with pytest.raises(TypeError, match="keys is an array that DLPack cannot lend"):
        store.get_rows(Unwilling(), int)
    with pytest.raises(TypeError, match="not on this device"):
        store.set("a", Unwilling())
    del Unwilling.__dlpack__
    with pytest.raises(TypeError, match="not on this device"):
        store.get_rows(Unwilling(), int)


def test_nothing_is_imported_that_a_program_may_not_have() -> None:
    code = "import sys, tandem; print(*{'numpy', 'torch', 'jax', 'cupy', 'django', 'pymemcache'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_file_that_is_none_of_a_store(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("not a store" * 10_000)
    with pytest.raises(OSError, match="text"):
        tandem.Store(memory="8MiB", memory_file=file)
    assert file.read_text() == "not a store" * 10_000
