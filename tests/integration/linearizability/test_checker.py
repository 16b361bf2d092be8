"""The checker itself: histories that must pass and histories that must not."""

from __future__ import annotations

import itertools
import random

import pytest

from integration.linearizability.checker import (
    EXISTS,
    MISS,
    NOT_STORED,
    STORED,
    Item,
    Operation,
    apply,
    is_linearizable,
)


def op(client: int, kind: str, called: int, returned: int, result: str = STORED, **more: int) -> Operation:
    return Operation(client, kind, called, returned, result, **more)


GOOD = {
    "nothing": [],
    "a miss": [op(0, "get", 0, 1, MISS)],
    "set, get": [op(0, "set", 0, 1, argument=5), op(0, "get", 2, 3, value=5)],
    "a read during a write sees the old": [op(0, "set", 0, 10, argument=5), op(1, "get", 1, 2, MISS)],
    "a read during a write sees the new": [op(0, "set", 0, 10, argument=5), op(1, "get", 1, 2, value=5)],
    "two writes at once, in either order": [
        op(0, "set", 0, 10, argument=5),
        op(1, "set", 0, 10, argument=6),
        op(2, "get", 11, 12, value=5),
    ],
    "one of two adds": [
        op(0, "add", 0, 10, argument=5),
        op(1, "add", 0, 10, NOT_STORED, argument=6),
        op(2, "get", 11, 12, value=5),
    ],
    "an add, a delete, an add": [
        op(0, "add", 0, 10, argument=5),
        op(1, "delete", 0, 10),
        op(2, "add", 0, 10, argument=6),
        op(0, "get", 11, 12, value=6),
    ],
    "counting at once": [
        op(0, "set", 0, 1, argument=10),
        op(1, "incr", 2, 9, argument=1, value=12),
        op(2, "incr", 2, 9, argument=1, value=11),
        op(0, "get", 10, 11, value=12),
    ],
    "decr stops at zero": [op(0, "set", 0, 1, argument=3), op(0, "decr", 2, 3, argument=5, value=0)],
    "incr wraps": [op(0, "set", 0, 1, argument=(1 << 64) - 1), op(0, "incr", 2, 3, argument=2, value=1)],
    "cas won and lost": [
        op(0, "set", 0, 1, argument=1, unique=7),
        op(1, "cas", 2, 9, argument=2, expected=7, unique=8),
        op(2, "cas", 2, 9, EXISTS, argument=3, expected=7),
        op(0, "get", 10, 11, value=2, unique=8),
    ],
    "an unknown CAS is learnt": [
        op(0, "set", 0, 1, argument=1),
        op(0, "get", 2, 3, value=1, unique=9),
        op(0, "cas", 4, 5, argument=2, expected=9),
    ],
    "cas of an absent key": [op(0, "cas", 0, 1, MISS, argument=1, expected=5)],
    "replace and touch": [
        op(0, "replace", 0, 1, NOT_STORED, argument=1),
        op(0, "touch", 2, 3, MISS),
        op(0, "set", 4, 5, argument=1),
        op(0, "touch", 6, 7),
        op(0, "replace", 8, 9, argument=2),
        op(0, "get", 10, 11, value=2),
    ],
    "a pipeline in its order": [op(0, "set", 0, 9, argument=1), op(0, "get", 0, 9, value=1), op(0, "delete", 0, 9)],
}

BAD = {
    "a value from nowhere": [op(0, "get", 0, 1, value=5)],
    "a lost write": [op(0, "set", 0, 1, argument=5), op(0, "get", 2, 3, MISS)],
    "a stale read": [
        op(0, "set", 0, 1, argument=5),
        op(0, "set", 2, 3, argument=6),
        op(1, "get", 4, 5, value=5),
    ],
    "new, then old": [
        op(0, "set", 0, 1, argument=5),
        op(0, "set", 2, 20, argument=6),
        op(1, "get", 3, 4, value=6),
        op(2, "get", 5, 6, value=5),
    ],
    "two adds both win": [op(0, "add", 0, 10, argument=5), op(1, "add", 0, 10, argument=6)],
    "no add wins": [op(0, "add", 0, 10, NOT_STORED, argument=5), op(1, "add", 0, 10, NOT_STORED, argument=6)],
    "a deleted item returns": [
        op(0, "set", 0, 1, argument=5),
        op(0, "delete", 2, 3),
        op(1, "get", 4, 5, MISS),
        op(1, "get", 6, 7, value=5),
    ],
    "one item deleted twice": [
        op(0, "set", 0, 1, argument=5),
        op(1, "delete", 2, 9),
        op(2, "delete", 2, 9),
    ],
    "a lost count": [
        op(0, "set", 0, 1, argument=10),
        op(1, "incr", 2, 9, argument=1, value=11),
        op(2, "incr", 2, 9, argument=1, value=11),
    ],
    "two winners of one CAS": [
        op(0, "set", 0, 1, argument=1, unique=7),
        op(1, "cas", 2, 9, argument=2, expected=7, unique=8),
        op(2, "cas", 2, 9, argument=3, expected=7, unique=9),
    ],
    "an in-place count that leaves the CAS": [
        op(0, "set", 0, 1, argument=1, unique=7),
        op(1, "incr", 2, 3, argument=1, value=2, unique=8),
        op(0, "cas", 4, 5, argument=9, expected=7, unique=10),
    ],
    "one CAS for two values": [
        op(0, "set", 0, 1, argument=1, unique=7),
        op(0, "set", 2, 3, argument=2, unique=8),
        op(1, "get", 4, 5, value=2, unique=7),
    ],
    "a CAS refused for nothing": [
        op(0, "set", 0, 1, argument=1, unique=7),
        op(1, "cas", 2, 3, EXISTS, argument=2, expected=7),
    ],
    "a pipeline that reads before its own write": [
        op(0, "set", 0, 1, argument=1),
        op(0, "set", 2, 9, argument=2),
        op(0, "get", 2, 9, value=1),
    ],
    "a pipeline that sees its own future": [op(0, "get", 0, 9, value=2), op(0, "set", 0, 9, argument=2)],
    "a touch of nothing": [op(0, "touch", 0, 1)],
    "a replace of nothing": [op(0, "replace", 0, 1, argument=1)],
    "a set refused": [op(0, "set", 0, 1, NOT_STORED, argument=1)],
    "an add refused though absent": [op(0, "add", 0, 1, NOT_STORED, argument=1)],
}


@pytest.mark.parametrize("name", GOOD)
def test_good_history(name: str) -> None:
    assert is_linearizable(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_bad_history(name: str) -> None:
    assert not is_linearizable(BAD[name])


def test_initial_state() -> None:
    assert is_linearizable([op(0, "get", 0, 1, value=4)], initial=Item(4, None))
    assert not is_linearizable([op(0, "get", 0, 1, MISS)], initial=Item(4, None))


def by_hand(history: list[Operation]) -> bool:
    """All orders tried one by one: for small histories."""

    def fits(order: tuple[Operation, ...]) -> bool:
        for earlier, later in itertools.combinations(order, 2):
            if later.returned < earlier.called:
                return False
            if earlier.client == later.client and history.index(later) < history.index(earlier):
                return False
        state = None
        for operation in order:
            state = apply(state, operation)
            if state == "impossible":
                return False
        return True

    return any(fits(order) for order in itertools.permutations(history))


def test_against_trying_all_orders() -> None:
    """Random small histories, most of them impossible: the search must agree with plain enumeration."""
    chance = random.Random(271)
    verdicts = []
    for _ in range(1500):
        history = []
        clocks = [0, 0, 0]
        for _ in range(chance.randint(2, 5)):
            client = chance.randrange(3)
            called = clocks[client] + chance.randint(0, 3)
            clocks[client] = returned = called + chance.randint(1, 5)
            kind = chance.choice(("get", "set", "add", "delete", "incr"))
            result = {"get": (STORED, MISS), "set": (STORED,), "add": (STORED, NOT_STORED)}.get(kind, (STORED, MISS))
            history.append(
                op(
                    client,
                    kind,
                    called,
                    returned,
                    chance.choice(result),
                    argument=chance.randint(1, 2),
                    value=chance.randint(1, 3),
                )
            )
        verdicts.append(is_linearizable(history))
        assert verdicts[-1] == by_hand(history), history
    assert 100 < sum(verdicts) < 1400


def test_long_history_is_judged_quickly() -> None:
    """Six clients, 600 operations, all overlapping their neighbours: memoisation keeps the search near linear."""
    history = [
        op(number % 6, "incr", number * 10, number * 10 + 55, argument=1, value=number + 1) for number in range(600)
    ]
    assert is_linearizable(history, initial=Item(0, None))
    broken = [*history[:-1], op(5, "incr", 5990, 6045, argument=1, value=599)]
    assert not is_linearizable(broken, initial=Item(0, None))
