"""The write protocol: no wrong answer in any interleaving, and a wrong one again when a rule is left out."""

import pytest

from model.checker import Outcome, State, Step, explore, history_check
from model.protocol import (
    device,
    frames,
    frames_behind,
    initial,
    publisher,
    reader,
    reader_that_leaves_early,
    refill,
    replica_check,
    reuse,
    rewriter,
    writer,
)

OPERATIONS = {
    "w": ("set", 2),
    "z": ("set", 2),
    "y": ("set", 3),
    "x": ("delete", 0),
    "a": ("add", 2),
    "b": ("add", 2),
    "c": ("get", 0),
    "d": ("get", 0),
    "g": ("get", 0),
    "q": ("get", 0),
}


def run(programs: dict[str, list[Step]], absent: bool = False) -> Outcome:
    s: State = initial(list(programs), c2="" if absent else "A")
    if absent:
        s["A"] = "dead"
        s["iA"] = 0
    if not any(name.startswith(("u", "s")) for name in programs):
        # Where nothing is reused and no check waits for the end, epochs only cost states.
        for program in programs.values():
            for step in program:
                step.local = step.local or step.__name__ == "enter"
    outcome = explore(s, programs, history_check(OPERATIONS, 0 if absent else 1))
    print(outcome)
    return outcome


CLEAN = {
    "set, displacement, host get": dict(w=writer("w", "set"), m=writer("m", "move"), c=reader("c")),
    "set, displacement, host get with its strip": dict(
        w=writer("w", "set"), m=writer("m", "move"), c=reader("c", strip=True)
    ),
    "delete, displacement, host get": dict(x=writer("x", "delete"), m=writer("m", "move"), c=reader("c")),
    "set, delete, host get": dict(w=writer("w", "set"), x=writer("x", "delete"), c=reader("c")),
    "two displacements, host get": dict(m=writer("m", "move"), n=writer("n", "move"), c=reader("c")),
    "set, slot reuse, two host gets": dict(w=writer("w", "set"), u=reuse(), c=reader("c"), d=reader("d")),
    "delete, slot reuse, host get with its strip": dict(x=writer("x", "delete"), u=reuse(), c=reader("c", strip=True)),
    "set, device get": dict(w=writer("w", "set"), g=device("g")),
    "set, slot reuse, device get": dict(w=writer("w", "set"), u=reuse(), g=device("g")),
    "displacement, device get, a later launch": dict(m=writer("m", "move"), g=device("g"), l=device("l", search=False)),
    "set, two device gets in two launches": dict(w=writer("w", "set"), g=device("g"), q=device("q")),
    "delete, displacement, device get": dict(x=writer("x", "delete"), m=writer("m", "move"), g=device("g")),
    "set, frames": dict(w=writer("w", "set"), g=frames("g")),
    "set, host get, frames": dict(w=writer("w", "set"), c=reader("c"), g=frames("g")),
    "set, slot reuse, frames": dict(w=writer("w", "set"), u=reuse(), g=frames("g")),
    "delete, host get, frames": dict(x=writer("x", "delete"), c=reader("c"), g=frames("g")),
    "displacement, frames, a later launch": dict(
        m=writer("m", "move"), g=frames("g"), l=device("l", search=False, images=True)
    ),
    "set in place, host get, frames": dict(z=rewriter("z"), c=reader("c"), g=frames("g")),
    "set in place, delete, frames": dict(z=rewriter("z"), x=writer("x", "delete"), g=frames("g")),
    "set in place, displacement, frames": dict(z=rewriter("z"), m=writer("m", "move"), g=frames("g")),
    "set in place, two frames in two launches": dict(z=rewriter("z"), g=frames("g"), q=frames("q")),
    "set, a frame behind it": dict(w=writer("w", "set"), g=frames_behind("g", "w")),
    "set in place, a frame behind it": dict(z=rewriter("z"), g=frames_behind("g", "z")),
    "delete, set in place, a frame behind the delete": dict(
        x=writer("x", "delete"), z=rewriter("z"), g=frames_behind("g", "x")
    ),
    "host get, set, a frame behind the get": dict(c=reader("c"), w=writer("w", "set"), g=frames_behind("g", "c")),
    "set in place, two launches, the images afterwards": dict(
        z=rewriter("z"),
        k=device("k", search=False, images=True),
        l=device("l", search=False, images=True),
        s=replica_check(2),
    ),
    "set, two launches, the replica afterwards": dict(
        w=writer("w", "set"), k=device("k", search=False), l=device("l", search=False), s=replica_check(2)
    ),
}
# Of sets in place that put images into their own rings.
CLEAN |= {
    "set by image, host get, frames": dict(z=publisher("z", 2), c=reader("c"), g=frames("g", rings=True)),
    "set by image, delete, frames": dict(z=publisher("z", 2), x=writer("x", "delete"), g=frames("g", rings=True)),
    "set by image, set beside, frames": dict(z=publisher("z", 2), w=writer("w", "set"), g=frames("g", rings=True)),
    "set by image, displacement, frames": dict(z=publisher("z", 2), m=writer("m", "move"), g=frames("g", rings=True)),
    "set by image, another key's in its place, frames": dict(
        z=publisher("z", 2), o=refill("ring.z"), g=frames("g", rings=True)
    ),
    "two sets by image, frames": dict(z=publisher("z", 2), y=publisher("y", 3), g=frames("g", rings=True)),
    "two sets by image, displacement, two launches, the images afterwards": dict(
        z=publisher("z", 2),
        y=publisher("y", 3),
        m=writer("m", "move"),
        k=device("k", search=False, images=True, rings=True),
        l=device("l", search=False, images=True, rings=True),
        s=replica_check(2),
    ),
    "sets by image and by the log, two launches, the images afterwards": dict(
        z=publisher("z", 2),
        y=rewriter("y", value=3),
        k=device("k", search=False, images=True, rings=True),
        l=device("l", search=False, images=True, rings=True),
        s=replica_check(2),
    ),
}
CLEAN_ABSENT = {
    "two adds, delete": dict(a=writer("a", "add"), b=writer("b", "add"), x=writer("x", "delete")),
    "two adds, host get": dict(a=writer("a", "add"), b=writer("b", "add"), c=reader("c")),
    "add, displacement, host get": dict(a=writer("a", "add"), m=writer("m", "move"), c=reader("c")),
    "add, device get": dict(a=writer("a", "add"), g=device("g")),
    "add, frames": dict(a=writer("a", "add"), g=frames("g")),
    "add, host get, frames": dict(a=writer("a", "add"), c=reader("c"), g=frames("g")),
}


@pytest.mark.parametrize("name", CLEAN)
def test_no_interleaving_goes_wrong(name: str) -> None:
    assert run(CLEAN[name]).problem is None


@pytest.mark.parametrize("name", CLEAN_ABSENT)
def test_no_interleaving_goes_wrong_on_an_absent_key(name: str) -> None:
    assert run(CLEAN_ABSENT[name], absent=True).problem is None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_largest_mix() -> None:
    outcome = run(dict(w=writer("w", "set"), m=writer("m", "move"), g=device("g"), l=device("l", search=False)))
    assert outcome.problem is None
    assert outcome.states > 500_000


NEEDED = {
    "writers of a key hold its stripe": (
        dict(a=writer("a", "add", ("no_stripe",)), b=writer("b", "add", ("no_stripe",))),
        True,
        "not linearizable",
    ),
    "a host miss is confirmed": (
        dict(m=writer("m", "move"), n=writer("n", "move"), c=reader("c", ("no_confirm",))),
        False,
        "not linearizable",
    ),
    "every change counts the version": (
        dict(
            m=writer("m", "move", ("no_version",)),
            n=writer("n", "move", ("no_version",)),
            c=reader("c"),
        ),
        False,
        "not linearizable",
    ),
    "a device miss is final only if nothing changed": (
        dict(
            m=writer("m", "move"),
            n=writer("n", "move"),
            g=device("g", ("trust_miss",)),
            l=device("l", search=False),
        ),
        False,
        "not linearizable",
    ),
    "the stamp comes after the change": (
        dict(
            m=writer("m", "move", ("stamp_early",)),
            n=writer("n", "move", ("stamp_early",)),
            g=device("g"),
            l=device("l", search=False),
        ),
        False,
        "not linearizable",
    ),
    "an item is retired after its record is in the log": (
        dict(w=writer("w", "set", ("reserve_late",)), u=reuse(), g=device("g")),
        False,
        "slot was given",
    ),
    "an item is retired after its cell is gone": (
        dict(w=writer("w", "set", ("retire_early",)), u=reuse(), c=reader("c")),
        False,
        "slot was given",
    ),
    "an epoch lasts until the item was read": (
        dict(w=writer("w", "set"), u=reuse(), e=reader_that_leaves_early("e")),
        False,
        "slot was given",
    ),
    "drains and applies are totally ordered": (
        dict(
            w=writer("w", "set"),
            k=device("k", ("unordered",), search=False),
            l=device("l", ("unordered",), search=False),
            s=replica_check(2),
        ),
        False,
        "stale for ever",
    ),
    "a drain forgets committed records only": (
        dict(w=writer("w", "set"), l=device("l", ("forget_all",), search=False), s=replica_check(1)),
        False,
        "stale for ever",
    ),
}


# Of reads that take effect at their launch.
NEEDED |= {
    "the drain of a frame's launch begins after its receipt": (
        dict(w=writer("w", "set"), g=frames("g", ("drain_early",))),
        False,
        "not linearizable",
    ),
    "an answer behind a set of its key is not taken": (
        dict(w=writer("w", "set"), g=frames_behind("g", "w", ("run_before_set",))),
        False,
        "not linearizable",
    ),
    "an answer behind a get of its key that the host has executed is not taken": (
        dict(c=reader("c"), w=writer("w", "set"), g=frames_behind("g", "c", ("run_before_set",))),
        False,
        "not linearizable",
    ),
    "a frame's miss is final only if nothing changed": (
        dict(
            m=writer("m", "move"),
            n=writer("n", "move"),
            g=frames("g", ("trust_miss",)),
            l=device("l", search=False, images=True),
        ),
        False,
        "not linearizable",
    ),
    "a change is in the log before a get can see it": (
        dict(w=writer("w", "set", ("reserve_late",)), c=reader("c"), g=frames("g")),
        False,
        "not linearizable",
    ),
}


# Of sets in place where a replica has values.
NEEDED |= {
    "a rewritten item is in the log": (
        dict(z=rewriter("z", ("unlogged",)), c=reader("c"), g=frames("g")),
        False,
        "not linearizable",
    ),
    "a rewritten item's record is committed when it is live": (
        dict(z=rewriter("z", ("commit_early",)), l=device("l", search=False, images=True), s=replica_check(1)),
        False,
        "an image is stale for ever",
    ),
}


# Of sets in place that put images into their own rings.
NEEDED |= {
    "an image is published before a get can see the value": (
        dict(z=publisher("z", 2, ("publish_late",)), c=reader("c"), g=frames("g", rings=True)),
        False,
        "not linearizable",
    ),
    "an image replaces older versions only": (
        dict(
            z=publisher("z", 2),
            y=publisher("y", 3),
            k=device("k", ("any_version",), search=False, images=True, rings=True),
            l=device("l", ("any_version",), search=False, images=True, rings=True),
            s=replica_check(2),
        ),
        False,
        "an image is stale for ever",
    ),
    "a ring is kept until the device has read it": (
        dict(
            z=publisher("z", 2),
            o=refill("ring.z", ("release_early",)),
            k=device("k", search=False, images=True, rings=True),
            s=replica_check(1),
        ),
        False,
        "an image is stale for ever",
    ),
    "images are taken before items are read": (
        dict(
            z=publisher("z", 2),
            m=writer("m", "move"),
            k=device("k", ("take_late",), search=False, images=True, rings=True),
            s=replica_check(1),
        ),
        False,
        "an image is stale for ever",
    ),
}


@pytest.mark.parametrize("rule", NEEDED)
def test_leaving_a_rule_out_brings_a_wrong_answer(rule: str) -> None:
    programs, absent, what = NEEDED[rule]
    outcome = run(programs, absent)
    assert outcome.problem is not None
    assert what in outcome.problem
    assert outcome.trace


def test_copy_before_clear_is_for_speed_only() -> None:
    """Readers that miss wait for the stripe anyway: with copy first they hardly ever have to."""
    programs = dict(m=writer("m", "move", ("clear_first",)), n=writer("n", "move", ("clear_first",)), c=reader("c"))
    assert run(programs).problem is None
