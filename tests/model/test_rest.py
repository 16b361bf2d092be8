"""Warm rest: no wrong answer and nothing stale in any interleaving, and one when a rule is left out."""

import pytest

from model.checker import Outcome, Step, explore, history_check
from model.rest import (
    answered_after,
    answered_before,
    initial_rest,
    overflow,
    rest_and_return,
    resting_writer,
    set_in_place,
)

OPERATIONS = {"w": ("set", 2), "z": ("set", 2), "t": ("set", 2), "x": ("delete", 0), "g": ("get", 0), "q": ("get", 0)}


def run(programs: dict[str, list[Step]]) -> Outcome:
    outcome = explore(initial_rest(list(programs)), programs, history_check(OPERATIONS, 1))
    print(outcome)
    return outcome


def rest(*faults: str) -> list[Step]:
    return rest_and_return("r", faults)


def z(*faults: str) -> list[Step]:
    return set_in_place("z", 2, faults)


def w(*faults: str) -> list[Step]:
    return resting_writer("w", "set", faults)


CLEAN = {
    "set in place": dict(r=rest(), z=z()),
    "set beside": dict(r=rest(), w=w()),
    "set in place, a get before": dict(r=rest(), z=z(), g=answered_before("g")),
    "set in place, a get after": dict(r=rest(), z=z(), q=answered_after("q")),
    "set beside, a get after": dict(r=rest(), w=w(), q=answered_after("q")),
    "delete, displacement": dict(r=rest(), x=resting_writer("x", "delete"), m=resting_writer("m", "move")),
    "set in place, displacement": dict(r=rest(), z=z(), m=resting_writer("m", "move")),
    "touch, set beside": dict(r=rest(), t=resting_writer("t", "rewrite"), w=w()),
    "set beside, overflow": dict(r=rest(), w=w(), o=overflow()),
    "set in place, overflow": dict(r=rest(), z=z(), o=overflow()),
    # No return begins to send while a set without a stripe goes on, so that may mark first.
    "set in place that marks before it, overflow": dict(r=rest(), z=z("marks_before"), o=overflow()),
}


@pytest.mark.parametrize("name", CLEAN)
def test_no_interleaving_goes_wrong(name: str) -> None:
    assert run(CLEAN[name]).problem is None


NEEDED = {
    "a set in place marks": (dict(r=rest(), z=z("unmarked")), "an image is stale for ever"),
    "the log is off when marking is seen": (dict(r=rest("log_off_early"), w=w()), "stale for ever"),
    "a last drain takes what was not marked": (dict(r=rest("no_last_drain"), w=w()), "stale for ever"),
    "the map is cleared before what it names is read": (
        dict(r=rest("clear_late"), w=w(), o=overflow()),
        "stale for ever",
    ),
    "a return waits for epochs": (dict(r=rest("returns_at_once"), w=w()), "stale for ever"),
    "a return waits for sets in place": (dict(r=rest("returns_at_once"), z=z()), "an image is stale for ever"),
    "a displacement marks its item": (
        dict(r=rest(), z=z(), m=resting_writer("m", "move", ("moves_cells_alone",))),
        "an image is stale for ever",
    ),
    "a cell is marked when it has changed": (dict(r=rest(), w=w("marks_early"), o=overflow()), "stale for ever"),
}


@pytest.mark.parametrize("rule", NEEDED)
def test_leaving_a_rule_out_brings_a_wrong_answer(rule: str) -> None:
    programs, what = NEEDED[rule]
    outcome = run(programs)
    assert outcome.problem is not None
    assert what in outcome.problem
    assert outcome.trace
