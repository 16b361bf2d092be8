"""Runs a case against a server and compares two servers' transcripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
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

    def __init__(self, connect: Callable[[], Stream], timeout_s: float = 10.0) -> None:
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

    def run(self, case: Case) -> Transcript:
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
                    reply = stream.exchange(request, self._timeout_s)
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


def compare(reference: Transcript, candidate: Transcript) -> str | None:
    """Says where the candidate's transcript differs in what may not differ, or None."""
    if reference.timeout:
        return f"the reference itself did not answer: {reference.timeout}"
    if candidate.timeout:
        return f"step {len(candidate.replies)}: {candidate.timeout}"
    cas_map = CasMap.empty()
    for number, (ours, theirs) in enumerate(zip(reference.replies, candidate.replies, strict=False)):
        found = difference(ours, theirs, cas_map)
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


def reference_streams(cases: Iterable[Case], reference: Client) -> Expected:
    began_s = time.monotonic()
    streams = {}
    for case in cases:
        transcript = reference.run(case)
        assert not transcript.timeout and not transcript.closed, f"{case.name}: {transcript.timeout or 'closed'}"
        streams[case.name] = transcript.stream
    reference.drop()
    return Expected(streams, began_s)


def report(failures: Iterable[tuple[Case, str]], total: int) -> str:
    failures = list(failures)
    lines = [f"{len(failures)} of {total} cases differ from memcached:"]
    lines += [f"  {case.name}\n    {what}" for case, what in failures[:REPORTED]]
    if len(failures) > REPORTED:
        lines.append("  and: " + "; ".join(case.name for case, _ in failures[REPORTED : REPORTED + 60]))
    return "\n".join(lines)


def differing(
    cases: Iterable[Case], reference: Client, candidate: Client, enough: int = 1 << 30
) -> list[tuple[Case, str]]:
    """Runs the cases on both and returns those that differ, or the first `enough`. Gives up after three time-outs."""
    failures = []
    timeouts = 0
    for case in cases:
        ours = reference.run(case)
        theirs = candidate.run(case)
        found = compare(ours, theirs)
        if found:
            failures.append((case, found))
            if len(failures) == enough:
                break
        if theirs.timeout:
            timeouts += 1
            if timeouts == 3:
                failures.append((case, "given up: too many time-outs"))
                break
        if theirs.timeout or theirs.closed != ours.closed:  # start the next case from equal states
            reference.drop()
            candidate.drop()
    reference.drop()
    candidate.drop()
    return failures
