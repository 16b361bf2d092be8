"""Comparison of reply streams: byte for byte, but for what must differ.

A stream is cut into pieces. `literal` pieces are compared exactly. The rest are the only permitted differences:

- `cas`: the numbers are the server's own. Each server's numbers are compared through the order of their first
  appearance: equal where the reference's are equal, different where they differ. Zero is itself.
- `seconds` (meta flags t and l, `exp` and `la` of me): the clock of the two servers ticks at different moments, so they
  may differ by TOLERANCE_S. -1 (no expiry) is itself. A time of 2^31 or more (memcached prints the time left of an
  item that is expired already as an unsigned number) only has to be such a number in both.
- `number` (`cls` and `size` of me, the text of VERSION): how a server stores an item, and its name, are its own; they
  must be there and be numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

TOLERANCE_S = 2
WRAPPED = 1 << 31
META_CODES = {b"HD", b"VA", b"EN", b"NS", b"EX", b"NF"}
CAS_FLAG = re.compile(rb"c\d+\Z")
SECONDS_FLAG = re.compile(rb"[tl]-?\d+\Z")
ME_FIELD = re.compile(rb"(exp|la|cas|cls|size)=(-?\d+)\Z")
NUMBER = re.compile(rb"\d+\Z")


class Piece(NamedTuple):
    kind: str  # literal, cas, seconds or number
    value: bytes | int
    key: bytes | None = None  # of a cas: the item's key where the reply says it


def pieces(stream: bytes) -> list[Piece]:
    """Cuts a reply stream, of any number of replies, into pieces."""
    result: list[Piece] = []
    literal = bytearray()

    def put(kind: str, value: int, key: bytes | None = None) -> None:
        result.append(Piece("literal", bytes(literal)))
        literal.clear()
        result.append(Piece(kind, value, key))

    position = 0
    while position < len(stream):
        end = stream.find(b"\r\n", position)
        if end < 0:
            literal += stream[position:]
            break
        line = stream[position:end]
        position = end + 2
        words = line.split(b" ")
        data_bytes = None
        if words[0] == b"VALUE" and len(words) in (4, 5) and NUMBER.match(words[3]):
            data_bytes = int(words[3]) + 2
            literal += b" ".join(words[:4])
            if len(words) == 5 and NUMBER.match(words[4]):
                literal += b" "
                put("cas", int(words[4]), words[1])
            elif len(words) == 5:
                literal += b" " + words[4]
        elif words[0] in META_CODES:
            if words[0] == b"VA" and len(words) > 1 and NUMBER.match(words[1]):
                data_bytes = int(words[1]) + 2
            key = next((word[1:] for word in words[1:] if word.startswith(b"k")), None)
            literal += words[0]
            for word in words[1:]:
                literal += b" "
                if CAS_FLAG.match(word):
                    literal += b"c"
                    put("cas", int(word[1:]), key)
                elif SECONDS_FLAG.match(word):
                    literal += word[:1]
                    put("seconds", int(word[1:]))
                else:
                    literal += word
        elif words[0] == b"ME":
            literal += b" ".join(words[:2])
            for word in words[2:]:
                literal += b" "
                field = ME_FIELD.match(word)
                if not field:
                    literal += word
                    continue
                literal += field[1] + b"="
                kind = {b"exp": "seconds", b"la": "seconds", b"cas": "cas"}.get(field[1], "number")
                put(kind, int(field[2]), words[1] if kind == "cas" else None)
        elif words[0] == b"VERSION" and len(words) > 1:
            literal += b"VERSION "
            put("number", 0)
        else:
            literal += line
        literal += b"\r\n"
        if data_bytes is not None:
            literal += stream[position : position + data_bytes]
            position += data_bytes
    result.append(Piece("literal", bytes(literal)))
    return result


def cas_values(stream: bytes) -> list[int]:
    return [int(piece.value) for piece in pieces(stream) if piece.kind == "cas"]


@dataclass
class CasMap:
    """The pairing of the two servers' CAS numbers by first appearance."""

    to_candidate: dict[int, int]
    to_reference: dict[int, int]

    @staticmethod
    def empty() -> CasMap:
        return CasMap({0: 0}, {0: 0})

    def pairs(self, reference: int, candidate: int) -> bool:
        """Whether the numbers may stand for each other; notes them if both are new."""
        if reference not in self.to_candidate and candidate not in self.to_reference:
            self.to_candidate[reference] = candidate
            self.to_reference[candidate] = reference
        return self.to_candidate.get(reference) == candidate and self.to_reference.get(candidate) == reference


def _seconds_agree(reference: int, candidate: int, tolerance_s: float) -> bool:
    if reference >= WRAPPED or candidate >= WRAPPED:
        return reference >= WRAPPED and candidate >= WRAPPED
    if reference == -1 or candidate == -1:
        return reference == candidate
    return abs(reference - candidate) <= tolerance_s


def _excerpt(reference: bytes, candidate: bytes) -> str:
    same = next(
        (i for i, (a, b) in enumerate(zip(reference, candidate, strict=False)) if a != b),
        min(len(reference), len(candidate)),
    )
    start = max(0, same - 60)
    return f"at byte {same}: reference {reference[start : same + 120]!r}, candidate {candidate[start : same + 120]!r}"


def difference(reference: bytes, candidate: bytes, cas_map: CasMap, tolerance_s: float = TOLERANCE_S) -> str | None:
    """Says where two reply streams differ in what may not differ, or None. `tolerance_s` is more where the streams were
    not recorded at the same time: what is left until an absolute time has then shrunk."""
    ours, theirs = pieces(reference), pieces(candidate)
    for mine, other in zip(ours, theirs, strict=False):
        if mine.kind != other.kind:
            return f"{mine} against {other}; {_excerpt(reference, candidate)}"
        if mine.kind == "literal" and mine.value != other.value:
            return _excerpt(bytes(mine.value), bytes(other.value))
        if mine.kind == "cas" and not cas_map.pairs(int(mine.value), int(other.value)):
            return f"CAS {other.value} does not stand where the reference's {mine.value} stands"
        if mine.kind == "seconds" and not _seconds_agree(int(mine.value), int(other.value), tolerance_s):
            return f"a time of {mine.value} s against {other.value} s; {_excerpt(reference, candidate)}"
    if len(ours) != len(theirs):
        return f"one reply is longer; {_excerpt(reference, candidate)}"
    return None


def cas_order_violation(stream: bytes) -> str | None:
    """CAS numbers of a key never fall. Only for a stream in which no key is deleted."""
    last: dict[bytes, int] = {}
    for piece in pieces(stream):
        if piece.kind != "cas" or piece.key is None or piece.value == 0:
            continue
        if int(piece.value) < last.get(piece.key, 0):
            return f"CAS of {piece.key!r} fell from {last[piece.key]} to {piece.value}"
        last[piece.key] = int(piece.value)
    return None
