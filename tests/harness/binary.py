"""memcached's binary protocol: packets, and a client that reads whole answers."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.server import TIME_FACTOR
from harness.wire import WireTimeout

HEADER = struct.Struct(">BBHBBHIIQ")
REQUEST, RESPONSE = 0x80, 0x81
OPCODES = dict(
    get=0x00, set=0x01, add=0x02, replace=0x03, delete=0x04, incr=0x05, decr=0x06, quit=0x07, flush=0x08, getq=0x09,
    noop=0x0A, version=0x0B, getk=0x0C, getkq=0x0D, append=0x0E, prepend=0x0F, stat=0x10, setq=0x11, addq=0x12,
    replaceq=0x13, deleteq=0x14, incrq=0x15, decrq=0x16, quitq=0x17, flushq=0x18, appendq=0x19, prependq=0x1A,
    touch=0x1C, gat=0x1D, gatq=0x1E, sasl_list=0x20, sasl_auth=0x21, sasl_step=0x22, gatk=0x23, gatkq=0x24,
)  # fmt: skip
RANGE_OPCODES = dict(rget=0x30, rdelete=0x37, rdeleteq=0x38)  # which memcached does not execute
EXCHANGE_OPCODES = dict(exchange=0x70, take=0x71, exchangeq=0x72, takeq=0x73)  # which it does not know
_fences = itertools.count(0xF0000000)


@dataclass(frozen=True)
class Cas:
    """The CAS id of the server's `index`th different one in this conversation, plus `change`."""

    index: int = 0
    change: int = 0

    def of(self, seen: list[int]) -> int:
        return (seen[self.index] if self.index < len(seen) else 999_999_999) + self.change


@dataclass(frozen=True)
class Packet:
    """A request. Lengths that are None are those of the parts."""

    opcode: int
    key: bytes = b""
    extras: bytes = b""
    value: bytes = b""
    cas: int | Cas = 0
    opaque: int = 0x01020304
    magic: int = REQUEST
    key_bytes: int | None = None
    extras_bytes: int | None = None
    body_bytes: int | None = None

    def pack(self, cas_seen: list[int] | None = None) -> bytes:
        body = self.extras + self.key + self.value
        cas = self.cas.of(cas_seen or []) if isinstance(self.cas, Cas) else self.cas
        return (
            HEADER.pack(
                self.magic,
                self.opcode,
                len(self.key) if self.key_bytes is None else self.key_bytes,
                len(self.extras) if self.extras_bytes is None else self.extras_bytes,
                0,
                0,
                len(body) if self.body_bytes is None else self.body_bytes,
                self.opaque,
                cas & (2**64 - 1),
            )
            + body
        )

    def with_key(self, change: Callable[[bytes], bytes]) -> Packet:
        return replace(self, key=change(self.key))


def request(name: str, key: bytes = b"", extras: bytes = b"", value: bytes = b"", **more: object) -> Packet:
    return Packet(OPCODES[name], key, extras, value, **more)


def range_request(
    begin: bytes, end: bytes, flags: int, limit: int, opcode: int = RANGE_OPCODES["rget"], **more: object
) -> Packet:
    """flags: 1 and 2 have the range include `begin` and `end`; limit 0: none (docs/protocol.md)."""
    return Packet(opcode, begin, struct.pack(">HBBI", len(end), 0, flags, limit) + end, **more)


@dataclass(frozen=True)
class Answer:
    opcode: int
    status: int
    extras: bytes
    key: bytes
    value: bytes
    opaque: int
    cas: int


def answers(data: bytes) -> list[Answer]:
    """All packets of a stream of answers, each checked for what all have in common."""
    result = []
    while data:
        assert len(data) >= HEADER.size, f"half a header: {data!r}"
        magic, opcode, key_bytes, extras_bytes, data_type, status, body_bytes, opaque, cas = HEADER.unpack_from(data)
        assert magic == RESPONSE and data_type == 0, data[:200]
        assert key_bytes + extras_bytes <= body_bytes <= len(data) - HEADER.size, data[:200]
        body, data = data[HEADER.size : HEADER.size + body_bytes], data[HEADER.size + body_bytes :]
        key_end = extras_bytes + key_bytes
        result.append(
            Answer(opcode, status, body[:extras_bytes], body[extras_bytes:key_end], body[key_end:], opaque, cas)
        )
    return result


@dataclass(frozen=True)
class Said:
    """What came back for a request, and whether the server closed."""

    data: bytes
    closed: bool


class BinaryStream:
    """A connection. Each request is followed by a noop of its own: its answer ends what the request is answered."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.closed = False
        self._fence = b""

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> BinaryStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exchange(self, data: bytes, timeout_s: float = 60.0) -> Said:
        opaque = next(_fences)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # end() will find out
            self.socket.sendall(data + Packet(OPCODES["noop"], opaque=opaque).pack())
        return self.end(opaque, timeout_s)

    def end(self, opaque: int, timeout_s: float = 60.0) -> Said:
        fence = HEADER.pack(RESPONSE, OPCODES["noop"], 0, 0, 0, 0, 0, opaque, 0)
        received = bytearray()
        self.socket.settimeout(timeout_s * TIME_FACTOR)
        try:
            while not received.endswith(fence):
                data = self.socket.recv(1 << 18)
                if not data:
                    self.closed = True
                    return Said(bytes(received), closed=True)
                received += data
        except TimeoutError as error:
            raise WireTimeout(f"no answer to noop in {timeout_s} s", bytes(received)) from error
        except ConnectionResetError:
            self.closed = True
            return Said(bytes(received), closed=True)
        return Said(bytes(received[: -len(fence)]), closed=False)

    def ask(self, packet: Packet) -> list[Answer]:
        return answers(self.exchange(packet.pack()).data)


def next_fence() -> int:
    return next(_fences)
