"""The checker finds the holes of the first design, and knows a right history from a wrong one."""

from collections.abc import Callable

import pytest

from model.checker import TooManyStates, explore, history_check, linearizable, named
from model.first_design import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_finds_the_hole(scenario: Callable[[], Scenario]) -> None:
    state, programs, operations, initial = scenario()
    outcome = explore(state, programs, history_check(operations, initial))
    assert outcome.problem is not None
    assert outcome.trace


REGISTER = {"w": ("set", 2), "x": ("delete", 0), "a": ("add", 3), "g": ("get", 0)}


@pytest.mark.parametrize(
    ("history", "right"),
    [
        ([("i", "g"), ("r", "g", 1)], True),
        ([("i", "g"), ("r", "g", 2)], False),
        ([("i", "w"), ("r", "w", 0), ("i", "g"), ("r", "g", 1)], False),
        ([("i", "w"), ("i", "g"), ("r", "g", 1), ("r", "w", 0)], True),
        ([("i", "w"), ("i", "g"), ("r", "g", 2)], True),  # the set has not answered, and has happened
        ([("i", "x"), ("r", "x", 1), ("i", "g"), ("r", "g", 0)], True),
        ([("i", "x"), ("r", "x", 0)], False),
        ([("i", "a"), ("r", "a", 1)], False),  # the key was there
        ([("i", "x"), ("r", "x", 1), ("i", "a"), ("r", "a", 1), ("i", "g"), ("r", "g", 3)], True),
    ],
)
def test_linearizable(history: list[tuple], right: bool) -> None:
    assert linearizable(tuple(history), REGISTER, 1) is right


def test_a_search_cut_short_is_an_error() -> None:
    def count(s: dict) -> int:
        s["n"] += 1
        return 0

    with pytest.raises(TooManyStates):
        explore({"n": 0, "history": (), "broken": ""}, {"a": [named("count", count)]}, lambda s: None, states_max=100)
