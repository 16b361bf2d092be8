"""Growth: no wrong answer in any interleaving, and a wrong one again when a rule is left out."""

import pytest

from model.checker import Outcome, Step, explore, history_check
from model.growth import audit, grower, initial, mover, reader, reuse, writer

OPERATIONS = {
    "w": ("set", 2),
    "v": ("set", 3),
    "x": ("delete", 0),
    "a": ("add", 2),
    "c": ("get", 0),
    "d": ("get", 0),
}


def run(programs: dict[str, list[Step]], present: bool = True, a_full: bool = False) -> Outcome:
    others = [name for name in programs if name != "u"]
    programs = dict(programs, z=audit(others))
    outcome = explore(
        initial(list(programs), present, a_full), programs, history_check(OPERATIONS, 1 if present else 0)
    )
    print(outcome)
    return outcome


def faulty(*faults: str) -> list[Step]:
    return grower("r", faults)


CLEAN = {
    "set, get": (dict(r=grower("r"), w=writer("w", "set"), c=reader("c")), True),
    "delete, get": (dict(r=grower("r"), x=writer("x", "delete"), c=reader("c")), True),
    "add of an absent key, get": (dict(r=grower("r"), a=writer("a", "add"), c=reader("c")), False),
    "two gets": (dict(r=grower("r"), c=reader("c"), d=reader("d")), True),
    "displacement, get": (dict(r=grower("r"), m=mover("m"), c=reader("c")), True),
    "displacement, set": (dict(r=grower("r"), m=mover("m"), w=writer("w", "set")), True),
    "set, delete": (dict(r=grower("r"), w=writer("w", "set"), x=writer("x", "delete")), True),
    "two sets": (dict(r=grower("r"), w=writer("w", "set"), v=writer("v", "set", "Z")), True),
    "add, delete": (dict(r=grower("r"), a=writer("a", "add"), x=writer("x", "delete")), False),
    "set, slot reuse, get": (dict(r=grower("r"), w=writer("w", "set"), u=reuse(), c=reader("c")), True),
    "delete, slot reuse, get": (dict(r=grower("r"), x=writer("x", "delete"), u=reuse(), c=reader("c")), True),
}


@pytest.mark.parametrize("a_full", [False, True], ids=["room in the old table", "old table full"])
@pytest.mark.parametrize("name", CLEAN)
def test_no_interleaving_goes_wrong(name: str, a_full: bool) -> None:
    programs, present = CLEAN[name]
    assert run(programs, present, a_full).problem is None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_largest_mix() -> None:
    outcome = run(dict(r=grower("r"), w=writer("w", "set"), m=mover("m"), c=reader("c")))
    assert outcome.problem is None
    assert outcome.states > 300_000


NEEDED = {
    "writers learn of the new table before any of them adds to it": (
        dict(r=faulty("two_at_once"), a=writer("a", "add"), x=writer("x", "delete")),
        dict(present=False),
        "the new table holds Y",
    ),
    "nobody adds to the old table alone when the copy begins": (
        dict(r=faulty("copy_at_once"), a=writer("a", "add")),
        dict(present=False),
        "the new table holds nothing",
    ),
    "nobody displaces in the old table when the copy begins": (
        dict(r=faulty("copy_at_once"), m=mover("m")),
        dict(present=True),
        "the new table holds nothing",
    ),
    "nobody displaces in the old table during the copy": (
        dict(r=grower("r"), m=mover("m", ("displace_in_a",))),
        dict(present=True),
        "the new table holds nothing",
    ),
    "the copy holds the key's stripe": (
        dict(r=faulty("copy_unlocked"), w=writer("w", "set"), c=reader("c")),
        dict(present=True),
        "the new table holds X",
    ),
    "the old table outlives its readers": (
        dict(r=faulty("free_at_once"), c=reader("c")),
        dict(present=True),
        "a table is used that was freed",
    ),
    "a reader that misses looks into both tables": (
        dict(r=grower("r"), a=writer("a", "add"), c=reader("c", ("only_one_table",))),
        dict(present=False, a_full=True),
        "not linearizable",
    ),
}


@pytest.mark.parametrize("rule", NEEDED)
def test_leaving_a_rule_out_brings_a_wrong_answer(rule: str) -> None:
    programs, where, what = NEEDED[rule]
    outcome = run(programs, **where)
    assert outcome.problem is not None
    assert what in outcome.problem
    assert outcome.trace


def test_readers_are_right_without_the_state_word_too() -> None:
    """A cell left behind in the old table is seen only by operations that began before its item died, and their epoch
    keeps the slot: KC looks at the state because it has the word at hand."""
    programs = dict(r=grower("r"), x=writer("x", "delete"), u=reuse(), c=reader("c", ("no_state",)))
    assert run(programs).problem is None
