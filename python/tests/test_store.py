"""Each call for one key and for many, as a user of a dict or of pymemcache expects it."""

import datetime
import inspect
import pickle
import threading
import time
from collections.abc import MutableMapping
from pathlib import Path

import pytest
import tandem


def test_it_is_a_mapping(store: tandem.Store) -> None:
    assert isinstance(store, MutableMapping)
    store["a"] = b"1"
    store[b"b"] = bytearray(b"2")
    store["\u00e9"] = memoryview(b"3")
    assert store["a"] == b"1" and store[b"a"] == b"1", "str is UTF-8"
    assert store["\u00e9".encode()] == b"3"
    assert "a" in store and "none" not in store
    assert len(store) == 3
    assert sorted(store) == sorted(store.keys()) == [b"a", b"b", "\u00e9".encode()]
    assert sorted(store.items()) == [(b"a", b"1"), (b"b", b"2"), ("\u00e9".encode(), b"3")]
    assert sorted(store.values()) == [b"1", b"2", b"3"]
    del store["a"]
    with pytest.raises(KeyError, match="a"):
        del store["a"]
    with pytest.raises(KeyError, match="a"):
        store["a"]
    store.update({"c": b"4"}, d=b"5")
    assert store["c"] == b"4" and store["d"] == b"5"
    items = dict([store.popitem() for _ in range(4)])
    assert sorted(items.values()) == [b"2", b"3", b"4", b"5"]
    with pytest.raises(KeyError):
        store.popitem()
    store["a"] = b""
    assert store["a"] == b""
    store.clear()
    assert len(store) == 0 and list(store) == []


def test_pop_and_setdefault(store: tandem.Store) -> None:
    store["a"] = b"1"
    assert store.pop("a") == b"1"
    assert store.pop("a", None) is None
    assert store.pop("a", b"else") == b"else"
    with pytest.raises(KeyError, match="a"):
        store.pop("a")
    assert store.setdefault("a", b"2") == b"2"
    assert store.setdefault("a", b"3") == b"2"


def test_exchange(store: tandem.Store) -> None:
    assert store.exchange("a", b"1", flags=7) is None
    assert store.exchange("a", bytearray(b""), 100) == b"1"
    assert store.exchange("a", bytes(300_000)) == b""
    with pytest.raises(tandem.TooLarge):
        store.exchange("a", bytes(40 << 20))
    assert store.pop("a") == bytes(300_000)
    store.exchange("a", b"1", flags=7)
    item = store.gets("a")
    assert item and (item.value, item.flags) == (b"1", 7)


def test_each_old_value_is_returned_once(store: tandem.Store) -> None:
    got: list[bytes | None] = []

    def exchange(thread: int) -> None:
        for i in range(500):
            value = b"%d.%d" % (thread, i) + bytes(80_000 if i % 50 == 0 else 0)
            got.append(store.exchange(f"k{i % 3}", value) if i % 7 else store.pop(f"k{i % 3}", None))

    threads = [threading.Thread(target=exchange, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got += [store.pop(f"k{i}", None) for i in range(3)]
    values = [value.rstrip(bytes(1)) for value in got if value is not None]
    assert sorted(values) == sorted(b"%d.%d" % (t, i) for t in range(4) for i in range(500) if i % 7)


def test_pop_takes_each_value_once(store: tandem.Store) -> None:
    taken: list[bytes] = []
    done = threading.Event()

    def take() -> None:
        while not done.is_set() or "queue" in store:
            value = store.pop("queue", None)
            if value is not None:
                taken.append(value)

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    # Long ones: the interpreter's lock is let go while they are copied.
    wanted = [b"%9d" % number + bytes(100_000) for number in range(100)]
    try:
        for value in wanted:
            store["queue"] = value
            while "queue" in store:
                time.sleep(0.0001)
    finally:
        done.set()
        for taker in takers:
            taker.join()
    assert sorted(taken) == sorted(wanted)


def test_get_and_default(store: tandem.Store) -> None:
    store.set("a", b"1", flags=7)
    assert store.get("a") == b"1"
    assert store.get("none") is None
    assert store.get("none", 5) == 5
    item = store.gets("a")
    assert item is not None and (item.value, item.flags) == (b"1", 7)
    assert store.gets("none") is None


def test_arguments_by_name(store: tandem.Store) -> None:
    store.set(value=b"1", key="a", flags=7, ttl=100)
    item = store.gets("a")
    assert item is not None and (item.value, item.flags) == (b"1", 7)
    assert store.get(key="a") == b"1" == store.get("a", default=b"2")
    assert store.get(default=b"2", key="none") == b"2"
    assert tandem.Store.get(store, "a") == b"1"
    assert str(inspect.signature(tandem.Store.set)) == "(self, /, key, value, ttl=None, *, flags=0)"


class Text(str):
    pass


class Raw(bytes):
    pass


class Loud(tandem.Store):
    """What a subclass has in place of the store's is what the operators call."""

    def __getitem__(self, key: str | bytes, /) -> bytes:
        return super().__getitem__(key) + b"!"


def test_subclasses(store: tandem.Store) -> None:
    store[Text("a")] = Raw(b"1")
    assert store[Raw(b"a")] == store.get(Text("a")) == b"1"
    assert type(store["a"]) is bytes
    with Loud(memory="8MiB") as loud:
        loud["a"] = b"1"
        assert loud["a"] == b"1!" and loud.get("a") == b"1"


@pytest.mark.parametrize("kind", ["cuckoo", "set_associative", "hash_tree", "slab_list"])
def test_kinds_of_index(kind: str) -> None:
    with tandem.Store(memory="64MiB", index=kind) as store:
        items = {str(i).encode(): b"%d" % (i * i) for i in range(5000)}
        assert store.set_many(items) == []
        assert store.get_many(items) == items
        if kind == "hash_tree":
            assert [key for key, _ in store.scan(b"499", limit=3)] == [b"499", b"4990", b"4991"]
        else:
            with pytest.raises(ValueError, match="ordered=True"):
                store.scan()


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 2049, 65535, 65536, 1_000_000, 20_000_000])
def test_values_of_any_size(store: tandem.Store, size: int) -> None:
    value = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    store.set("key", value)
    assert store.get("key") == value
    out = bytearray(size + 3)
    assert store.get_into("key", out) == size
    assert bytes(out) == value + bytes(3)
    assert store.get_many(["key"]) == {"key": value}


def test_conditional_writes(store: tandem.Store) -> None:
    assert not store.replace("a", b"0")
    assert not store.append("a", b"0") and not store.prepend("a", b"0")
    assert store.add("a", b"1") and not store.add("a", b"2")
    assert store.replace("a", b"3")
    assert store.append("a", b"4") and store.prepend("a", b"2")
    assert store.append("a", b"") and store.prepend("a", b"")
    assert store["a"] == b"234"
    item = store.gets("a")
    assert item is not None
    assert store.cas("a", b"new", item.cas)
    assert not store.cas("a", b"newer", item.cas)
    assert not store.cas("none", b"new", item.cas)
    assert store["a"] == b"new"
    assert store.delete("a") and not store.delete("a")


def test_counters(store: tandem.Store) -> None:
    with pytest.raises(KeyError, match="n"):
        store.incr("n")
    assert store.incr("n", initial=10) == 10
    assert store.incr("n") == 11
    assert store.incr("n", 5, initial=100) == 16
    assert store.incr("n", by=-6) == 10
    assert store.incr("n", by=-100) == 0, "it stops at 0"
    assert store.incr("n", by=2**64 - 1) == 2**64 - 1
    assert store.incr("n") == 0, "it wraps"
    store["text"] = b"text"
    with pytest.raises(ValueError, match="decimal number"):
        store.incr("text")


def test_time_to_live(store: tandem.Store) -> None:
    month = 30 * 24 * 60 * 60
    for ttl in (1000, 1000.5, month + 1, 10 * 365 * 24 * 60 * 60, datetime.timedelta(days=400), None, 2**80):
        store.set("key", b"v", ttl=ttl)
        assert store["key"] == b"v", ttl
        assert store.touch("key", ttl)
    assert not store.touch("none", 10)
    store.set("short", b"v", ttl=datetime.timedelta(milliseconds=1))
    store.set("long", b"v", ttl=1)
    assert store.touch("long", None)
    deadline = time.monotonic() + 30
    while "short" in store:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "long" in store and store.get_many(["short", "long"]) == {"long": b"v"}
    for bad in (0, -1, -0.5, datetime.timedelta(0), float("nan"), -(2**80)):
        with pytest.raises(ValueError, match="ttl"):
            store.set("long", b"w", ttl=bad)
    for wrong in ("10", True, b"1"):
        with pytest.raises(TypeError, match=r"ttl .* not"):
            store.set("long", b"w", ttl=wrong)  # type: ignore[arg-type]
    assert store["long"] == b"v", "a refused call changes nothing"


@pytest.mark.parametrize("count", [0, 1, 63, 64, 1000])
def test_many(store: tandem.Store, count: int) -> None:
    items: dict[str | bytes, bytes] = {f"k{i}" if i % 2 else b"k%d" % i: b"value %d" % i for i in range(count)}
    assert store.set_many(items) == []
    assert store.get_many(items) == items
    assert store.get_many([*items, "none"]) == items
    assert store.touch_many([*items, "none"], 100) == count
    assert store.delete_many([*items, "none"]) == count
    assert store.get_many(items) == {}
    assert store.set_many((key, memoryview(value)) for key, value in items.items()) == []
    assert store.get_many(iter(items)) == items


def test_set_many_says_what_was_not_stored() -> None:
    with tandem.Store(memory="8MiB", item_max=4096) as store:
        assert store.set_many({"a": b"x" * 5000, b"b": b"y", "c": b"z" * 5000}) == ["a", "c"]  # type: ignore[type-var]
        assert store.get_many(["a", b"b", "c"]) == {b"b": b"y"}  # type: ignore[type-var]


def test_a_full_store_that_may_not_evict() -> None:
    with tandem.Store(memory="4MiB", item_max=4096, evict=False) as store:
        with pytest.raises(tandem.Full) as caught:
            for number in range(10_000):
                store.set(str(number), b"x" * 2000)
        assert isinstance(caught.value, MemoryError)
        assert store.set_many({"last": b"x" * 2000}) == ["last"]
    with tandem.Store(memory="4MiB", item_max=4096) as store:
        for number in range(10_000):
            store.set(str(number), b"x" * 2000)
        assert store.stats().evictions > 0


def test_too_large(store: tandem.Store) -> None:
    with pytest.raises(tandem.TooLarge, match="5000"), tandem.Store(memory="8MiB", item_max=4096) as small:
        small.set("key", bytes(5000))
    assert issubclass(tandem.TooLarge, ValueError)
    with tandem.Store(memory="8MiB", item_max="4KiB") as small:
        small.set("key", b"1")
        with pytest.raises(tandem.TooLarge):
            small.append("key", bytes(5000))
        assert small["key"] == b"1"
        with pytest.raises(tandem.TooLarge):
            small.set("key", bytes(5000))
        assert "key" not in small, "as documented"


def test_scans(ordered: tandem.Store) -> None:
    names = [f"k{i:05}".encode() for i in range(3000)]
    assert ordered.set_many({name: name[1:] for name in reversed(names)}) == []
    assert [key for key, _ in ordered.scan()] == names
    assert list(ordered.scan(limit=3)) == [(name, name[1:]) for name in names[:3]]
    assert [key for key, _ in ordered.scan("k0001")] == names[10:20]
    assert [key for key, _ in ordered.scan(start="k00010", stop=b"k01500")] == names[10:1500]
    assert [key for key, _ in ordered.scan(start="k00010", stop="k00020", reverse=True)] == names[19:9:-1]
    assert [key for key, _ in ordered.scan("k", reverse=True)] == names[::-1]
    assert [key for key, _ in ordered.scan("k0001", start="k00015", stop="z")] == names[15:20]
    assert [key for key, _ in ordered.scan("k", reverse=True, limit=1100)] == names[:-1101:-1]
    for nothing in ({"limit": 0}, {"stop": ""}, {"start": "z"}, {"start": "k2", "stop": "k1"}, {"prefix": "\u00ff"}):
        assert list(ordered.scan(**nothing)) == []
    ordered[b"\xff\xff"] = b"last"
    assert list(ordered.scan(b"\xff")) == [(b"\xff\xff", b"last")]
    with pytest.raises(ValueError, match="limit"):
        ordered.scan(limit=-1)


def test_a_store_without_order_has_no_scan(store: tandem.Store) -> None:
    with pytest.raises(ValueError, match="ordered=True"):
        store.scan()


def test_closing(store: tandem.Store) -> None:
    scanned = tandem.Store(memory="8MiB", ordered=True)
    scanned.set_many({str(i): b"" for i in range(2000)})
    rest = scanned.scan()
    next(rest)
    scanned.close()
    with pytest.raises(tandem.Closed):
        list(rest)
    with store:
        assert not store.closed
    assert store.closed and "closed" in repr(store)
    store.close()
    for call in (
        lambda: store.get("a"),
        lambda: store.set("a", b""),
        lambda: store.get_many([]),
        lambda: store.set_many({}),
        lambda: store.delete_many([]),
        lambda: len(store),
        lambda: iter(store),
        lambda: store.stats(),
        lambda: store.clear(),
        lambda: store.scan(),
        lambda: store.incr("a"),
        lambda: store.pop("a"),
        lambda: store.exchange("a", b""),
        lambda: "a" in store,
    ):
        with pytest.raises(tandem.Closed):
            call()


def test_it_is_not_pickled(store: tandem.Store) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(store)


def test_a_memory_file_outlives_the_store(tmp_path: Path) -> None:
    file = tmp_path / "items"
    with tandem.Store(memory="16MiB", memory_file=file) as store:
        store["key"] = b"value"
        with pytest.raises(OSError, match="in use"):
            tandem.Store(memory="16MiB", memory_file=str(file))
    with tandem.Store(memory="16MiB", memory_file=file) as store:
        assert store["key"] == b"value"


def test_statistics(store: tandem.Store) -> None:
    store["a"] = b"1"
    store.get("a")
    store.get("b")
    stats = store.stats()
    assert (stats.items, stats.stores, stats.hits, stats.misses) == (1, 1, 1, 1)
    assert stats.memory_limit == 64 << 20


@pytest.mark.parametrize(
    ("size", "bytes_of_it"), [("8m", 8 << 20), ("16MiB", 16 << 20), ("0.0625g", 64 << 20), (1 << 25, 1 << 25)]
)
def test_sizes(size: str | int, bytes_of_it: int) -> None:
    with tandem.Store(memory=size) as store:
        assert store.stats().memory_limit == bytes_of_it


def test_a_simulated_gpu() -> None:
    with tandem.Store(memory="64MiB", gpus=1, gpu="sim", preset="mirrored") as store:
        items = {str(i): b"%d" % i for i in range(5000)}
        assert store.set_many(items) == []
        assert store.get_many(items) == items
