"""Hypothesis: random calls on a store beside a dict. Expiry is told by what can no longer be there, as time goes on."""

from typing import Any

import numpy as np
import tandem
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

KEYS = st.sampled_from(
    ["a", b"b", "key", "\u00e9", b"\x00\xff", "k" * 250, *(np.uint32(i).tobytes() for i in range(6))]
)
VALUES = st.one_of(
    st.binary(max_size=40), st.integers(0, 2**64 - 1).map(lambda n: str(n).encode()), st.just(bytes(5000))
)
TTL = st.sampled_from([None, 1000, 3_000_000])


def name_of(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


class Beside(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = tandem.Store(memory="16MiB", ordered=True)
        self.model: dict[bytes, bytes] = {}
        self.read: dict[bytes, tuple[int, bytes | None]] = {}  # cas, and the value at that time

    def teardown(self) -> None:
        self.store.close()

    def put(self, key: str | bytes, value: bytes) -> None:
        self.model[name_of(key)] = value
        self.read.pop(name_of(key), None)

    @rule(key=KEYS, value=VALUES, ttl=TTL)
    def set(self, key: str | bytes, value: bytes, ttl: int | None) -> None:
        self.store.set(key, value, ttl)
        self.put(key, value)

    @rule(key=KEYS, value=VALUES, ttl=TTL)
    def add(self, key: str | bytes, value: bytes, ttl: int | None) -> None:
        is_new = name_of(key) not in self.model
        assert self.store.add(key, value, ttl) == is_new
        if is_new:
            self.put(key, value)

    @rule(key=KEYS, value=VALUES)
    def replace(self, key: str | bytes, value: bytes) -> None:
        is_there = name_of(key) in self.model
        assert self.store.replace(key, value) == is_there
        if is_there:
            self.put(key, value)

    @rule(key=KEYS, value=st.binary(max_size=20), in_front=st.booleans())
    def concatenate(self, key: str | bytes, value: bytes, in_front: bool) -> None:
        old = self.model.get(name_of(key))
        assert (self.store.prepend if in_front else self.store.append)(key, value) == (old is not None)
        if old is not None:
            self.put(key, value + old if in_front else old + value)

    @rule(key=KEYS)
    def gets(self, key: str | bytes) -> None:
        item = self.store.gets(key)
        wanted = self.model.get(name_of(key))
        assert (item.value if item else None) == wanted
        if item:
            self.read[name_of(key)] = (item.cas, wanted)

    @rule(key=KEYS, value=VALUES)
    def cas(self, key: str | bytes, value: bytes) -> None:
        cas, _ = self.read.get(name_of(key), (2**63, None))
        may = name_of(key) in self.read and name_of(key) in self.model
        assert self.store.cas(key, value, cas) == may
        if may:
            self.put(key, value)

    @rule(key=KEYS)
    def delete(self, key: str | bytes) -> None:
        assert self.store.delete(key) == (self.model.pop(name_of(key), None) is not None)
        self.read.pop(name_of(key), None)

    @rule(key=KEYS)
    def pop(self, key: str | bytes) -> None:
        assert self.store.pop(key, None) == self.model.pop(name_of(key), None)
        self.read.pop(name_of(key), None)

    @rule(key=KEYS, value=VALUES, ttl=TTL)
    def exchange(self, key: str | bytes, value: bytes, ttl: int | None) -> None:
        assert self.store.exchange(key, value, ttl) == self.model.get(name_of(key))
        self.put(key, value)

    @rule(key=KEYS, ttl=TTL)
    def touch(self, key: str | bytes, ttl: int | None) -> None:
        assert self.store.touch(key, ttl) == (name_of(key) in self.model)
        self.read.pop(name_of(key), None)

    @rule(key=KEYS, by=st.integers(-(2**64) + 1, 2**64 - 1), initial=st.one_of(st.none(), st.integers(0, 2**64 - 1)))
    def incr(self, key: str | bytes, by: int, initial: int | None) -> None:
        old = self.model.get(name_of(key))
        wanted: Any
        if old is None:
            wanted = KeyError if initial is None else initial
        elif not old.rstrip(b" ").isdigit() or len(old) > 20 or int(old) >= 2**64:
            wanted = ValueError
        else:
            wanted = max(int(old) + by, 0) if by < 0 else (int(old) + by) % 2**64
        try:
            got: Any = self.store.incr(key, by, initial)
        except (KeyError, ValueError) as error:
            got = type(error)
        assert got == wanted
        if isinstance(got, int):
            stored = self.store[key]
            assert int(stored) == got
            self.put(key, stored)

    @rule(items=st.dictionaries(KEYS, VALUES, max_size=12))
    def set_many(self, items: dict[str | bytes, bytes]) -> None:
        assert self.store.set_many(items) == []
        for key, value in items.items():
            self.put(key, value)

    @rule(keys=st.lists(KEYS, max_size=80))
    def delete_many(self, keys: list[str | bytes]) -> None:
        gone = {name_of(key) for key in keys} & set(self.model)
        assert self.store.delete_many(keys) == len(gone)
        for name in gone:
            del self.model[name]
            self.read.pop(name, None)

    @rule(numbers=st.lists(st.integers(0, 5), max_size=70), bytes_each=st.integers(1, 9))
    def set_rows(self, numbers: list[int], bytes_each: int) -> None:
        keys = np.array(numbers, np.uint32)
        rows = np.random.default_rng(len(numbers)).integers(0, 255, (len(numbers), bytes_each), np.uint8)
        assert self.store.set_rows(keys, rows).all()
        for number, row in zip(keys, rows, strict=True):
            self.put(number.tobytes(), row.tobytes())

    @rule(numbers=st.lists(st.integers(0, 9), max_size=70), bytes_each=st.integers(1, 9))
    def get_rows(self, numbers: list[int], bytes_each: int) -> None:
        keys = np.array(numbers, np.uint32)
        values, found = self.store.get_rows(keys, np.uint8, bytes_each)
        for number, row, is_found in zip(keys, values, found, strict=True):
            wanted = self.model.get(number.tobytes())
            assert is_found == (wanted is not None and len(wanted) == bytes_each)
            assert row.tobytes() == (wanted if is_found else bytes(bytes_each))

    @rule(numbers=st.lists(st.integers(0, 9), unique=True))
    def remove_rows(self, numbers: list[int]) -> None:
        keys = np.array(numbers, np.uint32)
        wanted = [self.model.pop(key.tobytes(), None) is not None for key in keys]
        assert self.store.remove_rows(keys).tolist() == wanted
        for key in keys:
            self.read.pop(key.tobytes(), None)

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.model.clear()
        self.read.clear()

    @rule(prefix=KEYS, reverse=st.booleans(), limit=st.one_of(st.none(), st.integers(0, 5)))
    def scan(self, prefix: str | bytes, reverse: bool, limit: int | None) -> None:
        wanted = sorted((k, v) for k, v in self.model.items() if k.startswith(name_of(prefix)[:2]))
        got = list(self.store.scan(name_of(prefix)[:2], reverse=reverse, limit=limit))
        assert got == (wanted[::-1] if reverse else wanted)[:limit]

    @invariant()
    def they_are_alike(self) -> None:
        assert self.store.get_many(self.model) == self.model
        assert len(self.store) == len(self.model)
        assert dict(self.store.items()) == self.model


TestBeside = Beside.TestCase
TestBeside.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
