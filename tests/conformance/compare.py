"""Runs a case against a server and compares two servers' transcripts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.replies import TOLERANCE_S, CasMap, cas_order_violation, cas_values, difference
from harness.wire import Stream, WireTimeout

from conformance.corpus.case import Case

REPORTED = 8  # differences that a failing test prints in full


@dataclass
class Transcript:
    """What one server answered to one case: a reply for each step until the connection closed."""

    sent: list[bytes] = field(default_factory=list)
    replies: list[bytes] = field(default_factory=list)
    closed: bool = False
    timeout: str = ""

    @property
    def stream(self) -> bytes:
        return b"".join(self.replies)


class Client:
    """Keeps one connection for as long as the server does, so that what one case leaves behind meets the next."""

    def __init__(self, connect: Callable[[], Stream], timeout_s: float = 60.0) -> None:
        self._connect = connect
        self._timeout_s = timeout_s
        self._stream: Stream | None = None

    def stream(self) -> Stream:
        if self._stream is None or self._stream.closed:
            self.drop()
            self._stream = self._connect()
        return self._stream

    def drop(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def conversation(self, case: Case) -> Generator[None, None, Transcript]:
        """Runs a case. Yields between sending a step and awaiting its answer; returns the transcript."""
        transcript = Transcript()
        cas_seen: list[int] = []
        for number, step in enumerate(case.steps):
            request = case.filled(step, cas_seen)
            transcript.sent.append(request)
            stream = self.stream()
            try:
                if case.ends_open and number == len(case.steps) - 1:
                    reply = stream.finish(request, self._timeout_s)
                else:
                    stream.begin(request)
                    yield
                    reply = stream.end(self._timeout_s)
            except WireTimeout as timeout:
                transcript.timeout = str(timeout)
                self.drop()
                return transcript
            transcript.replies.append(reply.data)
            transcript.closed = reply.closed
            if reply.closed:
                break
            cas_seen += [value for value in dict.fromkeys(cas_values(reply.data)) if value and value not in cas_seen]
        return transcript


Connect = Callable[[], Stream]
LANES = 24  # cases that are under way at the same time, each on its own connections


def transcripts(
    cases: Iterable[Case], connects: Sequence[Connect], timeout_s: float = 60.0
) -> Iterator[tuple[Case, list[Transcript]]]:
    """Runs cases on one or more servers and yields each case's transcripts when it is done. Cases that touch what other
    cases see are run alone, after the rest."""
    cases = list(cases)
    lanes = [[Client(connect, timeout_s) for connect in connects] for _ in range(LANES)]
    try:
        yield from _run(iter([case for case in cases if not case.alone]), lanes)
        yield from _run(iter([case for case in cases if case.alone]), lanes[:1])
    finally:
        for lane in lanes:
            for client in lane:
                client.drop()


def _run(cases: Iterator[Case], lanes: list[list[Client]]) -> Iterator[tuple[Case, list[Transcript]]]:
    under_way: dict[int, tuple[Case, list[Generator], list[Transcript | None]]] = {}
    idle = list(range(len(lanes)))
    while True:
        while idle and (case := next(cases, None)) is not None:
            conversations = [client.conversation(case) for client in lanes[idle[-1]]]
            under_way[idle.pop()] = (case, conversations, [None] * len(conversations))
        if not under_way:
            return
        for lane, (case, conversations, done) in list(under_way.items()):
            for number, conversation in enumerate(conversations):
                if done[number] is None:
                    try:
                        next(conversation)
                    except StopIteration as end:
                        done[number] = end.value
            if None not in done:
                if len({transcript.closed for transcript in done}) > 1:  # the next case begins with equal states
                    for client in lanes[lane]:
                        client.drop()
                del under_way[lane]
                idle.append(lane)
                yield case, done


STORED_NUMBER = re.compile(rb"\r\n(\d{19,20})\r\n")


def reads_behind_a_number(reference: Transcript, number: int, theirs: bytes) -> bool:
    """memcached takes a stored number of 2^63 and more for no number if there is a minus in what was left in memory
    behind it (`safe_strtoull` looks for one up to a NUL, and an item has none). What follows cannot be compared."""
    said = [*reference.sent[: number + 1], *(b"\r\n" + reply for reply in reference.replies[:number])]
    stored = [int(n) for text in said for n in STORED_NUMBER.findall(text)]
    refused = b"non-numeric" in reference.replies[number] and b"ERROR" not in theirs
    return refused and any(2**63 <= n < 2**64 for n in stored)


def compare(reference: Transcript, candidate: Transcript) -> str | None:
    """Says where the candidate's transcript differs in what may not differ, or None."""
    if reference.timeout:
        return f"the reference itself did not answer: {reference.timeout}"
    if candidate.timeout:
        return f"step {len(candidate.replies)}: {candidate.timeout}"
    cas_map = CasMap.empty()
    for number, (ours, theirs) in enumerate(zip(reference.replies, candidate.replies, strict=False)):
        found = difference(ours, theirs, cas_map)
        if found and reads_behind_a_number(reference, number, theirs):
            return None
        if found:
            return f"step {number} {reference.sent[number][:200]!r}: {found}"
    if len(reference.replies) != len(candidate.replies) or reference.closed != candidate.closed:
        return (
            f"the reference {'closed' if reference.closed else 'kept'} the connection after step "
            f"{len(reference.replies) - 1}, the candidate {'closed' if candidate.closed else 'kept'} it after step "
            f"{len(candidate.replies) - 1}"
        )
    return cas_order_violation(candidate.stream)


def joined_request(cases: Iterable[Case]) -> bytes:
    return b"".join(step for case in cases for step in case.steps)


@dataclass
class Expected:
    """What the reference answered to each case, sent step by step, and when."""

    streams: dict[str, bytes]
    began_s: float

    def difference(self, cases: Iterable[Case], candidate: bytes) -> str | None:
        """Compares with what the candidate answered to the cases in a row, just now."""
        expected = b"".join(self.streams[case.name] for case in cases)
        tolerance_s = TOLERANCE_S + time.monotonic() - self.began_s
        return difference(expected, candidate, CasMap.empty(), tolerance_s)


def reference_streams(cases: Iterable[Case], reference: Connect) -> Expected:
    began_s = time.monotonic()
    streams = {}
    for case, (transcript,) in transcripts(cases, [reference]):
        assert not transcript.timeout and not transcript.closed, f"{case.name}: {transcript.timeout or 'closed'}"
        streams[case.name] = transcript.stream
    return Expected(streams, began_s)


def report(failures: Iterable[tuple[Case, str]], total: int) -> str:
    failures = list(failures)
    lines = [f"{len(failures)} of {total} cases differ from memcached:"]
    lines += [f"  {case.name}\n    {what}" for case, what in failures[:REPORTED]]
    if len(failures) > REPORTED:
        lines.append("  and: " + "; ".join(case.name for case, _ in failures[REPORTED : REPORTED + 60]))
    return "\n".join(lines)


def differing(
    cases: Iterable[Case], reference: Connect, candidate: Connect, enough: int = 1 << 30, timeout_s: float = 60.0
) -> list[tuple[Case, str]]:
    """Runs the cases on both and returns those that differ, or the first `enough`. Gives up after three time-outs."""
    failures = []
    timeouts = 0
    for case, (ours, theirs) in transcripts(cases, [reference, candidate], timeout_s):
        found = compare(ours, theirs)
        if found:
            failures.append((case, found))
        timeouts += bool(theirs.timeout)
        if timeouts == 3:
            failures.append((case, "given up: too many time-outs"))
            break
        if len(failures) >= enough:
            break
    return failures
