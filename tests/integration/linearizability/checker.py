"""Decides whether the history of one key is linearizable.

The search is that of Wing and Gong (JPDC 1993) with Lowe's memoisation (CCPE 2017): pick an operation that no other
operation wholly precedes, apply it to the model, go on, step back where nothing fits; a pair of (operations done, state
of the model) that was seen before is not entered again. Departure: a client's operations take effect in the order in
which it sent them, also those of one pipeline, so that what is done is one position for each client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MISS, STORED, NOT_STORED, EXISTS = "miss", "stored", "not stored", "exists"


class Item(NamedTuple):
    """What the model holds of a key. `unique` is None as long as no reply has shown it."""

    value: int
    unique: int | None


State = Item | None


@dataclass(frozen=True)
class Operation:
    """One operation of a client: when it was sent and answered, on what it acted and what the answer was.

    kind: get, set, add, replace, cas, delete, incr, decr or touch.
    argument: the value to store or the delta.
    expected: of cas, the CAS number that the client gave.
    result: MISS, STORED, NOT_STORED or EXISTS; STORED also for what deleted, touched, counted or found.
    value: of get, incr and decr, the number in the answer.
    unique: the CAS number in the answer, if it has one.
    """

    client: int
    kind: str
    called: int
    returned: int
    result: str
    argument: int = 0
    expected: int = 0
    value: int | None = None
    unique: int | None = None


IMPOSSIBLE = "impossible"
WRAP = 1 << 64


def apply(state: State, operation: Operation) -> State | str:
    """The state after an operation, or IMPOSSIBLE if its answer is not possible in `state`."""
    result, kind = operation.result, operation.kind
    stored = Item(operation.argument, operation.unique)
    if kind == "set":
        return stored if result == STORED else IMPOSSIBLE
    if kind == "add":
        if state is None:
            return stored if result == STORED else IMPOSSIBLE
        return state if result == NOT_STORED else IMPOSSIBLE
    if state is None:
        absent = NOT_STORED if kind == "replace" else MISS
        return None if result == absent else IMPOSSIBLE
    if kind == "replace":
        return stored if result == STORED else IMPOSSIBLE
    if kind == "cas":
        if result == STORED:
            return stored if state.unique in (None, operation.expected) else IMPOSSIBLE
        return state if result == EXISTS and state.unique != operation.expected else IMPOSSIBLE
    if result != STORED:
        return IMPOSSIBLE
    if kind == "delete":
        return None
    if kind == "touch":
        return state
    if kind == "get":
        if operation.value != state.value:
            return IMPOSSIBLE
        if operation.unique is None:
            return state
        return Item(state.value, operation.unique) if state.unique in (None, operation.unique) else IMPOSSIBLE
    if kind in ("incr", "decr"):
        new = (state.value + operation.argument) % WRAP if kind == "incr" else max(0, state.value - operation.argument)
        return Item(new, operation.unique) if operation.value == new else IMPOSSIBLE
    raise ValueError(f"no such kind of operation: {kind}")


def is_linearizable(history: Sequence[Operation], initial: State = None) -> bool:
    """Whether some order of the operations of one key, compatible with their times and with each client's own order,
    explains every answer. `history` holds the operations of each client in the order in which it sent them."""
    clients = sorted({operation.client for operation in history})
    lines = [[operation for operation in history if operation.client == client] for client in clients]
    ends = tuple(len(line) for line in lines)
    start = (0,) * len(lines)
    seen = {(start, initial)}
    stack = [(start, initial)]
    while stack:
        positions, state = stack.pop()
        if positions == ends:
            return True
        heads = [(n, line[at]) for n, (line, at) in enumerate(zip(lines, positions, strict=True)) if at < len(line)]
        first_return = min(operation.returned for _, operation in heads)
        for number, operation in heads:
            if operation.called > first_return:
                continue  # another operation was over before this one was sent
            after = apply(state, operation)
            if after == IMPOSSIBLE:
                continue
            entry = ((*positions[:number], positions[number] + 1, *positions[number + 1 :]), after)
            if entry not in seen:
                seen.add(entry)
                stack.append(entry)
    return False
