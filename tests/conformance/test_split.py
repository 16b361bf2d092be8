"""Commands cut at any byte: the replies must be those to the whole. What the reference answered step by step is
compared with what the candidate answers to all steps in a row, cut where it pleases the test."""

import random
import time
from functools import cache

import pytest
from harness.wire import Stream

from conformance.compare import joined_request, reference_streams
from conformance.conftest import Pair
from conformance.corpus import all_cases
from conformance.corpus.case import Case

EXHAUSTIVE_CASES = 60
LONGEST_EXHAUSTIVE = 160
RANDOM_CASES = 1200


@cache
def splittable() -> list[Case]:
    """Cases whose replies do not depend on what arrives together, in an order that mixes the groups."""
    cases = [case for case in all_cases() if case.can_be_joined and not case.quirk and not case.holds_item]
    random.Random(69314718).shuffle(cases)
    return cases


@pytest.mark.parametrize("part", range(4))
def test_at_every_byte(part: int, unix_pair: Pair) -> None:
    """On a Unix socket the kernel says when the server has read what was sent, so each piece is a read of its own."""
    short = [case for case in splittable() if len(joined_request([case])) <= LONGEST_EXHAUSTIVE]
    cases = short[part : EXHAUSTIVE_CASES + part : 4]
    reference, _ = unix_pair.clients()
    expected = reference_streams(cases, reference)
    for case in cases:
        request = joined_request([case])
        for cut in range(1, len(request)):
            with Stream(unix_pair.candidate.connect()) as stream:
                assert stream.exchange(b"flush_all\r\n").data == b"OK\r\n"
                stream.send(request[:cut])
                stream.wait_taken()
                reply = stream.exchange(request[cut:])
            found = expected.difference([case], reply.data)
            assert not found, f"{case.name} cut at {cut}, after {request[max(0, cut - 40) : cut]!r}: {found}"


def test_one_byte_at_a_time(unix_pair: Pair) -> None:
    cases = [case for case in splittable() if len(joined_request([case])) <= LONGEST_EXHAUSTIVE][-60:]
    reference, _ = unix_pair.clients()
    expected = reference_streams(cases, reference)
    with Stream(unix_pair.candidate.connect()) as stream:
        for case in cases:
            for byte in joined_request([case]):
                stream.send(bytes([byte]))
                stream.wait_taken()
            found = expected.difference([case], stream.exchange(b"").data)
            assert not found, f"{case.name}: {found}"


def test_at_random_places(pair: Pair) -> None:
    """Over TCP, in two to six pieces, on one connection."""
    chance = random.Random(30102999)
    cases = [case for case in splittable() if len(joined_request([case])) <= 20000][:RANDOM_CASES]
    reference, _ = pair.clients()
    expected = reference_streams(cases, reference)
    with Stream(pair.candidate.connect()) as stream:
        for case in cases:
            request = joined_request([case])
            cuts = sorted(chance.randrange(len(request) + 1) for _ in range(chance.randint(1, 5)))
            for start, end in zip([0, *cuts], cuts, strict=False):
                stream.send(request[start:end])
                time.sleep(0.0002)
            reply = stream.exchange(request[cuts[-1] :])
            found = expected.difference([case], reply.data)
            assert not found, f"{case.name} cut at {cuts}: {found}"


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
