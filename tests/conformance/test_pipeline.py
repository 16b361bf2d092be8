"""Many commands in one send: the replies must be the replies one by one, in a row."""

import random
from functools import cache

import pytest
from harness.wire import Stream

from conformance.compare import joined_request, reference_streams
from conformance.conftest import Pair
from conformance.corpus import all_cases
from conformance.corpus.case import Case

LARGEST_CASE = 64 << 10


@cache
def joinable(with_quirks: bool) -> list[Case]:
    cases = [case for case in all_cases() if case.can_be_joined and len(joined_request([case])) < LARGEST_CASE]
    if not with_quirks:
        cases = [case for case in cases if not case.quirk and not case.holds_item]
    random.Random(43429448).shuffle(cases)
    return cases


def check(pair: Pair, cases: list[Case], depth: int) -> None:
    """Sends `depth` cases at a time."""
    expected = reference_streams(cases, pair.connects()[0])
    with Stream(pair.candidate.connect()) as stream:
        for start in range(0, len(cases), depth):
            batch = cases[start : start + depth]
            reply = stream.exchange(joined_request(batch), timeout_s=60)
            found = expected.difference(batch, reply.data)
            assert not found and not reply.closed, f"from {batch[0].name} on, {len(batch)} cases in one send: {found}"


@pytest.mark.parametrize(
    ("depth", "first", "count"), [(2, 0, 1000), (3, 1000, 1500), (17, 2500, 2500), (300, 5000, 5000)]
)
def test_depth(depth: int, first: int, count: int, pair: Pair) -> None:
    check(pair, joinable(False)[first : first + count], depth)


def test_whole_corpus_in_one_send(pair: Pair) -> None:
    cases = joinable(False)
    check(pair, cases, len(cases))


@pytest.mark.beyond_memcached("there an over-long key drops earlier replies, and a fetch before it changes a decr")
def test_what_memcached_itself_answers_by_arrival(pair: Pair) -> None:
    """The cases left out above: their replies must not depend on what arrives in one packet either."""
    cases = [case for case in joinable(True) if case.quirk or case.holds_item]
    assert len(cases) > 300
    check(pair, cases, 7)


@pytest.mark.parametrize("depth", [1000, 100_000])
def test_deep_pipelines(depth: int, pair: Pair) -> None:
    """One key counted up, quiet commands between, one answer for each command that has one."""
    with Stream(pair.candidate.connect()) as stream:
        assert stream.exchange(b"set deep 0 0 1\r\n0\r\n").data == b"STORED\r\n"
        request = b"incr deep 1\r\nmg absent q\r\nmg deep q v\r\n"
        reply = stream.exchange(request * depth, timeout_s=60)
        assert reply.data == b"".join(
            b"%d\r\nVA %d\r\n%d\r\n" % (count, len(str(count)), count) for count in range(1, depth + 1)
        )
