"""Growth, as built (src/index/cuckoo/grow.cpp): one key while table A is copied into table B and then dropped.

The key has two cells in A (its two buckets there, a1 and a2) and one in B (b). Items are letters: X is there at first,
in a2, and holds 1; Y and Z are writers' and hold 2 and 3.

step        code
----------  -------------------------------------------------------------------------------------------------------
publish(n)  Index::publish of phase n
wait        EpochDomain::synchronize: every batch in flight when it began has ended
copy        Index::copy_cell, under the key's stripe: of a1, then of a2
free        ~Table of A
lock        StripeLock, then the phase (a writer's phase is what it loaded, as long as its batch lasts)
find        Guard::find_cell: live items only, A first, then B
dead, live  Guard::put and Guard::erase
cells       the cells of the key, one store each: where find() saw them; a new key's in the target
unlock      StripeLock::unlock_changed
move        Index::move_cell in A, by an inserter with target A
strip       Index::search in the table that the phase reads, and KC
word...     Index::find over both tables
reuse       X's slot is handed out again, to another key, once its epoch has passed
audit       when all is over: B has one cell if the key is there, of its live item, and none otherwise

`faults` leaves a rule out."""

from model.checker import WAIT, State, Step, answer, invoke, named

VALUE = {"X": 1, "Y": 2, "Z": 3}
CELLS = {"A": ("a1", "a2"), "B": ("b",)}
# phase: read, other, target
PHASES = {1: ("A", "", "A"), 2: ("A", "B", "A"), 3: ("A", "B", "B"), 4: ("B", "", "B")}


def initial(threads: list[str], present: bool = True, a_full: bool = False) -> State:
    s: State = {
        "a1": "",
        "a2": "X" if present else "",
        "b": "",
        "X": "live" if present else "free",
        "Y": "filling",
        "Z": "filling",
        "a_full": a_full,  # no free cell in A for a new key
        "a_freed": False,
        "phase": 1,
        "lock": "",
        "version": 0,
        "active": frozenset(),
        "wait_for": frozenset(),
        "retired": (),  # (item, batches that may still see it)
        "reused": frozenset(),
        "finished": frozenset(),
        "broken": "",
        "history": (),
    }
    for t in threads:
        s |= {f"{t}.phase": 0, f"{t}.item": "", f"{t}.cells": (), f"{t}.result": 0, f"{t}.seen": "", f"{t}.word": 0}
    return s


def enter(t: str) -> Step:
    # The phase is loaded by each operation; one load stands for the operation.
    def step(s: State) -> None:
        s["active"] |= {t}

    return named("enter", step)


def leave(t: str) -> Step:
    def step(s: State) -> None:
        s["active"] -= {t}
        s["finished"] |= {t}

    return named("exit", step, local=True)


def load_phase(t: str) -> Step:
    def step(s: State) -> None:
        s[f"{t}.phase"] = s["phase"]

    return named("phase", step)


def read_cell(s: State, cell: str) -> str:
    if cell != "b" and s["a_freed"]:
        s["broken"] = "a table is used that was freed"
    return s[cell]


def is_live(s: State, item: str) -> bool:
    if item in s["reused"]:
        s["broken"] = "an item is read whose slot was given to somebody else"
    return s[item] == "live"


def tables(phase: int) -> list[str]:
    read, other, _ = PHASES[phase]
    return [read, other] if other else [read]


def writer(t: str, kind: str, item: str = "Y", faults: tuple[str, ...] = ()) -> list[Step]:
    def lock(s: State) -> str | None:
        if s["lock"]:
            return WAIT
        s["lock"] = t
        return None

    def find(s: State) -> None:
        s[f"{t}.item"], cells = "", []
        for table in tables(s[f"{t}.phase"]):
            for cell in CELLS[table]:
                there = read_cell(s, cell)
                if not there or (s[f"{t}.item"] and there != s[f"{t}.item"]) or not is_live(s, there):
                    continue
                s[f"{t}.item"] = there
                cells.append(cell)
                break
        s[f"{t}.cells"] = tuple(cells)

    def changes(s: State) -> bool:
        return {"set": True, "add": not s[f"{t}.item"], "delete": bool(s[f"{t}.item"])}[kind]

    def dead(s: State) -> None:
        if changes(s) and s[f"{t}.item"]:
            s[s[f"{t}.item"]] = "dead"

    def live(s: State) -> None:
        if changes(s) and kind != "delete":
            s[item] = "live"

    def cells(s: State) -> int | None:
        """One cell a step; comes back until all are written."""
        if not changes(s):
            return None
        if s[f"{t}.seen"] == "":  # first time: which cells
            if not s[f"{t}.item"]:
                _, other, target = PHASES[s[f"{t}.phase"]]
                if target == "B":
                    best_effort = other and not s["a_full"]
                    s[f"{t}.cells"] = ("b", "a1") if best_effort else ("b",)
                else:
                    s[f"{t}.cells"] = ("a1",)
            s[f"{t}.seen"] = "chosen"
            s[f"{t}.result"] = 1
        if not s[f"{t}.cells"]:
            return None
        cell, *rest = s[f"{t}.cells"]
        read_cell(s, cell)
        s[cell] = "" if kind == "delete" else item
        s[f"{t}.cells"] = tuple(rest)
        return at_cells if rest else None

    def unlock(s: State) -> None:
        s["version"] += changes(s)
        s["lock"] = ""

    def retire(s: State) -> None:
        if changes(s) and s[f"{t}.item"]:
            s["retired"] += ((s[f"{t}.item"], s["active"]),)

    steps = [load_phase(t), named("lock", lock), named("find", find), named("dead", dead), named("live", live)]
    at_cells = 2 + len(steps)
    steps += [named("cells", cells), named("unlock", unlock), named("retire", retire)]
    return [enter(t), invoke(t), *steps, answer(t, f"{t}.result"), leave(t)]


def mover(t: str, faults: tuple[str, ...] = ()) -> list[Step]:
    """An insertion of another key displaces ours in the table that takes new keys, when that is A."""

    def lock(s: State) -> str | int | None:
        if s[f"{t}.phase"] > (3 if "displace_in_a" in faults else 2):
            return leaves
        if s["lock"]:
            return WAIT
        s["lock"] = t
        return None

    def copy(s: State) -> None:
        source = "a1" if read_cell(s, "a1") else "a2"
        s[f"{t}.item"] = s[source]
        s[f"{t}.seen"] = source
        s["a2" if source == "a1" else "a1"] = s[source]

    def clear(s: State) -> None:
        s[s[f"{t}.seen"]] = ""

    def unlock(s: State) -> None:
        s["version"] += 1
        s["lock"] = ""

    steps = [enter(t), load_phase(t), named("lock", lock), named("copy", copy), named("clear", clear)]
    leaves = len(steps) + 1
    # A step to jump to: an exit alone would be local to what stands before it.
    return [*steps, named("unlock", unlock), named("done", lambda s: None), leave(t)]


def reader(t: str, faults: tuple[str, ...] = ()) -> list[Step]:
    program = [enter(t), invoke(t), load_phase(t)]

    def searched(s: State) -> list[str]:
        names = tables(s[f"{t}.phase"])
        return names[:1] if "only_one_table" in faults else names

    def strip(s: State) -> None:
        s[f"{t}.seen"] = ""
        for cell in CELLS[PHASES[s[f"{t}.phase"]][0]]:
            s[f"{t}.seen"] = s[f"{t}.seen"] or read_cell(s, cell)

    def compare(s: State) -> int | None:
        item = s[f"{t}.seen"]
        if item and (is_live(s, item) or "no_state" in faults):
            s[f"{t}.result"] = VALUE[item]
            return done
        return None

    program += [named("strip", strip), named("compare", compare)]
    base = len(program)

    def word(s: State) -> None:
        s[f"{t}.word"] = (s["lock"] != "", s["version"])

    program.append(named("word", word))
    for table, cell in (("A", "a1"), ("A", "a2"), ("B", "b")):

        def look(s: State, table: str = table, cell: str = cell) -> None:
            s[f"{t}.seen"] = read_cell(s, cell) if table in searched(s) else ""

        def state(s: State) -> int | None:
            item = s[f"{t}.seen"]
            if item and is_live(s, item):
                s[f"{t}.result"] = VALUE[item]
                return done
            return None

        program += [named(f"look({cell})", look), named("state", state)]

    def confirm(s: State) -> int | None:
        locked, version = s[f"{t}.word"]
        if locked or s["lock"] or s["version"] != version:
            return base
        s[f"{t}.result"] = 0
        return None

    program.append(named("confirm", confirm))
    done = len(program)
    return [*program, answer(t, f"{t}.result"), leave(t)]


def grower(t: str, faults: tuple[str, ...] = ()) -> list[Step]:
    def publish(phase: int) -> Step:
        def step(s: State) -> None:
            s["phase"] = phase
            s["wait_for"] = s["active"]

        return named(f"publish({phase})", step)

    def wait(s: State) -> str | None:
        s["wait_for"] &= s["active"]
        return WAIT if s["wait_for"] else None

    def copy_locked(cell: str) -> list[Step]:
        def lock(s: State) -> str | None:
            if s["lock"]:
                return WAIT
            s["lock"] = t
            return None

        def load(s: State) -> None:
            s[f"{t}.seen"] = s[cell]

        def store(s: State) -> None:
            if s[f"{t}.seen"] and s["b"] != s[f"{t}.seen"]:
                if s["b"]:
                    s["broken"] = "the key is in the new table twice"
                s["b"] = s[f"{t}.seen"]

        def unlock(s: State) -> None:
            s["lock"] = ""
            s["version"] += 1

        body = [named(f"load({cell})", load), named("store", store)]
        if "copy_unlocked" in faults:
            return body
        return [named("lock", lock), *body, named("unlock", unlock)]

    def free(s: State) -> None:
        s["a_freed"] = True
        s["finished"] |= {t}

    copies = [*copy_locked("a1"), *copy_locked("a2")]
    waits = [named("wait", wait)]
    program = [publish(2), *waits, publish(3), *waits, *copies, publish(4), *waits, named("free", free)]
    if "two_at_once" in faults:  # one phase in which writers add to both tables
        program = [publish(3), *waits, *copies, publish(4), *waits, named("free", free)]
    if "copy_at_once" in faults:
        program = [publish(2), *waits, publish(3), *copies, publish(4), *waits, named("free", free)]
    if "free_at_once" in faults:
        program = [publish(2), *waits, publish(3), *waits, *copies, publish(4), named("free", free)]
    return program


def reuse() -> list[Step]:
    def step(s: State) -> str | None:
        for item, seen_by in s["retired"]:
            if item == "X" and not seen_by & s["active"] and "X" not in s["reused"]:
                s["reused"] |= {"X"}
                return None
        return WAIT

    return [named("reuse", step)]


def audit(others: list[str]) -> list[Step]:
    def step(s: State) -> str | None:
        if not s["finished"] >= set(others):
            return WAIT
        live = [i for i in VALUE if s[i] == "live"]
        if len(live) > 1:
            s["broken"] = "two items of the key are live"
        elif s["b"] != (live[0] if live else ""):
            s["broken"] = f"the new table holds {s['b'] or 'nothing'}, and {live or 'nothing'} is live"
        return None

    return [named("audit", step)]
