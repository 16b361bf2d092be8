"""What a case of the corpus is, and how groups of cases are written down.

In a step `<k>`, `<j>` and `<i>` stand for keys that no other case uses, `<k=250>` for such a key of 250 bytes, `<k64>`
for the base64 text of another such key's bytes, `<bin>` for those bytes, and `<cas0>`, `<cas1>` ... for the CAS numbers
that this server has shown in this case, in order of first appearance, perhaps with `+n` or `-n`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

CAS_MARK = re.compile(rb"<cas(\d+)([+-]\d+)?>")
KEY_MARK = re.compile(rb"<(k|j|i|k64|bin)>")
LONG_KEY_MARK = re.compile(rb"<k=(\d+)>")
SHARED_STATE = re.compile(
    rb"flush_all|stats|verbosity|cache_memlimit|lru|slabs|(?:set|add|replace|cas|delete) noreply", re.I
)
LONGEST_UNFINISHED_LINE = 2048  # past it memcached closes, unless the line is a get
FETCH = re.compile(rb"^ *(?:get|gets|gat|gats|mg) ", re.MULTILINE)
ARITHMETIC = re.compile(rb"^ *(?:incr|decr|ma) ", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One conversation. Each step is sent whole and answered before the next is sent.

    ends_open: the last step is a command without its end: the client closes its side, and no answer is due.
    closes: the server ends the connection at the last step.
    quirk: why memcached's answer to several steps in one packet differs from its answers to the steps one by one.
    alone: it changes or shows what other cases see too.
    stem: what all its keys begin with and no other case's do.
    """

    name: str
    steps: tuple[bytes, ...]
    ends_open: bool = False
    closes: bool = False
    quirk: str = ""
    alone: bool = False
    stem: bytes = b""

    @property
    def uses_cas_values(self) -> bool:
        return any(CAS_MARK.search(step) for step in self.steps)

    @property
    def arrival_sensitive(self) -> bool:
        """Whether memcached's answer depends on how much of a line arrives at once: see try_read_command."""
        return any(len(line) > LONGEST_UNFINISHED_LINE // 2 for step in self.steps for line in step.split(b"\n"))

    @property
    def holds_item(self) -> bool:
        """A fetched item is held until its reply is sent; arithmetic on it then makes a new item without padding."""
        seen_fetch = False
        for step in self.steps:
            if seen_fetch and ARITHMETIC.search(step):
                return True
            seen_fetch = seen_fetch or bool(FETCH.search(step))
        return False

    @property
    def can_be_joined(self) -> bool:
        """Whether the steps may be sent in one packet, and between other cases."""
        return not (self.ends_open or self.closes or self.uses_cas_values or self.arrival_sensitive)

    def filled(self, step: bytes, cas_seen: list[int]) -> bytes:
        def value(mark: re.Match[bytes]) -> bytes:
            index = int(mark[1])
            if index >= len(cas_seen):
                return b"999999999999"
            return b"%d" % (cas_seen[index] + int(mark[2] or 0))

        return CAS_MARK.sub(value, step)


@dataclass
class Group:
    """Cases of one subject, numbered and with their keys filled in."""

    name: str
    alone: bool = False  # all of them
    cases: list[Case] = field(default_factory=list)

    def add(
        self,
        title: str,
        *steps: bytes,
        ends_open: bool = False,
        closes: bool = False,
        quirk: str = "",
        alone: bool = False,
    ) -> None:
        number = len(self.cases)
        stem = f"{self.name}{number}".encode()
        # Three bytes to a base64 group, padding in two cases of three; bytes that a text key could not hold.
        binary = b"\x00 \xff\n" + stem + b"\r\x01"
        keys = {
            b"k": stem + b"k",
            b"j": stem + b"j",
            b"i": stem + b"i",
            b"bin": binary,
            b"k64": base64.b64encode(binary),
        }

        def long_key(mark: re.Match[bytes]) -> bytes:
            return stem.ljust(int(mark[1]), b"z")[: int(mark[1])]

        filled = tuple(LONG_KEY_MARK.sub(long_key, KEY_MARK.sub(lambda mark: keys[mark[1]], step)) for step in steps)
        short_key = any(int(length) < len(stem) + 2 for step in steps for length in LONG_KEY_MARK.findall(step))
        alone = alone or self.alone or short_key or any(SHARED_STATE.search(step) for step in steps)
        self.cases.append(Case(f"{self.name}/{number} {title}", filled, ends_open, closes, quirk, alone, stem))

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)


def store(key: bytes, value: bytes, flags: bytes = b"0", expiry: bytes = b"0") -> bytes:
    return b"set %s %s %s %d\r\n%s\r\n" % (key, flags, expiry, len(value), value)


# Spellings of numbers: edges of 16, 31, 32, 63 and 64 bits, signs, white space that strtol skips, and no numbers.
NUMBERS = [
    b"0", b"1", b"2", b"10", b"65535", b"65536", b"2147483646", b"2147483647", b"2147483648", b"4294967294",
    b"4294967295", b"4294967296", b"4294967297", b"4294967298", b"9223372036854775807", b"9223372036854775808",
    b"18446744073709551614", b"18446744073709551615", b"18446744073709551616", b"99999999999999999999999999",
    b"-0", b"-1", b"-2", b"+1", b"+0", b"-2147483648", b"-2147483649", b"-4294967294", b"-4294967295", b"-4294967296",
    b"-9223372036854775808", b"-9223372036854775809", b"-18446744073709551614", b"-18446744073709551615",
    b"abc", b"1a", b"a1", b"0x10", b"1.5", b"1e3", b"00012", b"\t2", b"2\t", b"2\tx", b"\x0b2", b"2\x0cx", b"--1",
    b"+-1", b"-", b"+", b",1", b"1,", b"\xd9\xa1", b"2\xff", b"NaN",
]  # fmt: skip


def as_int32(text: bytes) -> int | None:
    """What memcached reads as a 32-bit length: strtol, then cut to 32 bits; None where it is no number."""
    match = re.match(rb"[ \t\n\x0b\x0c\r]*([+-]?\d+)(?=[ \t\n\x0b\x0c\r]|\Z)", text)
    if not match or not -(1 << 63) <= int(match[1]) < 1 << 63:
        return None
    low = int(match[1]) & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low


# The same for times. None lies between 1 s and 80 s after now: the clocks of two servers do not tick together, and a
# short time that has passed for one and not for the other would be a false alarm.
EXPIRIES = [number for number in NUMBERS if as_int32(number) not in range(1, 80)] + [
    b"90", b"+90", b"00090", b"\t90", b"90\t", b"90\tx", b"\x0b90", b"90\x0cx", b"4294967386", b"-4294967206", b"90a",
    b"2591999", b"2592000", b"2592001", b"1000000000",
]  # fmt: skip
