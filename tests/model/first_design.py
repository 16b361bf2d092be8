"""The holes of the first design, each as the few steps that show it: cells changed by one compare-and-swap and
nothing else, dirty cells noted afterwards, expiry without a lock, counters in place, applies on several streams. The
protocol as built (protocol.py) closes them."""

from model.checker import WAIT, State, Step, answer, invoke, named

Scenario = tuple[State, dict[str, list[Step]], dict[str, tuple[str, int]], int]


def steps(*functions: Step) -> list[Step]:
    return [named(f.__name__, f) for f in functions]


def after(operation: str) -> Step:
    def step(s: State) -> str | None:
        return None if any(e[0] == "r" and e[1] == operation for e in s["history"]) else WAIT

    return named(f"after({operation})", step)


def base(**state: object) -> State:
    return dict(state, history=(), broken="")


def dirty_cell_noted_after_the_change() -> Scenario:
    """A device get that begins after a host get saw the new value still sees the old one."""

    def change(s: State) -> None:
        s["host"] = 2

    def note(s: State) -> None:
        s["log"] = True

    def read(s: State) -> None:
        s["c"] = s["host"]

    def drain(s: State) -> None:
        if s["log"]:
            s["replica"], s["log"] = s["host"], False

    def search(s: State) -> None:
        s["g"] = s["replica"]

    programs = {
        "w": [invoke("w"), *steps(change, note)],
        "c": [invoke("c"), *steps(read), answer("c", "c")],
        "g": [after("c"), invoke("g"), *steps(drain, search), answer("g", "g")],
    }
    return (
        base(host=1, replica=1, log=False, c=0, g=0),
        programs,
        {"w": ("set", 2), "c": ("get", 0), "g": ("get", 0)},
        1,
    )


def slot_retired_before_its_record() -> Scenario:
    """The slot is reused while a batch on the device still reads it."""

    def change(s: State) -> None:
        s["host"] = "N"

    def retire(s: State) -> None:
        s["waits_for"], s["retired"] = s["active"], True

    def note(s: State) -> None:
        s["log"] = True

    def begin(s: State) -> None:
        s["active"] |= {"g"}

    def drain(s: State) -> None:
        if s["log"]:
            s["replica"], s["log"] = s["host"], False

    def search(s: State) -> None:
        s["location"] = s["replica"]

    def compare(s: State) -> None:
        if s["location"] == "A" and s["reused"]:
            s["broken"] = "slot reused under a reader"

    def reuse(s: State) -> str | None:
        if not s["retired"] or s["waits_for"] & s["active"]:
            return WAIT
        s["reused"] = True
        return None

    programs = {"w": steps(change, retire, note), "g": steps(begin, drain, search, compare), "u": steps(reuse)}
    state = base(
        host="A",
        replica="A",
        log=False,
        active=frozenset(),
        waits_for=frozenset(),
        retired=False,
        reused=False,
        location="",
    )
    return state, programs, {}, 0


def drain_reads_while_a_cell_moves() -> Scenario:
    """The drain reads the new cell before the copy and the old one after the clear."""

    def copy(s: State) -> None:
        s["c1"] = 1

    def clear(s: State) -> None:
        s["c2"] = 0

    def read1(s: State) -> None:
        s["r1"] = s["c1"]

    def read2(s: State) -> None:
        s["r2"] = s["c2"]

    def search(s: State) -> None:
        s["g"] = s["r1"] or s["r2"]

    programs = {"m": steps(copy, clear), "g": [invoke("g"), *steps(read1, read2, search), answer("g", "g")]}
    return base(c1=0, c2=1, r1=0, r2=0, g=0), programs, {"g": ("get", 0)}, 1


def two_adds_by_one_swap_each() -> Scenario:
    """An absent key has no cell to contend for: both adds win, and the key outlives its delete."""

    def search(t: str) -> Step:
        def step(s: State) -> int | None:
            s[t] = 0 if s["c1"] or s["c2"] else 1
            return None if s[t] else 3

        return named("search", step)

    def swap(t: str, cell: str) -> Step:
        def step(s: State) -> None:
            s[t] = 1 if s[cell] == 0 else 0
            s[cell] = 1

        return named(f"swap({cell})", step)

    programs = {
        "a": [invoke("a"), search("a"), swap("a", "c1"), answer("a", "a")],
        "b": [invoke("b"), search("b"), swap("b", "c2"), answer("b", "b")],
    }
    return base(c1=0, c2=0, a=0, b=0), programs, {"a": ("add", 1), "b": ("add", 1)}, 0


def touch_against_expiry() -> Scenario:
    """An expiry checks the item's time, then clears the cell; a touch in between is lost."""

    def tick(s: State) -> None:
        s["now"] = 5

    def check(s: State) -> None:
        s["over"] = s["expiry"] <= s["now"]

    def clear(s: State) -> None:
        if s["over"]:
            s["cell"] = False

    def find(s: State) -> None:
        s["found"] = s["cell"] and s["expiry"] > s["now"]

    def store(s: State) -> None:
        if s["found"]:
            s["expiry"] = 9

    def get(s: State) -> None:
        if s["found"] and not (s["cell"] and s["expiry"] > s["now"]):
            s["broken"] = "touched until 9, and gone at 5"

    programs = {"clock": steps(tick), "expirer": steps(check, clear), "w": steps(find, store, get)}
    return base(cell=True, expiry=5, now=4, over=False, found=False), programs, {}, 0


def increment_in_place_against_cas() -> Scenario:
    """An increment answers, and a cas of the id from before it still stores over it."""

    def check(s: State) -> None:
        s["matches"] = s["id"] == 7

    def store(s: State) -> None:
        if s["matches"] and s["incremented"]:
            s["broken"] = "an increment that was answered is lost"

    def increment(s: State) -> None:
        s["id"], s["incremented"] = 8, True

    programs = {"cas": steps(check, store), "incr": steps(increment)}
    return base(id=7, matches=False, incremented=False), programs, {}, 0


def applies_on_two_streams() -> Scenario:
    """Two launches' applies run in the other order: the replica is stale, and no record is left."""

    def drain1(s: State) -> None:
        s["p1"] = s["host"]

    def change(s: State) -> None:
        s["host"] = 2

    def drain2(s: State) -> str | None:
        if s["host"] != 2 or not s["p1"]:
            return WAIT
        s["p2"] = s["host"]
        return None

    def apply(name: str) -> Step:
        def step(s: State) -> None:
            s["replica"] = s[name]
            s["applied"] += 1
            if s["applied"] == 2 and s["replica"] != s["host"]:
                s["broken"] = "the replica is stale for ever"

        return named(f"apply({name})", step)

    programs = {"l1": [*steps(drain1), apply("p1")], "w": steps(change), "l2": [*steps(drain2), apply("p2")]}
    return base(host=1, replica=0, p1=0, p2=0, applied=0), programs, {}, 0


SCENARIOS = [
    dirty_cell_noted_after_the_change,
    slot_retired_before_its_record,
    drain_reads_while_a_cell_moves,
    two_adds_by_one_swap_each,
    touch_against_expiry,
    increment_in_place_against_cas,
    applies_on_two_streams,
]
