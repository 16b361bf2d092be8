"""A small explicit-state model checker: every interleaving of a few short programs, breadth first, so that the first
bad trace found is a shortest one; and a linearizability check for the histories that they leave.

A program is a list of steps. A step is a function of the state, a dict with fixed keys and hashable values; it changes
the state and returns None (go on), a number (go to that step) or WAIT (it cannot run yet)."""

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

WAIT = "wait"

State = dict
Step = Callable[[State], "int | str | None"]


@dataclass
class Outcome:
    states: int
    problem: str | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.problem is None:
            return f"{self.states} states, no violation"
        return f"{self.states} states, {self.problem}: " + " ; ".join(self.trace)


class TooManyStates(Exception):
    pass


def named(name: str, step: Step, local: bool = False) -> Step:
    """Names a step for traces. A local step runs together with the one before: nothing that other programs do in
    between could make a difference, or only one that a delay of the whole makes as well."""
    step.__name__ = name
    step.local = local
    return step


@contextmanager
def no_collector() -> Iterator[None]:
    """Looking for cycles, of which states have none, would take a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@no_collector()
def explore(
    initial: State,
    programs: dict[str, list[Step]],
    bad: Callable[[State], "str | None"],
    states_max: int = 4_000_000,
) -> Outcome:
    keys = list(initial)
    names = list(programs)
    start = (tuple(initial.values()), (0,) * len(names))
    seen = {start}
    reached = [start]  # in the order in which they were
    came_from: list[tuple[int, int, int]] = [(0, 0, 0)]  # of each: the state before it, program and step
    for here, (values, counters) in enumerate(reached):
        before = dict(zip(keys, values, strict=True))
        for i, name in enumerate(names):
            program = programs[name]
            at = counters[i]
            if at >= len(program):
                continue
            state = before.copy()
            to = program[at](state)
            if to is WAIT:
                continue
            to = at + 1 if to is None else to
            while to < len(program) and program[to].local:
                program[to](state)
                to += 1
            assert len(state) == len(keys), f"{name}.{program[at].__name__} added to the state"
            there = (tuple(state.values()), (*counters[:i], to, *counters[i + 1 :]))
            seen.add(there)
            if len(seen) == len(reached):  # it was there; to ask first would take another hash of all of it
                continue
            reached.append(there)
            came_from.append((here, i, at))
            problem = bad(state)
            if problem:
                trace = []
                last = len(reached) - 1
                while last:
                    last, i, at = came_from[last]
                    trace.append(f"{names[i]}.{programs[names[i]][at].__name__}")
                return Outcome(len(seen), problem, trace[::-1])
            if len(seen) > states_max:
                raise TooManyStates(f"more than {states_max} states")
    return Outcome(len(seen))


# --- histories of operations on one key: ('i', operation) when invoked, ('r', operation, result) when answered ---


def invoke(operation: str) -> Step:
    def step(s: State) -> None:
        s["history"] += (("i", operation),)

    return named(f"invoke({operation})", step, local=True)  # with the enter before it


def answer(operation: str, register: str) -> Step:
    def step(s: State) -> None:
        s["history"] += (("r", operation, s[register]),)

    return named(f"answer({operation})", step)


def apply_operation(kind: str, argument: int, value: int) -> tuple[int, "int | None"]:
    """The register's new value and the right result (None: any). A value of 0 is an absent key."""
    if kind == "get":
        return value, value
    if kind == "set":
        return argument, None
    if kind == "exchange":
        return argument, value
    if kind == "delete":
        return 0, 1 if value else 0
    if kind == "flush":
        return 0, None
    if kind == "cas":  # from the value at first, 1
        return (argument, 1) if value == 1 else (value, 0)
    if kind == "add":
        return value or argument, 0 if value else 1
    raise ValueError(kind)


def linearizable(history: tuple, operations: dict[str, tuple[str, int]], initial: int) -> bool:
    """Whether the operations could have run one at a time, each between its invocation and its answer. Operations
    without an answer may have had their effect or not."""
    answered = {e[1]: e[2] for e in history if e[0] == "r"}
    invoked_at = {e[1]: i for i, e in enumerate(history) if e[0] == "i"}
    answered_at = {e[1]: i for i, e in enumerate(history) if e[0] == "r"}
    pending = [o for o in invoked_at if o not in answered]

    def works(order: tuple[str, ...]) -> bool:
        place = {o: i for i, o in enumerate(order)}
        for a in order:
            for b in order:
                if a in answered_at and answered_at[a] < invoked_at[b] and place[a] > place[b]:
                    return False
        value = initial
        for o in order:
            value, right = apply_operation(*operations[o], value)
            if right is not None and o in answered and answered[o] != right:
                return False
        return True

    for count in range(len(pending) + 1):
        for some in itertools.combinations(pending, count):
            if any(works(order) for order in itertools.permutations([*answered, *some])):
                return True
    return False


def history_check(operations: dict[str, tuple[str, int]], initial: int) -> Callable[[State], "str | None"]:
    """A `bad` that looks at the history and at state['broken'], which steps set themselves."""
    known: dict[tuple, str | None] = {}

    def bad(s: State) -> str | None:
        if s["broken"]:
            return s["broken"]
        history = s["history"]
        if history not in known:
            known[history] = None if linearizable(history, operations, initial) else "not linearizable"
        return known[history]

    return bad
