"""Sets in place: no wrong answer in any interleaving, nor after a kill, and a wrong one when a rule is left out."""

import pytest

from model.checker import Outcome, Step, explore, history_check
from model.in_place import change, crash, flush, get, get_then_set, initial, set_in_place

OPERATIONS = {
    "w": ("set", 2),
    "x": ("set", 3),
    "v": ("set", 7),
    "y": ("cas", 4),
    "n": ("set", 5),
    "d": ("delete", 0),
    "f": ("flush", 0),
    "g": ("get", 0),
    "h": ("get", 0),
    "z": ("get", 0),
    "s": ("get", 0),
    "s'": ("set", 6),
    "c": ("get", 0),
    "c'": ("set", 8),
}


def run(programs: dict[str, list[Step]]) -> Outcome:
    outcome = explore(initial(programs), programs, history_check(OPERATIONS, 1))
    print(outcome)
    return outcome


def w(*faults: str, file: bool = False) -> list[Step]:
    return set_in_place("w", 2, faults, file)


def x(*faults: str, file: bool = False) -> list[Step]:
    return set_in_place("x", 3, faults, file)


def v() -> list[Step]:
    return set_in_place("v", 7, file=True)


CLEAN = {
    "two sets, a get": lambda: dict(w=w(), x=x(), g=get("g")),
    "a set, two gets": lambda: dict(w=w(), g=get("g"), h=get("h")),
    "a set, a compare-and-set, a get": lambda: dict(w=w(), y=change("y", "cas", 4), g=get("g")),
    "a set, a set beside, a get": lambda: dict(w=w(), n=change("n", "set", 5), g=get("g")),
    "a set, a delete, a get": lambda: dict(w=w(), d=change("d", "delete"), g=get("g")),
    "two sets, a delete": lambda: dict(w=w(), x=x(), d=change("d", "delete")),
    "a set, a flush, a get": lambda: dict(w=w(), f=flush("f"), g=get("g")),
    "get then set, another's set, a get": lambda: dict(c=get_then_set("c", 8), w=w(), g=get("g")),
    "get then set, another's set, a delete": lambda: dict(c=get_then_set("c", 8), w=w(), d=change("d", "delete")),
    "a set and a kill": lambda: dict(w=w(file=True), z=crash("z", "w")),
    "two sets and a kill": lambda: dict(w=w(file=True), x=x(file=True), z=crash("z", "wx")),
    "three sets and a kill": lambda: dict(w=w(file=True), x=x(file=True), v=v(), z=crash("z", "wxv")),
    "a set, a set beside and a kill": lambda: dict(w=w(file=True), n=change("n", "set", 5), z=crash("z", "wn")),
    "a set, a delete and a kill": lambda: dict(w=w(file=True), d=change("d", "delete"), z=crash("z", "wd")),
}


@pytest.mark.parametrize("name", CLEAN)
def test_no_interleaving_goes_wrong(name: str) -> None:
    outcome = run(CLEAN[name]())
    assert outcome.problem is None, outcome
    assert outcome.states > 50


NEEDED = {
    "the fixed word is read again under the lock": (lambda: dict(w=w("stale_fixed"), x=x()), "do not grow"),
    "a kill takes the item's lock and compares the version": (
        lambda: dict(w=w(), y=change("y", "cas", 4, ("blind_kill",)), g=get("g")),
        "not linearizable",
    ),
    "an overwritten set has looked at the item after the client's earlier queries": (
        lambda: dict(c=get_then_set("c", 8, ("early_fixed",)), w=w(), g=get("g")),
        "not linearizable",
    ),
    "a redo record stands before the item changes": (
        lambda: dict(w=w("no_redo", file=True), z=crash("z", "w")),
        "torn value after the restart",
    ),
    "an older record than the item is left alone": (
        lambda: dict(w=w(file=True), x=x(file=True), v=v(), z=crash("z", "wxv", ("any_record",))),
        "an older version",
    ),
    "a reader validates": (lambda: dict(w=w(), g=get("g", ("no_validation",))), "torn value"),
    "a reader validates the id, not the state alone": (lambda: dict(w=w(), g=get("g", ("state_alone",))), "torn value"),
}


@pytest.mark.parametrize("rule", NEEDED)
def test_leaving_a_rule_out_is_found(rule: str) -> None:
    programs, what = NEEDED[rule]
    outcome = run(programs())
    assert outcome.problem is not None, outcome
    assert what in outcome.problem
    assert outcome.trace
