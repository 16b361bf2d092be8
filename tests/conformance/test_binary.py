"""The binary protocol beside memcached: packet for packet, byte for byte but for the CAS ids, which are each server's
own (compared by which are equal, which differ, and which are 0)."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from harness.binary import OPCODES, Answer, BinaryStream, Packet, answers, next_fence, request
from harness.server import TIME_FACTOR, Server
from harness.wire import Stream, UdpClient, WireTimeout

from conformance.conftest import NO_BACKGROUND, Pair, start_pair
from conformance.corpus.binary import (
    BUILDERS,
    COUNTS,
    NEW_SERVERS,
    Conversation,
    arithmetic,
    flags_and_expiry,
    groups,
    u32,
)

REPORTED = 8
COUNTERS = {OPCODES[name] for name in COUNTS}
NON_NUMERIC = 6


class CasOrder:
    """Both servers' CAS ids in order of appearance."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def difference(self, ours: int, theirs: int) -> str | None:
        if ours == 0 or theirs == 0:
            return None if ours == theirs else f"CAS {theirs} for {ours}"
        for ours_before, theirs_before in self.pairs:
            if (ours == ours_before) != (theirs == theirs_before):
                return f"CAS {theirs} for {ours}, after {theirs_before} for {ours_before}"
        self.pairs.append((ours, theirs))
        return None


def compare_answers(ours: bytes, theirs: bytes, order: CasOrder) -> str | None:
    mine, other = answers(ours), answers(theirs)
    for left, right in zip(mine, other, strict=False):
        if without_cas(left) != without_cas(right):
            return f"{str(right)[:300]}\n      for {str(left)[:300]}"
        if found := order.difference(left.cas, right.cas):
            return found
    return None if len(mine) == len(other) else f"{len(other)} packets for {len(mine)}: {other!r:.300}"


def without_cas(answer: Answer) -> Answer:
    return Answer(answer.opcode, answer.status, answer.extras, answer.key, answer.value, answer.opaque, 0)


def numbers_of(step: Packet) -> tuple[int, ...]:
    """What a request counts by and from, or stores if that is a number."""
    if step.opcode in COUNTERS and len(step.extras) == 20:
        return struct.unpack(">QQ", step.extras[:16])
    return (int(step.value),) if step.value.isdigit() and len(step.value) <= 20 and int(step.value) < 2**64 else ()


def reads_behind_a_number(conversation: Conversation, number: int, ours: bytes, theirs: bytes) -> bool:
    """memcached takes a stored number of 2^63 and more for no number if there is a minus in what was left in memory
    behind it (`safe_strtoull` looks for one up to a NUL, and an item has none). What follows cannot be compared.
    Quiet requests are not excused: nothing is said that could be looked at."""
    step = conversation.steps[number]
    before = [n for other in conversation.steps[:number] if other.key == step.key for n in numbers_of(other)]
    refused = [answer.status for answer in answers(ours)] == [NON_NUMERIC]
    counted = [(answer.status, len(answer.value)) for answer in answers(theirs)] == [(0, 8)]
    return step.opcode in COUNTERS and refused and counted and sum(before) >= 2**63


class Speaker:
    """One server's side of conversations: a connection for as long as the server keeps it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.stream: BinaryStream | None = None
        self.seen: list[int] = []

    def begin(self) -> None:
        self.seen = []
        if self.stream is None or self.stream.closed:
            self.drop()
            self.stream = BinaryStream(self.server.connect())

    def drop(self) -> None:
        if self.stream is not None:
            self.stream.close()
        self.stream = None

    def say(self, step: Packet) -> tuple[bytes, bool]:
        said = self.stream.exchange(step.pack(self.seen))
        for answer in answers(said.data):
            if answer.cas and answer.cas not in self.seen:
                self.seen.append(answer.cas)
        return said.data, said.closed


def differing(conversations: list[Conversation], pair: Pair) -> list[tuple[str, str]]:
    reference, candidate = Speaker(pair.reference), Speaker(pair.candidate)
    failures = []
    for conversation in conversations:
        reference.begin()
        candidate.begin()
        order = CasOrder()
        for number, step in enumerate(conversation.steps):
            (ours, ours_closed), (theirs, theirs_closed) = reference.say(step), candidate.say(step)
            found = compare_answers(ours, theirs, order)
            if not found and ours_closed != theirs_closed:
                found = f"the reference {'closed' if ours_closed else 'went on'}, the candidate did not"
            if found and not theirs_closed and reads_behind_a_number(conversation, number, ours, theirs):
                break
            if found:
                failures.append((conversation.name, f"step {number} {str(step)[:200]}: {found}"))
                reference.drop()
                candidate.drop()
                break
            if ours_closed:
                break
    reference.drop()
    candidate.drop()
    return failures


def report(failures: list[tuple[str, str]], total: int) -> str:
    lines = [f"{len(failures)} of {total} conversations differ from memcached:"]
    lines += [f"  {name}\n    {what}" for name, what in failures[:REPORTED]]
    return "\n".join(lines)


@pytest.mark.parametrize("group", BUILDERS)
def test_group(group: str, unix_pair: Pair) -> None:
    with ExitStack() as stack:
        pair = start_pair(stack, *NO_BACKGROUND) if group == NEW_SERVERS else unix_pair
        failures = differing(groups()[group], pair)
    assert not failures, report(failures, len(groups()[group]))


def test_over_tcp(pair: Pair) -> None:
    conversations = groups()["random"][::10] + groups()["sizes"]
    failures = differing(conversations, pair)
    assert not failures, report(failures, len(conversations))


def test_without_cas() -> None:
    conversations = groups()["commands"] + groups()["random"][::10]
    with ExitStack() as stack:
        failures = differing(conversations, start_pair(stack, "-C", *NO_BACKGROUND))
    assert not failures, report(failures, len(conversations))


def test_corpus_is_large() -> None:
    everything = [conversation for group in groups().values() for conversation in group]
    assert len(everything) > 4000
    assert len({conversation.name for conversation in everything}) == len(everything)
    assert {step.opcode for conversation in everything for step in conversation.steps} >= set(OPCODES.values())


# --- cut anywhere


def renamed(conversation: Conversation, number: int) -> tuple[Packet, ...]:
    """With keys that no other run uses, of the same length as each other's."""
    return tuple(step.with_key(lambda key: key and b"%07d" % number + key) for step in conversation.steps)


def normal(data: bytes, digits: int = 7) -> list[Answer]:
    """With CAS ids numbered in order of appearance, and keys as they were before they were renamed."""
    order: dict[int, int] = {0: 0}
    result = []
    for answer in answers(data):
        cas = order.setdefault(answer.cas, len(order))
        key = answer.key[digits:] if answer.key else b""
        result.append(Answer(answer.opcode, answer.status, answer.extras, key, answer.value, answer.opaque, cas))
    return result


def splittable() -> list[Conversation]:
    chosen = [c for group in ("commands", "expiries", "random") for c in groups()[group] if not c.uses_cas]
    chosen = [c for c in chosen if not c.reads_before_counting and max(len(step.key) for step in c.steps) <= 243]
    random.Random(14142135).shuffle(chosen)
    return chosen


def in_a_row(server: Server, steps: tuple[Packet, ...]) -> bytes:
    """Step by step, as memcached is asked."""
    with BinaryStream(server.connect()) as stream:
        return b"".join(stream.exchange(step.pack()).data for step in steps)


@pytest.mark.parametrize("part", range(4))
def test_cut_at_every_byte(part: int, unix_pair: Pair) -> None:
    number = part * 1_000_000
    short = [c for c in splittable() if sum(len(step.pack()) for step in c.steps) <= 240]
    for conversation in short[part:48:4]:
        number += 1
        wanted = normal(in_a_row(unix_pair.reference, renamed(conversation, number)))
        length = sum(len(step.pack()) for step in renamed(conversation, number))
        with BinaryStream(unix_pair.candidate.connect()) as stream:
            waiter = Stream(stream.socket)
            for cut in range(1, length):
                number += 1
                data = b"".join(step.pack() for step in renamed(conversation, number))
                stream.send(data[:cut])
                waiter.wait_taken()
                found = normal(stream.exchange(data[cut:]).data)
                assert found == wanted, f"{conversation.name} cut at {cut}"


def test_one_byte_at_a_time(unix_pair: Pair) -> None:
    for number, conversation in enumerate(splittable()[-40:], 90_000_00):
        steps = renamed(conversation, number)
        wanted = normal(in_a_row(unix_pair.reference, steps))
        data = b"".join(step.pack() for step in steps)[:20_000]
        if len(data) == 20_000:
            continue
        with BinaryStream(unix_pair.candidate.connect()) as stream:
            waiter = Stream(stream.socket)
            for place in range(len(data)):
                stream.send(data[place : place + 1])
                waiter.wait_taken()
            assert normal(stream.exchange(b"").data) == wanted, conversation.name


def test_large_values_in_pieces(pair: Pair) -> None:
    chance = random.Random(22360679)
    with BinaryStream(pair.candidate.connect()) as stream:
        for size in (8193, 16384, 65536, 300_000, 1_000_000):
            value = chance.randbytes(size)
            data = request("set", b"pieces", flags_and_expiry(5), value).pack()
            for piece in (1000, 16384, 65536):
                for start in range(0, len(data), max(piece, size // 50)):
                    stream.send(data[start : start + max(piece, size // 50)])
                (stored,) = answers(stream.exchange(b"").data)
                assert stored.status == 0 and stored.cas
                (got,) = stream.ask(request("getk", b"pieces"))
                assert (got.key, got.value, got.extras, got.cas) == (b"pieces", value, u32(5), stored.cas)


def test_quiet_multiget(pair: Pair) -> None:
    """What clients make of a get of many keys: getkq for each, and a noop."""
    keys = [b"many%d" % number for number in range(3000)]
    said = []
    for server in (pair.reference, pair.candidate):
        with BinaryStream(server.connect()) as stream:
            stream.exchange(b"".join(request("setq", key, flags_and_expiry(), key * 3).pack() for key in keys[::2]))
            said.append(stream.exchange(b"".join(request("getkq", key).pack() for key in keys)).data)
    assert compare_answers(*said, CasOrder()) is None
    assert [answer.key for answer in answers(said[1])] == keys[::2]


def test_text_and_binary_share_the_store(pair: Pair) -> None:
    for server in (pair.reference, pair.candidate):
        with Stream(server.connect()) as text, BinaryStream(server.connect()) as binary:
            text.exchange(b"set shared 7 0 2\r\n41\r\n")
            (number,) = binary.ask(request("incr", b"shared", arithmetic(1)))
            assert number.value == b"\0" * 7 + b"\x2a"
            assert text.exchange(b"get shared\r\n").data == b"VALUE shared 7 2\r\n42\r\nEND\r\n"
            (got,) = binary.ask(request("get", b"shared"))
            assert got.extras == u32(7) and got.cas == number.cas
            assert text.exchange(b"mg shared c\r\n").data == b"HD c%d\r\n" % got.cas


# --- UDP


@pytest.fixture(scope="module")
def udp_servers() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield start_pair(stack, "-t", "1", *NO_BACKGROUND)


def over_udp(client: UdpClient, data: bytes) -> list[bytes]:
    """The payloads that answer one datagram; memcached also sends empty messages for quiet requests."""
    mine = client.send(data)
    fence = client.send(b"mn\r\n")
    payloads = []
    while True:
        datagram = client.receive(5.0)
        if datagram is None:
            raise WireTimeout("no answer to mn", b"".join(payloads))
        if datagram.request_id == fence:
            return payloads
        assert datagram.request_id == mine
        if datagram.payload:
            payloads.append(datagram.payload)


@pytest.mark.parametrize("group", BUILDERS)
def test_over_udp(group: str, udp_servers: Pair) -> None:
    conversations = [c for c in groups()[group] if max(len(step.pack()) for step in c.steps) < 60_000 and not c.alone]
    conversations = conversations[:: max(1, len(conversations) // 120)]
    failures = []
    with (
        UdpClient(udp_servers.reference.address()) as reference,
        UdpClient(udp_servers.candidate.address()) as candidate,
    ):
        for conversation in conversations:
            order = CasOrder()
            seen: tuple[list[int], list[int]] = ([], [])
            for number, step in enumerate(conversation.steps):
                if step.magic != 0x80:  # text, then
                    break
                said = []
                for client, mine in zip((reference, candidate), seen, strict=True):
                    payloads = over_udp(client, step.pack(mine))
                    said.append(payloads)
                    mine += [a.cas for a in answers(b"".join(payloads)) if a.cas and a.cas not in mine]
                found = compare_answers(b"".join(said[0]), b"".join(said[1]), order)
                if not found and [len(p) for p in said[0]] != [len(p) for p in said[1]]:
                    found = f"datagrams of {[len(p) for p in said[1]]} for {[len(p) for p in said[0]]} bytes"
                if found and reads_behind_a_number(conversation, number, b"".join(said[0]), b"".join(said[1])):
                    break
                if found:
                    failures.append((conversation.name, found))
                    break
    assert not failures, report(failures, len(conversations))


def test_several_requests_in_a_datagram(udp_servers: Pair) -> None:
    """Each is answered by a message of its own; both protocols may come through one socket."""
    said = []
    for server in (udp_servers.reference, udp_servers.candidate):
        with UdpClient(server.address()) as client:
            over_udp(client, request("setq", b"dg", flags_and_expiry(1), b"v" * 3000).pack())
            many = [request("get", b"dg"), request("getkq", b"absent"), request("getkq", b"dg"), request("noop")]
            said.append(over_udp(client, b"".join(step.pack() for step in many)))
    assert [len(payload) for payload in said[0]] == [len(payload) for payload in said[1]]
    assert compare_answers(b"".join(said[0]), b"".join(said[1]), CasOrder()) is None


# --- -B


@pytest.mark.parametrize("protocol", ["ascii", "binary", "auto"])
def test_protocol_option(protocol: str, tandem: Callable[..., Server], memcached: Callable[..., Server]) -> None:
    requests = (
        request("version").pack() + b"\n" * 24,
        request("noop").pack() + request("version").pack() + b"\n" * 24,
        b"version\r\nversion\r\nversion\r\n",
    )
    said = []
    for start in (memcached, tandem):
        server = start("-B", protocol)
        said.append([])
        for data in requests:
            with server.connect(timeout_s=10 * TIME_FACTOR) as connection:
                connection.sendall(data)
                received = b""
                try:
                    while chunk := connection.recv(4096):
                        received += chunk
                        connection.settimeout(1.0)  # for what comes behind it, or none
                    received += b"<closed>"
                except (TimeoutError, ConnectionResetError) as end:
                    received += b"<closed>" if isinstance(end, ConnectionResetError) else b""
                said[-1].append(received)
    # memcached forgets answers that stand before the packet that makes it close; only whether it closes is compared.
    for ours, theirs in zip(*said, strict=True):
        assert ours.endswith(b"<closed>") == theirs.endswith(b"<closed>"), (ours, theirs)
        if not ours.endswith(b"<closed>"):
            assert ours == theirs


def test_unknown_protocol(tandem: Callable[..., Server]) -> None:
    from conftest import tandem_binary

    result = subprocess.run([tandem_binary(), "memcached", "-B", "other"], capture_output=True, timeout=10, check=False)
    assert result.returncode == 64 and b"should be one of auto, binary, or ascii" in result.stderr


# --- where memcached loses track


@pytest.mark.beyond_memcached("it drops the body of an unknown request twice")
def test_unknown_request_takes_its_body_once(unix_pair: Pair) -> None:
    with BinaryStream(unix_pair.candidate.connect()) as stream:
        found = stream.ask(Packet(0x42, b"key", b"four", b"and a value"))
        assert [answer.status for answer in found] == [0x81]
        assert stream.ask(request("noop"))[0].status == 0


@pytest.mark.beyond_memcached("it takes the value for the next request")
def test_value_behind_a_touch_is_no_request(unix_pair: Pair) -> None:
    hidden = request("set", b"smuggled", flags_and_expiry(), b"v").pack()
    for name, extras in (("touch", u32(5)), ("gatq", u32(5)), ("stat", b"")):
        with BinaryStream(unix_pair.candidate.connect()) as stream:
            said = stream.exchange(request(name, b"items", extras, hidden).pack())
            assert said.closed and [answer.status for answer in answers(said.data)] == [4]
    with BinaryStream(unix_pair.candidate.connect()) as stream:
        assert stream.ask(request("getq", b"smuggled")) == []


@pytest.mark.beyond_memcached("it drops the answers that it had not sent yet")
def test_answers_before_another_magic_are_sent(unix_pair: Pair) -> None:
    with BinaryStream(unix_pair.candidate.connect()) as stream:
        stream.send(request("version").pack() + request("noop", magic=0x81).pack())
        said = stream.end(next_fence())
        assert said.closed and [answer.value for answer in answers(said.data)] == [b"1.6.18"]


@pytest.mark.beyond_memcached("it waits for 24 bytes")
def test_text_on_a_binary_connection_closes_at_once(unix_pair: Pair) -> None:
    with BinaryStream(unix_pair.candidate.connect()) as stream:
        stream.exchange(b"")
        stream.send(b"g")
        assert stream.end(next_fence()).closed
