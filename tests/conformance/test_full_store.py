"""Stores that do not evict (-M) and are full, beside memcached's: each command that needs memory, what it is answered
and what it leaves of the key."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from harness.binary import Answer, BinaryStream, answers, request
from harness.replies import CasMap, difference
from harness.server import Server
from harness.wire import Stream

from conformance.conftest import NO_BACKGROUND, start_pair
from conformance.corpus.binary import arithmetic, flags_and_expiry, u32

TOO_LONG = 1_100_000  # bytes of a value, with the largest item at 1 MiB
VALUES = {"small": b"y", "large": b"z" * 3000, "too large": b"q" * TOO_LONG}
LONG_KEY = b"l" * 251
# What a case's keys have before memory is full: <k> a value, <n> and <m> numbers, <z> a number of zeros, and <a>
# nothing.
PREPARED = b"".join(
    b"set %s %d 0 %d\r\n%s\r\n" % (key, flags, len(value), value)
    for key, flags, value in (
        (b"<k>", 5, b"old"),
        (b"<n>", 3, b"9"),
        (b"<m>", 0, b"18446744073709551615"),
        (b"<z>", 0, b"0" * 800),
    )
)
KEYS = (b"<k>", b"<n>", b"<m>", b"<z>", b"<a>")
FILLING_BYTES = (400_000, 100_000, 20_000, 6000, 3000, 1000, 300, 100, 40, 10, 1)


@dataclass(frozen=True)
class Case:
    """One request. `request` is text in which <cas> stands for the CAS id of the key that it names first, or a packet's
    name, extras and value. copies: memcached changes the item in place, where Tandem's items never change."""

    name: str
    key: bytes
    request: bytes | tuple[str, bytes, bytes]
    cas: int | None = 0  # of a packet; None: the item's
    copies: bool = False


def text_cases() -> Iterator[Case]:
    def case(request: bytes, copies: bool = False, name: str = "") -> Case:
        key = re.search(rb"<[knmza]>", request)
        return Case(name or request.decode(), key[0], request + b"\r\n", copies=copies)

    def store(line: bytes, size: str) -> Case:
        value = VALUES[size]
        return case(line % len(value) + b"\r\n" + value, name=f"{line.decode()} {size}")

    for size in VALUES:
        for key in (b"<k>", b"<a>"):
            for verb in (b"set", b"add", b"replace", b"append", b"prepend"):
                yield store(verb + b" " + key + b" 0 0 %d", size)
            yield store(b"cas " + key + b" 0 0 %d 999999999", size)
            for flags in (b"ME", b"MA", b"MP", b"MR", b"MS", b"C999999999", b"I C1", b"I C999999999", b"q", b"MA q",
                          b"C999999999 q", b"MR k O1", b"MA N0", b"MA N0 q"):  # fmt: skip
                yield store(b"ms " + key + b" %d " + flags, size)
        for rest in (b"<cas>", b"0", b"<cas> noreply", b"999999999 noreply"):
            yield store(b"cas <k> 0 0 %d " + rest, size)
        for verb in (b"set", b"append", b"add"):
            yield store(verb + b" <k> 0 0 %d noreply", size)
        yield store(b"ms <k> %d C<cas>", size)
    for line in (b"incr <n> 1", b"incr <n> 100", b"incr <n> 1 noreply", b"incr <a> 1", b"incr <k> 1", b"incr <z> 1",
                 b"decr <k> 1", b"ma <n>", b"ma <n> D100 v", b"ma <n> D100 C999999999", b"ma <n> D100 C<cas>",
                 b"ma <n> N0 D100", b"ma <n> T0", b"ma <a> N0 J5", b"ma <a> N0 J5 q", b"ma <a>", b"mg <a> N0 v",
                 b"mg <a> N0 t k", b"mg <k> T30 v t", b"mg <k> N0 v", b"md <k>", b"md <k> I C999999999", b"md <a> I",
                 b"delete <k>", b"touch <k> 100", b"touch <a> 0", b"gat 500 <k>", b"gats 500 <k>", b"gat 0 <a>",
                 b"get <k> <n> <a>"):  # fmt: skip
        yield case(line)
    for line in (
        b"decr <n> 1",
        b"incr <m> 1",
        b"ma <n> MD",
        b"md <k> I",
        b"md <k> I T30",
        b"md <k> I C<cas>",
        b"md <k> I q",
    ):
        yield case(line, copies=True)


def binary_cases() -> Iterator[Case]:
    ids = {"no id": 0, "its id": None, "another id": 999_999_999}
    quiet = ("", "q")
    for size, (which, cas), q, key in itertools.product(VALUES, ids.items(), quiet, (b"<k>", b"<a>")):
        for name in ("set", "add", "replace", "append", "prepend"):
            extras = b"" if name in ("append", "prepend") else flags_and_expiry(1)
            packet = (name + q, extras, VALUES[size])
            yield Case(f"binary {name}{q} {key.decode()} {which} {size}", key, packet, cas)
    for (which, cas), q, key in itertools.product(ids.items(), quiet, (b"<n>", b"<a>", b"<k>", b"<z>")):
        for name, expiry in itertools.product(("incr", "decr"), (0, 0xFFFFFFFF)):
            copies = name == "decr" and key == b"<n>" and cas != 999_999_999
            packet = (name + q, arithmetic(1, 7, expiry), b"")
            yield Case(f"binary {name}{q} {key.decode()} {which} {expiry}", key, packet, cas, copies)
    for name, key, (which, cas) in itertools.product(
        ("delete", "touch", "gat", "gatk", "gatq", "deleteq"), (b"<k>", b"<a>"), ids.items()
    ):
        packet = (name, b"" if name.startswith("delete") else u32(500), b"")
        yield Case(f"binary {name} {key.decode()} {which}", key, packet, cas)


def cases() -> list[Case]:
    return [*text_cases(), *binary_cases()]


class Side:
    """One server, full but for what the cases' keys have."""

    def __init__(self, server: Server, of: list[Case]) -> None:
        self.server = server
        self.text = Stream(server.connect())
        self.binary = BinaryStream(server.connect())
        self.names = (b"f%d" % n for n in itertools.count())
        self.numbers = {case.name: number for number, case in enumerate(of)}
        for case in of:
            assert self.text.exchange(self.named(PREPARED, case)).data == b"STORED\r\n" * 4
        self.fill()

    def close(self) -> None:
        self.text.close()
        self.binary.close()

    def named(self, text: bytes, case: Case) -> bytes:
        for key in KEYS:
            text = text.replace(key, b"c%d%s" % (self.numbers[case.name], key[1:2]))
        return text

    def fill(self) -> None:
        """Leaves no room for an item of any of the sizes: what a case has given back is filled again."""
        for size in FILLING_BYTES:
            answer = b"STORED\r\n"
            while answer == b"STORED\r\n":
                answer = self.text.exchange(b"set %s 0 0 %d\r\n%s\r\n" % (next(self.names), size, b"x" * size)).data
            assert answer == b"SERVER_ERROR out of memory storing object\r\n", answer

    def cas_of(self, case: Case) -> bytes:
        found = self.text.exchange(self.named(b"mg %s c\r\n" % case.key, case)).data
        return found.split()[1][1:] if found.startswith(b"HD ") else b"999999998"

    def ask(self, case: Case) -> object:
        """The answer, with all CAS ids alike."""
        cas = self.cas_of(case)
        if isinstance(case.request, bytes):
            reply = self.text.exchange(self.named(case.request, case).replace(b"<cas>", cas))
            assert not reply.closed
            return re.sub(rb"(VALUE \S+ \d+ \d+) \d+\r", rb"\1 #\r", reply.data)
        name, extras, value = case.request
        id_now = int(cas) if case.cas is None else case.cas
        said = self.binary.exchange(request(name, self.named(case.key, case), extras, value, cas=id_now).pack())
        assert not said.closed
        return [
            Answer(a.opcode, a.status, a.extras, a.key, a.value, a.opaque, int(a.cas != 0)) for a in answers(said.data)
        ]

    def left_by(self, case: Case) -> bytes:
        """Value, flags, time, and whether it was fetched, of each key."""
        return self.text.exchange(b"".join(self.named(b"mg %s v s f t h\r\n" % key, case) for key in KEYS)).data


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with ExitStack() as stack:
        pair = start_pair(stack, "-m", "8", "-M", "-t", "1", *NO_BACKGROUND)
        both = Side(pair.reference, cases()), Side(pair.candidate, cases())
        for side in both:
            stack.callback(side.close)
        yield both


def are_alike(ours: object, theirs: object) -> bool:
    """But for the seconds that an item has left: a clock may tick between the two servers' answers."""
    if isinstance(ours, bytes) and isinstance(theirs, bytes):
        return difference(ours, theirs, CasMap.empty()) is None
    return ours == theirs


def test_each_command_is_answered_as_by_memcached_and_leaves_the_same(sides: tuple[Side, Side]) -> None:
    chosen = [case for case in cases() if not case.copies]
    failures = []
    for case in chosen:
        (ours, left), (theirs, theirs_left) = [(side.ask(case), side.left_by(case)) for side in sides]
        if not are_alike(ours, theirs):
            failures.append(f"{case.name}:\n    {str(theirs)[:300]}\n  for\n    {str(ours)[:300]}")
        elif not are_alike(left, theirs_left):
            failures.append(f"{case.name} leaves:\n    {theirs_left[:300]!r}\n  for\n    {left[:300]!r}")
        for side in sides:
            side.fill()
    assert len(chosen) > 400
    assert not failures, f"{len(failures)} of {len(chosen)} differ:\n  " + "\n  ".join(failures[:12])


def test_what_memcached_changes_in_place_is_refused_and_kept(sides: tuple[Side, Side]) -> None:
    """Tandem's items never change, since readers take no lock: a new count is a copy, which needs memory."""
    _, side = sides
    copied = [case for case in cases() if case.copies]
    for case in copied:
        before = side.left_by(case)
        answer = side.ask(case)
        refused = answer[0].status == 0x82 if isinstance(answer, list) else answer == b"SERVER_ERROR out of memory\r\n"
        assert refused, (case.name, answer)
        assert re.sub(rb" h[01]", b"", side.left_by(case)) == re.sub(rb" h[01]", b"", before), case.name
    assert len(copied) > 10


@pytest.mark.parametrize("verb", [b"get", b"gets", b"gat 500", b"gats 500"])
def test_keys_before_one_that_is_too_long_are_fetched(verb: bytes) -> None:
    with ExitStack() as stack:
        pair = start_pair(stack, "-t", "1", *NO_BACKGROUND)
        streams = [stack.enter_context(Stream(server.connect())) for server in (pair.reference, pair.candidate)]

        def both(line: bytes) -> bytes:
            ours, theirs = (stream.exchange(line + b"\r\n").data for stream in streams)
            assert ours == theirs, line[:100]
            return theirs

        for key in (b"a", b"b", b"c", *(b"k%d" % n for n in range(100))):
            both(b"set " + key + b" 0 0 1\r\n1")
        shown = b"mg a h t\r\nmg b h t\r\nmg c h t\r\nmg k99 h t"
        bad = b"CLIENT_ERROR bad command line format\r\n"
        assert both(verb + b" a nothing " + LONG_KEY + b" b") == bad
        assert both(verb + b" " + LONG_KEY + b" c") == bad
        # More keys than a batch takes, and in a pipeline with other commands.
        many = b" ".join(b"k%d" % n for n in range(100))
        assert both(b"get b\r\n" + verb + b" " + many + b" " + LONG_KEY + b" c\r\nget c").endswith(b"END\r\n")
        ours = both(shown)
        assert ours.startswith(b"HD h1") and b"HD h1" in ours.split(b"\r\n")[3]
        counts = [dict(re.findall(rb"STAT (\w+) (\S+)", stream.exchange(b"stats\r\n").data)) for stream in streams]
        for name in (b"cmd_get", b"cmd_touch", b"get_hits", b"get_misses", b"touch_hits", b"touch_misses"):
            assert counts[0][name] == counts[1][name], name


@pytest.mark.parametrize("name", ["incr", "decr", "incrq"])
def test_a_large_item_is_no_number_whatever_the_cas(name: str) -> None:
    """Of 600 kB: memcached keeps it in chunks, Tandem in pages."""
    large = b"1" * 600_000
    with ExitStack() as stack:
        pair = start_pair(stack, "-t", "1", *NO_BACKGROUND)
        said = []
        for server in (pair.reference, pair.candidate):
            stream = stack.enter_context(BinaryStream(server.connect()))
            stream.ask(request("set", b"k", flags_and_expiry(), large))
            said.append([stream.ask(request(name, b"k", arithmetic(1), cas=cas)) for cas in (0, 999_999_999)])
    assert said[0] == said[1]
    assert [answer.status for one in said[1] for answer in one] == [6, 6]
