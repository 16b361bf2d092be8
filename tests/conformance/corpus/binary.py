"""Conversations over the binary protocol. Seeded: the same in every run."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from harness.binary import EXCHANGE_OPCODES, OPCODES, RANGE_OPCODES, Cas, Packet, request


@dataclass(frozen=True)
class Conversation:
    """Each step is sent whole and answered before the next is sent; keys are no other conversation's."""

    name: str
    steps: tuple[Packet, ...]
    alone: bool = False  # it touches what other cases see

    @property
    def uses_cas(self) -> bool:
        return any(isinstance(step.cas, Cas) for step in self.steps)

    @property
    def reads_before_counting(self) -> bool:
        """memcached holds a fetched item until it has sent it; arithmetic on it then leaves other padding."""
        counts = {OPCODES[name] for name in ("incr", "decr", "incrq", "decrq")}
        return any(step.opcode in counts for step in self.steps)


def flags_and_expiry(flags: int = 0, expiry: int = 0) -> bytes:
    return struct.pack(">II", flags, expiry)


def arithmetic(delta: int, initial: int = 0, expiry: int = 0) -> bytes:
    return struct.pack(">QQI", delta, initial, expiry)


def u32(number: int) -> bytes:
    return struct.pack(">I", number)


GETS = ("get", "getq", "getk", "getkq")
TOUCHES = ("touch", "gat", "gatq", "gatk", "gatkq")
STORES = ("set", "add", "replace", "setq", "addq", "replaceq")
JOINS = ("append", "prepend", "appendq", "prependq")
COUNTS = ("incr", "decr", "incrq", "decrq")
DELETES = ("delete", "deleteq")
KEYED = GETS + TOUCHES + STORES + JOINS + COUNTS + DELETES
NUMBERS_64 = (0, 1, 2, 9, 10, 99, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
# None that passes while the test runs.
EXPIRIES = (0, 90, 1000, 2591999, 2592000, 2592001, 1_000_000_000, 4_000_000_000, 2**31 - 1, 2**31, 2**32 - 2)


def well_formed(name: str, key: bytes, value: bytes = b"value", **more: object) -> Packet:
    if name in TOUCHES:
        return request(name, key, u32(1000), **more)
    if name in STORES:
        return request(name, key, flags_and_expiry(9, 0), value, **more)
    if name in JOINS:
        return request(name, key, b"", value, **more)
    if name in COUNTS:
        return request(name, key, arithmetic(7, 100), **more)
    return request(name, key, **more)


def states(key: bytes) -> Iterator[tuple[str, tuple[Packet, ...]]]:
    """What may be there before."""
    for title, flags, value in (
        ("text", 5, b"text"),
        ("number", 0, b"41"),
        ("padded", 2**32 - 1, b"7  "),
        ("empty", 1, b""),
        ("long", 0, b"9" * 30),
        ("largest", 3, b"18446744073709551615"),
    ):
        yield title, (request("set", key, flags_and_expiry(flags), value),)
    yield "nothing", (request("delete", key),)


def build_commands() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    """Every opcode on every state, with each kind of CAS id; then what is left."""
    for name in KEYED:
        for title, before in states(b"<k>"):
            for cas_title, cas in (("", 0), ("right cas", Cas(0)), ("wrong cas", Cas(0, 5)), ("huge cas", 2**64 - 1)):
                for long in (False, True):
                    key = b"<k>" + b"z" * 240 if long else b"<k>"
                    start = tuple(step.with_key(lambda _, key=key: key) for step in before)
                    yield (
                        f"{name} {title} {cas_title} {'long key' if long else ''}",
                        (*start, well_formed(name, key, cas=cas, opaque=0xFFFEFDFC), request("getk", key)),
                    )


def build_big_counters() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    """For servers that have seen no minus sign: memcached searches for one behind a counter of 2^63 or more, through
    whatever its memory held before."""
    for name in ("incr", "decr"):
        for delta in NUMBERS_64:
            for initial in NUMBERS_64:
                yield (
                    f"{name} {delta} from {initial}",
                    (
                        request(name, b"<k>", arithmetic(delta, initial, 0xFFFFFFFF)),
                        request(name, b"<k>", arithmetic(delta, initial, 0)),
                        request(name, b"<k>", arithmetic(delta, 5, 0)),
                        request("get", b"<k>"),
                    ),
                )


def build_numbers() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    for name in ("incr", "decr"):
        for value in (
            b"0",
            b"00",
            b" 5",
            b"5 ",
            b"-1",
            b"+1",
            b"1a",
            b"a",
            b"\t3",
            b"3\x00",
            b"1.5",
            b"0x10",
            b"18446744073709551616",
            b"99999999999999999999999",
            b"5\r\n",
        ):
            yield (
                f"{name} of {value!r}",
                (
                    request("set", b"<k>", flags_and_expiry(3), value),
                    request(name, b"<k>", arithmetic(1)),
                    request("get", b"<k>"),
                ),
            )


def build_expiries() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    for expiry in EXPIRIES:
        for name in ("set", "add", "setq"):
            yield f"{name} {expiry}", (request(name, b"<k>", flags_and_expiry(1, expiry), b"v"), request("get", b"<k>"))
        yield (
            f"incr {expiry}",
            (request("incr", b"<k>", arithmetic(1, 5, expiry)), request("get", b"<k>"), request("getq", b"<k>")),
        )
        for name in TOUCHES:
            yield (
                f"{name} {expiry}",
                (
                    request("set", b"<k>", flags_and_expiry(1), b"v"),
                    request(name, b"<k>", u32(expiry)),
                    request("get", b"<k>"),
                ),
            )


def build_sizes() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    chance = random.Random(16180339)
    for size in (0, 1, 7, 8, 63, 1399, 1400, 8191, 8192, 8193, 16383, 16384, 16385, 65535, 65536, 300_000, 1_000_000):
        value = chance.randbytes(size)
        for name in ("set", "setq", "add"):
            yield f"{name} {size}", (request(name, b"<k>", flags_and_expiry(1), value), request("getk", b"<k>"))
        if size <= 300_000:
            for name in JOINS:
                yield (
                    f"{name} {size}",
                    (
                        request("set", b"<k>", flags_and_expiry(1), value),
                        request(name, b"<k>", b"", value),
                        request("gatk", b"<k>", u32(500)),
                    ),
                )
    for name in STORES + JOINS:
        for cas in (0, 99):
            too_large = well_formed(name, b"<k>", b"L" * (1 << 20), cas=cas)
            yield (
                f"{name} too large {cas}",
                (request("set", b"<k>", flags_and_expiry(), b"old"), too_large, request("get", b"<k>")),
            )
    yield "the sum is too large", (
        request("set", b"<k>", flags_and_expiry(), b"x" * 700_000),
        request("append", b"<k>", b"", b"x" * 600_000),
        request("prependq", b"<k>", b"", b"x" * 600_000),
        request("get", b"<k>"),
    )  # fmt: skip


def build_malformed() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    """Every opcode in every shape. Left out, since there memcached loses track of where packets begin: unknown opcodes
    with a body, and touches and stat with a value (docs/protocol.md, Departures)."""
    known = set(OPCODES.values())
    valueless = {OPCODES[name] for name in (*TOUCHES, "stat")}
    for opcode in range(256):
        for key in (b"", b"<k>", b"k" * 250, b"k" * 251, b"k" * 300):
            for extras in (b"", b"\0" * 4, b"\0" * 8, b"\0" * 20, b"\0" * 21):
                for value in (b"", b"value"):
                    if opcode not in known and (key + extras + value) and len(key) <= 250:
                        continue
                    if opcode in valueless and value and len(key) <= 250:
                        continue
                    if opcode in {*RANGE_OPCODES.values(), *EXCHANGE_OPCODES.values()}:
                        continue
                    if opcode not in known and opcode % 16:
                        continue
                    if opcode in (OPCODES["stat"], OPCODES["flush"], OPCODES["flushq"]):
                        continue
                    # "Unknown command" of SASL forgets the mechanism but not more.
                    yield f"{opcode:#x} {len(key)} {len(extras)} {len(value)}", (Packet(opcode, key, extras, value),)
        if opcode in known:
            for key_bytes, extras_bytes, body_bytes in ((1, 0, 0), (5, 8, 12), (0, 8, 7), (2, 0, 1), (250, 20, 269)):
                yield (
                    f"{opcode:#x} body too short {key_bytes} {extras_bytes} {body_bytes}",
                    (
                        Packet(
                            opcode, b"k" * 270, key_bytes=key_bytes, extras_bytes=extras_bytes, body_bytes=body_bytes
                        ),
                    ),
                )
    for magic in (0x00, 0x67, 0x7F, 0x81, 0xFF):
        yield f"magic {magic:#x}", (request("noop"), request("noop", magic=magic))


def build_server() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    yield "version", (request("version"),)
    yield "quit", (request("quit", opaque=77),)
    yield "quitq", (request("quitq"),)
    for name in ("flush", "flushq"):
        for extras in (b"", u32(0), u32(100), u32(2592001), b"\0" * 8, b"\0" * 3):
            yield (
                f"{name} {len(extras)}",
                (
                    request("set", b"<k>", flags_and_expiry(), b"v"),
                    request(name, b"", extras),
                    request("get", b"<k>"),
                ),
            )
        yield f"{name} with a key", (request(name, b"<k>"),)
    for group in (
        b"reset",
        b"resetting",
        b"detail on",
        b"detail off",
        b"detail dump",
        b"detail",
        b"detail x",
        b"nosuch",
        b"slab",
        b"slabs x",
        b"cachedump 1 1",
        b"extstore",
    ):
        yield f"stat {group!r}", (request("stat", group),)
    yield "stat with extras", (request("stat", b"items", b"\0" * 4),)


def build_random() -> Iterator[tuple[str, tuple[Packet, ...]]]:
    chance = random.Random(27182818)
    for number in range(1200):
        steps = []
        for _ in range(chance.randint(3, 14)):
            key = chance.choice((b"<k>", b"<k>", b"<k>b", b"<k>" + b"z" * 60))
            name = chance.choice(KEYED)
            cas = chance.choice((0, 0, 0, 0, Cas(0), Cas(1), Cas(0, 1 << 40)))  # the last: of no item yet
            value = chance.choice((b"", b"5", b"41", b"text", b"v" * chance.randint(1, 3000)))
            step = well_formed(name, key, value, cas=cas, opaque=chance.getrandbits(31))
            if name in COUNTS:
                extras = arithmetic(
                    chance.choice(NUMBERS_64), chance.choice(NUMBERS_64), chance.choice((0, 0, 900, 0xFFFFFFFF))
                )
                step = request(name, key, extras, cas=cas)
            steps.append(step)
        yield f"{number}", tuple(steps)


NEW_SERVERS = "big_counters"  # the group that wants some
BUILDERS = {
    "commands": build_commands,
    NEW_SERVERS: build_big_counters,
    "numbers": build_numbers,
    "expiries": build_expiries,
    "sizes": build_sizes,
    "malformed": build_malformed,
    "server": build_server,
    "random": build_random,
}


@cache
def groups() -> dict[str, list[Conversation]]:
    built = {}
    for group, build in BUILDERS.items():
        built[group] = []
        for number, (title, steps) in enumerate(build()):
            stem = f"bin{group[0]}{number}".encode()
            filled = tuple(step.with_key(lambda key, stem=stem: key.replace(b"<k>", stem)) for step in steps)
            built[group].append(Conversation(f"{group}/{number} {title}", filled, alone=group == "server"))
    return built
