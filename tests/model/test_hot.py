"""The hot table: no interleaving answers wrongly or loses a slot, and one does when a rule is left out."""

import pytest

from model.checker import Outcome, State, Step, explore, linearizable
from model.hot import TOMB, demote, device, initial, lose, promote, reader, reuses, room, writer

# Of each: its key, and the operation of the checker.
OPERATIONS = {
    "w": (1, ("set", 2)),
    "y": (1, ("set", 3)),
    "x": (1, ("delete", 0)),
    "e": (1, ("exchange", 2)),
    "f": (1, ("exchange", 3)),
    "c": (1, ("get", 0)),
    "g": (1, ("get", 0)),
    "u": (2, ("set", 5)),
    "v": (2, ("set", 6)),
    "z": (2, ("delete", 0)),
    "k": (2, ("get", 0)),
}


def run(programs: dict[str, list[Step]], **start: "str | bool") -> Outcome:
    state = initial(list(programs), **start)
    first = {1: max(state["A"][1], state["N"][1]), 2: state["B"][1]}
    known: dict[tuple, str | None] = {}

    def check(history: tuple) -> str | None:
        for key, value in first.items():
            operations = {t: operation for t, (of, operation) in OPERATIONS.items() if of == key}
            if not linearizable(tuple(event for event in history if event[1] in operations), operations, value):
                return f"key {key} is not linearizable"
        return None

    def bad(s: State) -> str | None:
        if s["history"] not in known:
            known[s["history"]] = check(s["history"])
        return s["broken"] or known[s["history"]]

    outcome = explore(state, programs, bad)
    print(outcome)
    return outcome


def w(*faults: str) -> list[Step]:
    return writer("w", "set", "N", 2, faults=faults)


def y(*faults: str) -> list[Step]:
    return writer("y", "set", "M", 3, faults=faults)


def x(*faults: str) -> list[Step]:
    return writer("x", "delete", faults=faults)


def exchange(t: str, *faults: str) -> list[Step]:
    return writer(t, "exchange", *{"e": ("N", 2), "f": ("M", 3)}[t], faults=faults)


def u(*faults: str) -> list[Step]:
    return writer("u", "set", "P", 5, key=2, faults=faults)


def u_reuses(slot: str, *faults: str) -> list[Step]:
    return reuses(writer("u", "set", slot, 5, key=2), slot, faults)


def z() -> list[Step]:
    return writer("z", "delete", key=2)


def k() -> list[Step]:
    return reader("k", key=2)


def m(*faults: str) -> list[Step]:
    return demote(faults=faults)


def r(*faults: str) -> list[Step]:
    return demote(replay=True, faults=faults)


def p(*faults: str) -> list[Step]:
    return promote("p", faults=faults)


def q(*faults: str) -> list[Step]:
    return promote("q", key=2, faults=faults)


def c(*faults: str) -> list[Step]:
    return reader("c", faults=faults)


def g() -> list[Step]:
    return reader("g")


def d(groups: int = 1, *faults: str) -> list[Step]:
    return device(groups, faults)


Mix = tuple[dict[str, list[Step]], dict[str, "str | bool"]]
CLEAN_HOT, DIRTY, DELETED = dict(hot="clean"), dict(hot="dirty"), dict(hot=TOMB)
FULL = dict(absent=True, full=True)

# Of one key.
CLEAN: dict[str, Mix] = {
    "set, promotion, two gets, a group": (dict(w=w(), p=p(), c=c(), g=g(), d=d()), {}),
    "set, delete, promotion, demotion, two groups": (dict(w=w(), x=x(), p=p(), m=m(), d=d(2)), {}),
    "absent, set, promotion, get, a group": (dict(w=w(), p=p(), c=c(), d=d()), dict(absent=True)),
    "hot set, demotion, two gets, a group": (dict(w=w(), m=m(), c=c(), g=g(), d=d()), CLEAN_HOT),
    "hot set, demotion, promotion, get, a group": (dict(w=w(), m=m(), p=p(), c=c(), d=d()), CLEAN_HOT),
    "hot set, demotion, set, two groups, get": (dict(w=w(), m=m(), y=y(), d=d(2), c=c()), CLEAN_HOT),
    "hot delete, set, demotion, get, a group": (dict(x=x(), y=y(), m=m(), c=c(), d=d()), CLEAN_HOT),
    "deleted hot, set, demotion, get, a group": (dict(y=y(), m=m(), c=c(), d=d()), DELETED),
    "replay, set, demotion, get, two groups": (dict(r=r(), y=y(), m=m(), c=c(), d=d(2)), DIRTY),
    "replay, delete, set, demotion, two groups": (dict(r=r(), x=x(), y=y(), m=m(), d=d(2)), DIRTY),
    "two exchanges, promotion, demotion, a group": (dict(e=exchange("e"), f=exchange("f"), p=p(), m=m(), d=d()), {}),
    "two hot exchanges, demotion, two groups": (dict(e=exchange("e"), f=exchange("f"), m=m(), d=d(2)), CLEAN_HOT),
    "refused, promotion, set, demotion, get": (dict(w=w(), p=p(), y=y(), m=m(), c=c(), d=d()), FULL),
    "refused, promotion, set, replay, demotion, room": (
        dict(w=w(), p=p(), y=y(), r=r(), m=m(), o=room(), d=d(2)),
        FULL,
    ),
    "refused, promotion, delete, demotion, get": (dict(w=w(), p=p(), x=x(), m=m(), c=c(), d=d()), FULL),
}
# Of two keys.
CLEAN |= {
    "hot set, another key's in a slot that was held": (dict(w=w(), m=m(), u=u_reuses("A"), k=k(), d=d(2)), CLEAN_HOT),
    "hot sets, another key's in a slot between": (dict(y=y(), m=m(), u=u_reuses("N"), c=c(), k=k(), d=d()), DIRTY),
    "replay, another key's in a held slot, set": (dict(r=r(), y=y(), u=u_reuses("A"), k=k(), d=d(2)), DIRTY),
    "refused, another key's in a slot that was held": (
        dict(w=w(), p=p(), y=y(), m=m(), u=u_reuses("N"), d=d(2)),
        FULL,
    ),
    "hot set, another key's, demotion, get": (dict(w=w(), u=u(), m=m(), k=k(), d=d()), CLEAN_HOT),
    "deleted hot, another key's, set, demotion": (dict(u=u(), y=y(), m=m(), k=k(), d=d()), DELETED),
    "deleted hot, another key's, its delete, get": (dict(u=u(), z=z(), m=m(), k=k(), d=d()), DELETED),
    "promotion, set, another key's set": (dict(p=p(), w=w(), u=u(), c=c(), d=d()), {}),
    "promotions, another key is resident": (dict(p=p(), q=q(), w=w(), c=c(), d=d()), dict(second="resident")),
    "promotions, another key's delete, set": (dict(z=z(), w=w(), p=p(), q=q(), d=d(2)), dict(second="table")),
    "promotion, another key's set": (dict(q=q(), u=u(), w=w(), k=k(), d=d()), dict(second="table")),
}
# Of the device's loss.
CLEAN |= {
    "hot set, loss, two gets": (dict(w=w(), l=lose(), c=c(), g=g()), CLEAN_HOT),
    "hot sets, loss, get, a group": (dict(y=y(), x=x(), m=m(), l=lose(), c=c(), d=d()), DIRTY),
    "hot set, loss, another key's set, get": (dict(w=w(), u=u(), l=lose(), k=k()), CLEAN_HOT),
    "set, promotion, loss, set": (dict(w=w(), p=p(), y=y(), l=lose(), d=d()), {}),
}


@pytest.mark.parametrize("name", CLEAN)
def test_no_interleaving_goes_wrong(name: str) -> None:
    programs, start = CLEAN[name]
    outcome = run(programs, **start)
    assert outcome.problem is None, outcome
    assert outcome.states > 200


NEEDED: dict[str, tuple[dict[str, list[Step]], dict[str, "str | bool"], str]] = {
    "a demotion is replayed": (dict(w=w(), m=m("no_replay"), c=c()), CLEAN_HOT, "key 1 is not"),
    "a key is promoted under its stripe": (dict(w=w(), p=p("populates"), c=c(), d=d()), {}, "key 1 is not"),
    "groups are applied in order": (
        dict(w=w(), m=m(), y=y(), d=d(2, "unordered")),
        CLEAN_HOT,
        "two cells of a signature",
    ),
    "a record stays until the batches have ended": (
        dict(w=w(), m=m(), c=c(), d=d(1, "early_safe")),
        CLEAN_HOT,
        "key 1 is not",
    ),
    "a query is routed inside its epoch": (dict(w=w(), m=m(), c=c("routes_early"), d=d()), CLEAN_HOT, "key 1 is not"),
    "what the hot table names is a candidate": (dict(w=w("no_candidate"), m=m()), CLEAN_HOT, "two live items"),
    "a hot key's write goes to its cell": (
        dict(w=w("writes_past_hot"), m=m(), c=c(), d=d()),
        CLEAN_HOT,
        "key 1 is not",
    ),
    "a hot miss asks the index": (dict(w=w(), m=m(), c=c("trusts_hot")), CLEAN_HOT, "key 1 is not"),
    "a miss is confirmed": (dict(w=w(), m=m(), c=c("no_confirm")), CLEAN_HOT, "key 1 is not"),
    "an old value is read under the stripe": (
        dict(e=exchange("e", "old_outside"), f=exchange("f")),
        CLEAN_HOT,
        "key 1 is not",
    ),
    "a hot delete leaves a tombstone": (
        dict(x=x("no_tombstone"), y=y(), c=c(), d=d()),
        CLEAN_HOT,
        "two cells of a signature",
    ),
    "a held slot is not retired": (
        dict(w=w("held_retired"), u=u_reuses("A")),
        CLEAN_HOT,
        "the device names a slot that is handed out",
    ),
    "another key's tombstone is a clash": (
        dict(u=u("hot_clash_unseen"), d=d()),
        DELETED,
        "two cells of a signature",
    ),
    "another key's hot cell is a clash": (
        dict(w=w(), u=u("hot_clash_unseen"), d=d()),
        CLEAN_HOT,
        "two cells of a signature",
    ),
    "a resident key is not promoted": (dict(q=q("promotes_resident"), c=c()), dict(second="resident"), "key 1 is not"),
    "a replay detaches the record before it": (
        dict(r=r(), y=y(), n=r("no_detach"), d=d()),
        DIRTY,
        "two cells of a signature",
    ),
    "a demotion detaches the record of a replay": (
        dict(r=r(), y=y(), m=m("no_detach"), d=d()),
        DIRTY,
        "two cells of a signature",
    ),
    "a hot key whose record was refused is not known to the device": (
        dict(w=w(), p=p(), m=m(), c=c(), d=d(1, "refusal_ignored")),
        FULL,
        "key 1 is not",
    ),
    "a held slot whose record was refused is retired": (
        dict(w=w(), p=p(), y=y(), d=d(1, "hook_leaks")),
        FULL,
        "a slot is lost",
    ),
    "a lost device's index is made from the heap": (
        dict(w=w(), l=lose(("index_alone",)), c=c()),
        CLEAN_HOT,
        "key 1 is not",
    ),
    "a held slot is retired when the device is lost": (
        dict(w=w(), l=lose(("loss_leaks",))),
        CLEAN_HOT,
        "a slot is lost",
    ),
}


@pytest.mark.parametrize("rule", NEEDED)
def test_leaving_a_rule_out_is_found(rule: str) -> None:
    programs, start, what = NEEDED[rule]
    outcome = run(programs, **start)
    assert outcome.problem is not None, outcome
    assert what in outcome.problem
    assert outcome.trace


def test_what_a_held_slot_protects() -> None:
    """Key 1's demotion detaches the record of the slot at `from`. Retired early and given to key 2, that is key 2's."""
    programs = dict(w=w("held_retired"), u=u_reuses("A", "unchecked"), m=m(), k=k())
    outcome = run(programs, hot="clean")
    assert outcome.problem == "key 2 is not linearizable", outcome
    assert outcome.trace.index("u.publish") < outcome.trace.index("m.demote")


# What may be otherwise: a refused record stays beside a hot cell, as a resident one; a tombstone serves either key; one
# that the device does not know is queued at its demotion, as a new one.
FREE: dict[str, Mix] = {
    "refused, kept, promotion, set, demotion, get": (
        dict(w=w(), p=p(), y=y(), m=m(), c=c(), d=d(1, "keeps_refused")),
        FULL,
    ),
    "refused, kept, promotion, set, replay, demotion, room": (
        dict(w=w(), p=p(), y=y(), r=r(), m=m(), o=room(), d=d(2, "keeps_refused")),
        FULL,
    ),
    "refused, kept, promotion, delete, another key's": (
        dict(w=w(), p=p(), x=x(), m=m(), u=u(), d=d(1, "keeps_refused")),
        FULL,
    ),
    "refused, kept, another key's in a slot that was held": (
        dict(w=w(), p=p(), y=y(), m=m(), u=u_reuses("N"), d=d(2, "keeps_refused")),
        FULL,
    ),
    "a tombstone for either key, get": (dict(y=y("adopts"), u=u("adopts"), m=m(), k=k(), d=d()), DELETED),
    "a tombstone for either key, replay": (dict(y=y("adopts"), u=u("adopts"), r=r(), m=m(), d=d(2)), DELETED),
    "a tombstone, another key is resident": (
        dict(y=y("adopts"), u=u("adopts"), m=m(), k=k(), d=d()),
        dict(hot=TOMB, second="resident"),
    ),
    "replay of a tombstone, set, queued": (
        dict(r=r("queues_new"), y=y(), m=m("queues_new"), c=c(), d=d(2)),
        DELETED,
    ),
    "replay of a tombstone, sets, queued": (
        dict(r=r("queues_new"), y=y("adopts"), u=u("adopts"), m=m("queues_new"), d=d(2)),
        DELETED,
    ),
}


@pytest.mark.parametrize("name", FREE)
def test_nothing_goes_wrong_without_what_is_not_needed(name: str) -> None:
    programs, start = FREE[name]
    outcome = run(programs, **start)
    assert outcome.problem is None, outcome
    assert outcome.states > 200
