"""Commands cut at any byte: the replies must be those to the whole. What the reference answered step by step is
compared with what the candidate answers to all steps in a row, cut where it pleases the test."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import islice

import pytest
from harness.replies import CasMap, difference
from harness.wire import Stream

from conformance.compare import LANES, joined_request, reference_streams
from conformance.conftest import Pair
from conformance.corpus import all_cases
from conformance.corpus.case import Case

EXHAUSTIVE_CASES = 100
LONGEST_EXHAUSTIVE = 160
RANDOM_CASES = 2000


@cache
def splittable() -> list[Case]:
    """Cases with replies that do not depend on what arrives together, in an order that mixes the groups."""
    cases = [
        case for case in all_cases() if case.can_be_joined and not case.quirk and not case.holds_item and not case.alone
    ]
    random.Random(69314718).shuffle(cases)
    return cases


def renamed(text: bytes, case: Case, number: int) -> bytes:
    """With keys of the same length that no other run uses."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    fresh = "".join(digits[number // 36**place % 36] for place in range(len(case.stem)))
    return text.replace(case.stem, fresh.encode())


def lanes_of(items: Iterable) -> Iterator[list]:
    iterator = iter(items)
    while lane := list(islice(iterator, LANES)):
        yield lane


@pytest.mark.parametrize("part", range(4))
def test_at_every_byte(part: int, unix_pair: Pair) -> None:
    """On a Unix socket the kernel says when the server has read what was sent, so each piece is a read of its own."""
    short = [case for case in splittable() if len(joined_request([case])) <= LONGEST_EXHAUSTIVE and len(case.stem) > 3]
    cases = short[part : EXHAUSTIVE_CASES + part : 4]
    expected = reference_streams(cases, unix_pair.connects()[0]).streams
    cuts = ((case, cut) for case in cases for cut in range(1, len(joined_request([case]))))
    number = 0
    with ExitStack() as stack:
        streams = [stack.enter_context(Stream(unix_pair.candidate.connect())) for _ in range(LANES)]
        for lane in lanes_of(cuts):
            requests = [renamed(joined_request([case]), case, number + n) for n, (case, _) in enumerate(lane)]
            for stream, (_, cut), request in zip(streams, lane, requests, strict=False):
                stream.send(request[:cut])
            for stream, _ in zip(streams, lane, strict=False):
                stream.wait_taken()
            for stream, (_, cut), request in zip(streams, lane, requests, strict=False):
                stream.begin(request[cut:])
            for n, (stream, (case, cut)) in enumerate(zip(streams, lane, strict=False)):
                wanted = renamed(expected[case.name], case, number + n)
                found = difference(wanted, stream.end().data, CasMap.empty(), 10)
                assert not found, f"{case.name} cut at {cut}, after {requests[n][max(0, cut - 40) : cut]!r}: {found}"
            number += len(lane)


def test_one_byte_at_a_time(unix_pair: Pair) -> None:
    cases = [case for case in splittable() if len(joined_request([case])) <= LONGEST_EXHAUSTIVE][-10 * LANES :]
    expected = reference_streams(cases, unix_pair.connects()[0])
    with ExitStack() as stack:
        streams = [stack.enter_context(Stream(unix_pair.candidate.connect())) for _ in range(LANES)]
        for lane in lanes_of(cases):
            requests = [joined_request([case]) for case in lane]
            for place in range(max(map(len, requests))):
                for stream, request in zip(streams, requests, strict=False):
                    stream.send(request[place : place + 1])
                for stream in streams:
                    stream.wait_taken()
            for stream, case in zip(streams, lane, strict=False):
                found = expected.difference([case], stream.exchange(b"").data)
                assert not found, f"{case.name}: {found}"


def test_at_random_places(pair: Pair) -> None:
    """Over TCP, in two to six pieces, on connections that stay."""
    chance = random.Random(30102999)
    cases = [case for case in splittable() if len(joined_request([case])) <= 20000][:RANDOM_CASES]
    expected = reference_streams(cases, pair.connects()[0])
    with ExitStack() as stack:
        streams = [stack.enter_context(Stream(pair.candidate.connect())) for _ in range(LANES)]
        for lane in lanes_of(cases):
            requests = [joined_request([case]) for case in lane]
            cuts = [sorted(chance.randrange(len(r) + 1) for _ in range(chance.randint(1, 5))) for r in requests]
            for piece in range(5):
                for stream, request, places in zip(streams, requests, cuts, strict=False):
                    if piece < len(places):
                        stream.send(request[places[piece - 1] if piece else 0 : places[piece]])
                time.sleep(0.0005)
            for stream, request, places in zip(streams, requests, cuts, strict=False):
                stream.begin(request[places[-1] :])
            for stream, case, places in zip(streams, lane, cuts, strict=False):
                found = expected.difference([case], stream.end().data)
                assert not found, f"{case.name} cut at {places}: {found}"


def test_large_values_in_pieces(pair: Pair) -> None:
    """Values in pieces around the sizes of read buffers, their last line end cut too."""
    chance = random.Random(47712125)
    with Stream(pair.candidate.connect()) as stream:
        for size in (1000, 4095, 16384, 65536, 300000, 1000000):
            value = chance.randbytes(size)
            request = b"set pieces 5 0 %d\r\n%s\r\n" % (size, value)
            for piece in (1000, 2048, 16384, 65536):
                for start in range(0, len(request) - 1, max(piece, size // 100)):
                    stream.send(request[start : min(start + max(piece, size // 100), len(request) - 1)])
                    time.sleep(0.0001)
                reply = stream.exchange(b"\nget pieces\r\n")
                assert reply.data == b"STORED\r\nVALUE pieces 5 %d\r\n%s\r\nEND\r\n" % (size, value), (size, piece)
