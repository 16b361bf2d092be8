"""Values as bytes and flags, beside pymemcache's."""

from __future__ import annotations

import pickle
import zlib
from typing import Any

import pytest
from pymemcache.serde import compressed_serde, pickle_serde
from tandem import serde

VALUES: list[Any] = [
    b"",
    b"\x00\xff",
    "",
    "é\x00\udc80",
    0,
    -1,
    1 << 100,
    True,
    None,
    1.5,
    [1, "a", None],
    {"a": [{}]},
]


@pytest.mark.parametrize("name", ["pickle", "json", "msgpack"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_goes_in_comes_out(name: str, value: Any) -> None:
    if name == "json":
        value = None if value == "é\x00\udc80" else value
    its = serde.serializer(name)
    data, flags = its.serialize("k", value)
    assert isinstance(data, bytes)
    back = its.deserialize("k", data, flags)
    assert (type(back), back) == (type(value), value)


@pytest.mark.parametrize("value", [*VALUES[:3], "é", *VALUES[4:], (1, {2}), "x" * 1000], ids=lambda v: repr(v)[:20])
def test_pymemcache_reads_what_pickle_writes_and_the_other_way(value: Any) -> None:
    ours = serde.Pickle()
    data, flags = ours.serialize("k", value)
    assert pickle_serde.deserialize("k", data, flags) == value
    for theirs in (pickle_serde, compressed_serde):
        data, flags = theirs.serialize("k", value)
        data = data.encode() if isinstance(data, str) else data
        assert ours.deserialize("k", data, flags) == value


def test_flags_are_pymemcaches() -> None:
    its = serde.Pickle()
    assert [its.serialize("k", value)[1] for value in (b"a", (1,), 1, "a", True)] == [0, 1, 2, 16, 1]
    assert serde.Json().serialize("k", [1, "é"]) == ('[1,"é"]'.encode(), 32)
    assert serde.Msgpack().serialize("k", [1]) == (b"\x91\x01", 64)


class Boom:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was read",))


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_pickle_is_read_only_where_it_was_asked_for(name: str, packed: bool) -> None:
    data = pickle.dumps(Boom())
    flags = serde.FLAG_PICKLE
    if packed:
        data, flags = zlib.compress(data), flags | serde.FLAG_COMPRESSED
    with pytest.raises(serde.DecodeError, match="flags 1, which the serializer"):
        serde.serializer(name).deserialize("k", data, flags)


@pytest.mark.parametrize(("data", "flags"), [(b"x", 1), (b"x", 2), (b"\xff", 16), (b"x", 8), (b"x", 1 << 31), (b"", 1)])
def test_what_cannot_be_read_is_an_error(data: bytes, flags: int) -> None:
    with pytest.raises(serde.DecodeError, match="the item of 'k'"):
        serde.Pickle().deserialize("k", data, flags)


def test_a_serializer_is_a_name_or_an_object() -> None:
    its = serde.Json()
    assert serde.serializer(its) is its
    with pytest.raises(ValueError, match="'yaml' is none of pickle, json, msgpack"):
        serde.serializer("yaml")
    with pytest.raises(TypeError, match="not int"):
        serde.serializer(1)  # type: ignore[arg-type]
