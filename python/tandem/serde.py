"""Python values as the bytes and flags of an item.

The flags are pymemcache's, so that `tandem.Cache` and a pymemcache client read what the other wrote. A serializer has
pymemcache's two methods, so that one made for it (`pymemcache.serde.compressed_serde`) serves here, and these serve
there (`pymemcache.Client(address, serde=tandem.serde.Pickle())`).
"""

from __future__ import annotations

import json
import pickle
import zlib
from typing import Any, Protocol

__all__ = [
    "FLAG_BYTES",
    "FLAG_COMPRESSED",
    "FLAG_INTEGER",
    "FLAG_JSON",
    "FLAG_LONG",
    "FLAG_MSGPACK",
    "FLAG_PICKLE",
    "FLAG_TEXT",
    "DecodeError",
    "Json",
    "Msgpack",
    "Pickle",
    "Serializer",
    "serializer",
]

FLAG_BYTES = 0
FLAG_PICKLE = 1
FLAG_INTEGER = 2
FLAG_LONG = 4
FLAG_COMPRESSED = 8
FLAG_TEXT = 16
FLAG_JSON = 32  # pymemcache has none for these two, and hands such values out as bytes
FLAG_MSGPACK = 64


class DecodeError(ValueError):
    """An item that the serializer cannot read, or must not: a pickle where pickles were not asked for."""


class Serializer(Protocol):
    """What turns a value into bytes and flags, and back. pymemcache's serdes are such."""

    def serialize(self, key: Any, value: Any) -> tuple[bytes | str, int]:
        """The bytes and flags of the item."""

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        """The value. What it raises for an item that it cannot read is best a DecodeError."""


class _Base:
    """bytes, str and int as they are, which any memcached client reads and `incr` counts in; else `dumps`."""

    name: str
    flag: int

    def dumps(self, value: Any) -> bytes:
        raise NotImplementedError

    def loads(self, data: bytes) -> Any:
        raise NotImplementedError

    def serialize(self, key: Any, value: Any) -> tuple[bytes, int]:
        kind = type(value)  # subclasses, bool among them, keep their type only if dumped
        if kind is bytes:
            return value, FLAG_BYTES
        if kind is str:
            return value.encode("utf-8", "surrogatepass"), FLAG_TEXT
        if kind is int:
            return b"%d" % value, FLAG_INTEGER
        return self.dumps(value), self.flag

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        if flags == FLAG_BYTES:
            return value
        try:
            if flags & FLAG_COMPRESSED:
                value = zlib.decompress(value)
                flags &= ~FLAG_COMPRESSED
            if flags == FLAG_BYTES:
                return value
            if flags == FLAG_TEXT:
                return value.decode("utf-8", "surrogatepass")
            if flags in (FLAG_INTEGER, FLAG_LONG):
                return int(value)
            if flags == self.flag:
                return self.loads(value)
        except Exception as error:  # unpickling may raise anything
            raise DecodeError(f"the item of {key!r} is not what its flags ({flags}) say: {error}") from error
        raise DecodeError(f"the item of {key!r} has flags {flags}, which the serializer {self.name!r} does not read")

    def __repr__(self) -> str:
        return f"tandem.serde.{type(self).__name__}()"


class Pickle(_Base):
    """Any value that pickles. Who can write to the store can run code in a process that reads pickles from it."""

    name = "pickle"
    flag = FLAG_PICKLE

    def dumps(self, value: Any) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def loads(self, data: bytes) -> Any:
        return pickle.loads(data)


class Json(_Base):
    """None, bool, float, and lists and dicts of these, of str and of int. A tuple comes back as a list, a dict's keys
    as str, which is all that JSON has."""

    name = "json"
    flag = FLAG_JSON

    def dumps(self, value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def loads(self, data: bytes) -> Any:
        return json.loads(data.decode("utf-8", "surrogatepass"))


class Msgpack(_Base):
    """As Json, with bytes inside, and smaller. Needs the package msgpack. A tuple comes back as a list."""

    name = "msgpack"
    flag = FLAG_MSGPACK

    def __init__(self) -> None:
        try:
            import msgpack
        except ImportError as error:
            raise ImportError("the serializer 'msgpack' needs the package msgpack: pip install msgpack") from error
        self._pack, self._unpack = msgpack.packb, msgpack.unpackb

    def dumps(self, value: Any) -> bytes:
        packed: bytes = self._pack(value)
        return packed

    def loads(self, data: bytes) -> Any:
        return self._unpack(data, strict_map_key=False)


_NAMED: dict[str, type[_Base]] = {kind.name: kind for kind in (Pickle, Json, Msgpack)}


def serializer(named: str | Serializer) -> Serializer:
    """The serializer of that name, or what was given if it is one."""
    if isinstance(named, str):
        if named not in _NAMED:
            raise ValueError(f"serializer: {named!r} is none of {', '.join(_NAMED)}")
        return _NAMED[named]()
    if not (callable(getattr(named, "serialize", None)) and callable(getattr(named, "deserialize", None))):
        raise TypeError(f"serializer must be a name or have serialize() and deserialize(), not {type(named).__name__}")
    return named
