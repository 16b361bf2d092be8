"""The corpus over UDP: each step is a datagram.

The payloads must be the reference's, joined. Where the reference answers with one message, the candidate must cut it
into the same datagrams. Where it answers with several (one for each key of a get: all numbered from 0, some empty with
a total of 0, which no client can put in order), the candidate may instead follow protocol.txt: one message for each
command.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from harness.replies import CasMap, cas_values, difference
from harness.server import Server
from harness.wire import Datagram, Stream, UdpClient, WireTimeout

from conformance.compare import report
from conformance.conftest import NO_BACKGROUND, Pair, start_pair
from conformance.corpus import GROUP_NAMES, groups
from conformance.corpus.case import Case

LARGEST_REQUEST = 60000
LARGEST_DATAGRAM = 1400


@pytest.fixture(scope="module")
def udp_servers() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield start_pair(stack, "-t", "1", *NO_BACKGROUND)  # with more threads memcached answers out of order


@pytest.fixture
def udp_pair(udp_servers: Pair) -> Iterator[Pair]:
    udp_servers.forget_everything()
    yield udp_servers
    udp_servers.reference.check_alive()
    udp_servers.candidate.check_alive()


def eligible(case: Case) -> bool:
    if any(step.startswith(b"stats cachedump") for step in case.steps):
        return False  # refused over UDP: what is streamed would not fit
    return not case.closes and not case.ends_open and max(map(len, case.steps)) <= LARGEST_REQUEST


def messages(datagrams: list[Datagram]) -> list[list[Datagram]]:
    """Cuts datagrams, in order of arrival, into messages at each sequence number 0."""
    result: list[list[Datagram]] = []
    for datagram in datagrams:
        if datagram.sequence == 0 or not result:
            result.append([])
        result[-1].append(datagram)
    return result


def frame_error(datagrams: list[Datagram]) -> str | None:
    """What is wrong with the frames by protocol.txt, or None."""
    for message in messages(datagrams):
        for number, datagram in enumerate(message):
            if datagram.sequence != number or datagram.total != len(message) or datagram.reserved != 0:
                return f"datagram {number} of a message of {len(message)}: {datagram}"
            if datagram.size > LARGEST_DATAGRAM or (number < len(message) - 1 and datagram.size != LARGEST_DATAGRAM):
                return f"a datagram of {datagram.size} bytes as number {number} of {len(message)}"
    return None


def frames(datagrams: list[Datagram]) -> list[tuple[int, int, int]]:
    return [(datagram.sequence, datagram.total, datagram.reserved) for datagram in datagrams]


def compare_step(ours: list[Datagram], theirs: list[Datagram], cas_map: CasMap) -> str | None:
    found = difference(b"".join(d.payload for d in ours), b"".join(d.payload for d in theirs), cas_map)
    if found:
        return found
    if len(messages(ours)) == 1 and ours[0].total:
        return frame_error(theirs) or (
            None if frames(ours) == frames(theirs) else f"{frames(theirs)} for {frames(ours)}"
        )
    if frames(ours) == frames(theirs):
        return None
    return frame_error(theirs)


def run_case(case: Case, reference: UdpClient, candidate: UdpClient) -> str | None:
    cas_map = CasMap.empty()
    seen: tuple[list[int], list[int]] = ([], [])
    for step in case.steps:
        for client, cas_seen in zip((reference, candidate), seen, strict=True):
            client.begin(case.filled(step, cas_seen))
        answers = [reference.end(), candidate.end()]
        for datagrams, cas_seen in zip(answers, seen, strict=True):
            shown = cas_values(b"".join(datagram.payload for datagram in datagrams))
            cas_seen += [value for value in dict.fromkeys(shown) if value and value not in cas_seen]
        found = compare_step(*answers, cas_map)
        if found:
            return f"{step[:200]!r}: {found}"
    return None


@pytest.mark.parametrize("group", GROUP_NAMES)
def test_group(group: str, udp_pair: Pair) -> None:
    cases = [case for case in groups()[group] if eligible(case)]
    cases = cases[:: max(1, len(cases) // 150)]
    failures = []
    with (
        UdpClient(udp_pair.reference.address()) as reference,
        UdpClient(udp_pair.candidate.address()) as candidate,
    ):
        for case in cases:
            try:
                found = run_case(case, reference, candidate)
            except WireTimeout as timeout:
                failures.append((case, str(timeout)))
                break
            if found:
                failures.append((case, found))
    assert not failures, report(failures, len(cases))


@pytest.mark.parametrize("size", [1, 1360, 1361, 1362, 1363, 1364, 1365, 1366, 1367, 1368, 2752, 2760, 14000, 200000])
def test_multi_datagram_replies(size: int, udp_pair: Pair) -> None:
    """Replies around whole numbers of datagrams, by get and by mg."""
    value = bytes(i % 251 for i in range(size))
    sets_max = 3000  # the servers count differently: to CAS numbers with as many digits, as each is a byte of the reply
    with Stream(udp_pair.reference.connect()) as first, Stream(udp_pair.candidate.connect()) as second:
        digits = {first: 0, second: 0}
        for _ in range(sets_max):
            for stream in [s for s in digits if digits[s] == min(digits.values())]:
                assert stream.exchange(b"set big 7 0 %d\r\n%s\r\n" % (size, value)).data == b"STORED\r\n"
                digits[stream] = len(stream.exchange(b"mg big c\r\n").data)
            if digits[first] == digits[second]:
                break
        assert digits[first] == digits[second]
    with (
        UdpClient(udp_pair.reference.address()) as reference,
        UdpClient(udp_pair.candidate.address()) as candidate,
    ):
        for request in (b"get big\r\n", b"gets big\r\n", b"mg big v k\r\n", b"mg big s v Oopaque t\r\n"):
            ours, theirs = reference.exchange(request), candidate.exchange(request)
            assert compare_step(ours, theirs, CasMap.empty()) is None
            assert len(theirs) == len(ours)


FRAMES = {
    "two datagrams announced": (0, 2, 0),
    "none announced": (0, 0, 0),
    "many announced": (0, 65535, 0),
    "a later sequence number": (5, 1, 0),
    "the reserved field used": (0, 1, 77),
    "all of it": (65535, 1, 65535),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frame_fields(name: str, udp_pair: Pair) -> None:
    """Which requests are dropped and which are answered."""
    sequence, total, reserved = FRAMES[name]
    answers = []
    for server in (udp_pair.reference, udp_pair.candidate):
        with UdpClient(server.address()) as client:
            mine = client.send(
                b"set frame 0 0 2\r\nab\r\nget frame\r\n", sequence=sequence, total=total, reserved=reserved
            )
            fence = client.send(b"mn\r\n")
            payload = b""
            while (datagram := client.receive(5.0)) and datagram.request_id != fence:
                assert datagram.request_id == mine
                payload += datagram.payload
            answers.append(payload)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("datagram", [b"", b"\0", b"\0\1\0\0\0\1\0", b"\0\1\0\0\0\1\0\0", b"\xff" * 8, b"get x\r\n"])
def test_datagrams_without_a_command(datagram: bytes, udp_pair: Pair) -> None:
    """Too short for a frame, or nothing in it: dropped without an answer, and the next is answered."""
    for server in (udp_pair.reference, udp_pair.candidate):
        with UdpClient(server.address()) as client:
            client.socket.send(datagram)
            fence = client.send(b"mn\r\n")
            answer = client.receive(5.0)
            assert answer is not None and answer.request_id == fence and answer.payload == b"MN\r\n"


def test_many_requests_in_flight(udp_pair: Pair) -> None:
    """Each answer carries its request's id."""
    with Stream(udp_pair.candidate.connect()) as stream:
        for number in range(50):
            stream.exchange(b"set flight%d 0 0 2\r\n%02d\r\n" % (number, number))
    with UdpClient(udp_pair.candidate.address()) as client:
        expected = {}
        for number in range(50):
            request_id = client.send(b"get flight%d\r\n" % number)
            expected[request_id] = b"VALUE flight%d 0 2\r\n%02d\r\nEND\r\n" % (number, number)
        received = {}
        while len(received) < 50:
            datagram = client.receive(5.0)
            assert datagram is not None, f"{len(received)} of 50 answers came"
            assert datagram.request_id not in received
            received[datagram.request_id] = datagram.payload
        assert received == expected


@pytest.mark.beyond_memcached("it numbers each key's answer as a message of its own and sends messages of 0 datagrams")
def test_multi_key_get_is_one_message(udp_pair: Pair) -> None:
    """protocol.txt: the datagrams of a response are numbered 0 to n-1 and each carries n."""
    with Stream(udp_pair.candidate.connect()) as stream:
        for number in range(40):
            stream.exchange(b"set many%d 0 0 200\r\n%s\r\n" % (number, b"%03d" % number * 66 + b"xx"))
    with UdpClient(udp_pair.candidate.address()) as client:
        keys = b" ".join(b"many%d absent%d" % (number, number) for number in range(40))
        datagrams = client.exchange(b"get " + keys + b"\r\n")
        assert len(messages(datagrams)) == 1
        assert frame_error(datagrams) is None
        expected = (
            b"".join(b"VALUE many%d 0 200\r\n%s\r\n" % (n, b"%03d" % n * 66 + b"xx") for n in range(40)) + b"END\r\n"
        )
        assert b"".join(datagram.payload for datagram in datagrams) == expected


@pytest.mark.beyond_memcached("it waits for the rest in the next client's datagram")
def test_unfinished_command_does_not_reach_into_the_next_datagram(tandem: Callable[..., Server]) -> None:
    address = tandem("-t", "1").address()
    with UdpClient(address) as rude, UdpClient(address) as client:
        for unfinished in (b"set cut 0 0 100\r\nabc\r\n", b"set cut 0 0 5\r\nab", b"get cu", b"ms cut 9\r\n", b"set"):
            rude.send(unfinished)
            answer = client.exchange(b"get cut\r\n")
            assert b"".join(datagram.payload for datagram in answer) == b"END\r\n", unfinished


def test_request_ids_keep_both_bytes(udp_pair: Pair) -> None:
    with UdpClient(udp_pair.candidate.address()) as client:
        for request_id in (0, 1, 255, 256, 0x1234, 0xFF00, 0xFFFF):
            client.socket.send(struct.pack(">HHHH", request_id, 0, 1, 0) + b"mn\r\n")
            answer = client.receive(5.0)
            assert answer is not None and answer.request_id == request_id
