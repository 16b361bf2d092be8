"""Sets in place (docs/decisions/0026-sets-in-place.md): one key. Its item A is rewritten while threads read it, replace
it, remove it, flush the store, or the process is killed.

The item's value is two words, v1 and v2, which a set writes one after the other: a reader that gets one of each has a
torn value. Its header is the state word, here without the id's high part, so that two versions have the same one, and
the fixed word: the CAS id. N is a new item of a writer that goes the other way.

step            code
--------------  ---------------------------------------------------------------------------------------------------
fixed, state    ItemVersion::of; settled_version where a stripe is held (src/heap/item_rewrite.hpp)
lock            the compare-and-swap of try_store_in_place (src/task/store_in_place.hpp), or lock_item; or the set is
                overwritten (is_overwritten), whether its writer is done or not
reread, id      the fixed word under the lock; CasIds::next: of the worker's chunk, or of a new one
mark            the flush mark, looked at again when the id is there
record          RedoRecord::write; clear: RedoRecord::clear (src/heap/redo.hpp)
write, live     the fixed word, the value's two words, the state word
copy, still     a reader's copy, is_still; again, and at last under the lock: copy_slowly
decide          Guard::find; a compare-and-set or delete decides by what it finds
dead, cell      Guard::put and erase, under the item's lock
crash, recover  a kill of the process, HeapRecovery::finish_rewriting (src/heap/recovery.cpp)

`faults` leaves a rule out; test_in_place.py asks that each of them is found."""

from collections.abc import Iterable

from model.checker import WAIT, State, Step, answer, invoke, named

CHUNK = 10


def initial(threads: Iterable[str]) -> State:
    s: State = {
        "A": "live",
        "fixed": 1,
        "v1": 1,
        "v2": 1,
        "N": "filling",
        "N.fixed": 0,
        "N.value": 0,
        "cell": "A",
        "stripe": "",
        "next": 3 * CHUNK,
        "flush": 0,
        "flushing": False,
        "crashed": False,
        "finished": frozenset(),
        "broken": "",
        "history": (),
    }
    for i, t in enumerate(threads):
        # What is left of a chunk that the worker took earlier; another worker's may be of higher numbers.
        s |= {f"{t}.ids": 2 + i * CHUNK, f"{t}.id": 0, f"{t}.fixed": 0, f"{t}.state": "", f"{t}.flush": 0}
        s |= {f"{t}.c1": 0, f"{t}.c2": 0, f"{t}.result": 0, f"{t}.tries": 0, f"{t}.record": None}
    return s


def numbered(steps: list[tuple[str, Step]], at: int = 1) -> dict[str, int]:
    """Where each step stands in its program, which begins with the invocation."""
    return {name: at + i for i, (name, _) in enumerate(steps)}


def program(t: str, steps: list[tuple[str, Step]], ends: bool = True) -> list[Step]:
    """All but the end wait for ever once the process is killed."""

    def alive(step: Step) -> Step:
        def run(s: State) -> "int | str | None":
            return WAIT if s["crashed"] else step(s)

        return run

    def finish(s: State) -> None:
        s["finished"] |= {t}

    made = [named(name, alive(step)) for name, step in steps]
    made.insert(0, named("invoke", alive(invoke(t))))
    if ends:
        made.append(named(f"answer({t})", alive(answer(t, f"{t}.result"))))
    return [*made, named("finish", finish, local=True)]


def take_id(s: State, t: str, above: int) -> None:
    if s[f"{t}.ids"] <= above or s[f"{t}.ids"] < s["flush"]:
        s[f"{t}.ids"] = s["next"]
        s["next"] += CHUNK
    s[f"{t}.id"] = s[f"{t}.ids"]
    s[f"{t}.ids"] += 1


def set_in_place(t: str, value: int, faults: tuple[str, ...] = (), file: bool = False) -> list[Step]:
    """Where it cannot go on in place it ends without an answer: as a set that may have been done or not."""
    at: dict[str, int] = {}

    def fixed(s: State) -> None:
        s[f"{t}.flush"] = s["flush"]
        s[f"{t}.fixed"] = s["fixed"]

    def lock(s: State) -> "int | str | None":
        if s["A"] != "live" and s["fixed"] != s[f"{t}.fixed"]:
            s[f"{t}.result"] = 1
            return at["answer"]
        if s["A"] == "filling":
            return WAIT
        if s["A"] != "live" or s["fixed"] < s[f"{t}.flush"]:
            return at["finish"]
        s["A"] = "filling"
        return None

    def reread(s: State) -> None:
        if "stale_fixed" not in faults:
            s[f"{t}.fixed"] = s["fixed"]

    def take(s: State) -> "str | None":
        if s["flushing"]:
            return WAIT
        take_id(s, t, s[f"{t}.fixed"])
        return None

    def mark(s: State) -> "int | None":
        if s["flush"] == s[f"{t}.flush"]:
            return None
        s["A"] = "live"
        return at["finish"]

    def record(s: State) -> None:
        if file and "no_redo" not in faults:
            s[f"{t}.record"] = (s[f"{t}.id"], value)

    def write_fixed(s: State) -> None:
        if s[f"{t}.id"] <= s["fixed"]:
            s["broken"] = "CAS ids do not grow"
        s["fixed"] = s[f"{t}.id"]

    def write(word: str) -> Step:
        def step(s: State) -> None:
            s[word] = value

        return step

    def live(s: State) -> None:
        s["A"] = "live"
        s[f"{t}.result"] = 1

    def clear(s: State) -> None:
        s[f"{t}.record"] = None

    steps = [("fixed", fixed), ("lock", lock), ("reread", reread), ("id", take), ("mark", mark)]
    steps += [("record", record)] if file else []
    steps += [("write(fixed)", write_fixed), ("write(v1)", write("v1")), ("write(v2)", write("v2")), ("live", live)]
    steps += [("clear", clear)] if file else []
    at |= numbered([*steps, ("answer", live), ("finish", live)])
    return program(t, steps)


def get(t: str, faults: tuple[str, ...] = ()) -> list[Step]:
    at: dict[str, int] = {}

    def find(s: State) -> "int | str | None":
        """Index::find: the cell, and the stripe that confirms a miss."""
        if s["cell"] == "" and s["stripe"]:
            return WAIT
        if s["cell"] == "N":
            s[f"{t}.result"] = s["N.value"] if s["N.fixed"] >= s["flush"] else 0
            return at["answer"]
        if s["cell"] == "":
            s[f"{t}.result"] = 0
            return at["answer"]
        return None

    def fixed(s: State) -> None:
        s[f"{t}.flush"] = s["flush"]
        s[f"{t}.fixed"] = s["fixed"]

    def state(s: State) -> "int | str | None":
        if s["A"] == "filling":
            return WAIT
        s[f"{t}.state"] = s["A"]
        if s["A"] == "dead":
            return at["find"] if s["cell"] != "A" else WAIT
        if s[f"{t}.fixed"] < s[f"{t}.flush"]:
            s[f"{t}.result"] = 0
            return at["answer"]
        return None

    def copy(word: int) -> Step:
        def step(s: State) -> None:
            s[f"{t}.c{word}"] = s[f"v{word}"]

        return step

    def state_again(s: State) -> "int | None":
        if "no_validation" in faults:
            return None
        if s["A"] == "dead":
            # Nothing writes to a dead item: what is there now is its last value.
            s[f"{t}.c1"], s[f"{t}.c2"] = s["v1"], s["v2"]
            return at["accept"]
        return None if s["A"] == "live" else at["fixed"]

    def fixed_again(s: State) -> "int | None":
        if "no_validation" in faults or "state_alone" in faults or s["fixed"] == s[f"{t}.fixed"]:
            return None
        return at["fixed"]

    def accept(s: State) -> None:
        if s[f"{t}.c1"] != s[f"{t}.c2"]:
            s["broken"] = "a torn value"
        s[f"{t}.result"] = s[f"{t}.c1"]

    steps = [("find", find), ("fixed", fixed), ("state", state), ("copy(v1)", copy(1)), ("copy(v2)", copy(2))]
    steps += [("state again", state_again), ("fixed again", fixed_again), ("accept", accept)]
    at |= numbered([*steps, ("answer", accept)])
    return program(t, steps)


def change(t: str, kind: str, value: int = 0, faults: tuple[str, ...] = ()) -> list[Step]:
    """Under the stripe. kind: cas (from the version that it finds, if that holds 1), delete, set (beside)."""
    at: dict[str, int] = {}

    def stripe(s: State) -> "str | None":
        if s["stripe"]:
            return WAIT
        s["stripe"] = t
        return None

    def decide(s: State) -> "int | str | None":
        if s["cell"] == "A" and s["A"] == "filling":
            return WAIT
        found = s["cell"] == "A"
        s[f"{t}.flush"] = s["flush"]
        s[f"{t}.fixed"] = s["fixed"] if found else 0
        good = found and s["fixed"] >= s["flush"]
        if kind == "cas" and not (good and s["v1"] == 1):
            s[f"{t}.result"] = 0
            return at["unlock"]
        if kind == "delete" and not good:
            s[f"{t}.result"] = 0
            return at["unlock"]
        return None

    def take(s: State) -> "str | None":
        if s["flushing"]:
            return WAIT
        if kind != "delete":
            take_id(s, t, s[f"{t}.fixed"])
        return None

    def mark(s: State) -> "int | None":
        return None if kind == "delete" or s["flush"] == s[f"{t}.flush"] else at["decide"]

    def lock(s: State) -> "int | str | None":
        if not s[f"{t}.fixed"] or "blind_kill" in faults:
            return None
        if s["A"] == "filling":
            return WAIT
        if s["fixed"] != s[f"{t}.fixed"]:
            return at["decide"]
        s["A"] = "filling"
        return None

    def live(s: State) -> None:
        if kind != "delete":
            s["N"], s["N.fixed"], s["N.value"] = "live", s[f"{t}.id"], value

    def dead(s: State) -> None:
        if s[f"{t}.fixed"]:
            s["A"] = "dead"

    def cell(s: State) -> None:
        s["cell"] = "" if kind == "delete" else "N"
        s[f"{t}.result"] = 1

    def unlock(s: State) -> None:
        s["stripe"] = ""

    steps = [("stripe", stripe), ("decide", decide), ("id", take), ("mark", mark), ("lock", lock)]
    steps += [("live", live), ("dead", dead), ("cell", cell), ("unlock", unlock)]
    at |= numbered([*steps, ("answer", unlock)])
    return program(t, steps)


def flush(t: str) -> list[Step]:
    def begin(s: State) -> None:
        s["flushing"] = True

    def take(s: State) -> None:
        s[f"{t}.id"] = s["next"]
        s["next"] += CHUNK

    def publish(s: State) -> None:
        s["flush"] = s[f"{t}.id"]
        s["flushing"] = False

    return program(t, [("begin", begin), ("mark", take), ("publish", publish)])


def get_then_set(t: str, value: int, faults: tuple[str, ...] = ()) -> list[Step]:
    """A client's get, then its set of the same key, which is overwritten or stands for ever without an answer."""
    set_name = t + "'"

    def fixed(s: State) -> None:
        s[f"{t}.fixed"] = s["fixed"]

    def copy(s: State) -> "str | None":
        if s["A"] == "filling":
            return WAIT
        s[f"{t}.result"] = s["v1"] if s["A"] == "live" else 0
        return None

    def begin_set(s: State) -> None:
        s["history"] += (("i", set_name),)

    def store(s: State) -> None:
        if s["fixed"] != s[f"{t}.fixed"]:  # a mark may have failed its compare-and-swap
            s["history"] += (("r", set_name, 1),)

    early = [("fixed", fixed)] if "early_fixed" in faults else []
    late = [] if early else [("fixed", fixed)]
    steps = [
        *early,
        ("copy", copy),
        ("answer", answer(t, f"{t}.result")),
        ("begin", begin_set),
        *late,
        ("store", store),
    ]
    return program(t, steps, ends=False)


def crash(t: str, workers: Iterable[str], faults: tuple[str, ...] = ()) -> list[Step]:
    """A kill at any moment, the restart, and a get."""
    workers = list(workers)

    def kill(s: State) -> None:
        s["crashed"] = True

    def recover(s: State) -> None:
        if s["A"] == "filling":
            s["A"] = "live"
            records = [r for r in (s[f"{w}.record"] for w in workers) if r]
            if records and (max(records)[0] >= s["fixed"] or "any_record" in faults):
                newest = (min if "any_record" in faults else max)(records)
                if newest[0] < s["fixed"]:
                    s["broken"] = "the restart brings an older version back"
                s["fixed"], s["v1"] = newest
                s["v2"] = s["v1"]
        if s["v1"] != s["v2"] and s["A"] == "live":
            s["broken"] = "a torn value after the restart"
        found = [(s["fixed"], s["v1"])] if s["A"] == "live" else []
        found += [(s["N.fixed"], s["N.value"])] if s["N"] == "live" else []
        best = max(found, default=(0, 0))
        s["history"] += (("i", t),)
        s[f"{t}.result"] = best[1] if best[0] >= s["flush"] else 0

    return [named("kill", kill), named("recover", recover), answer(t, f"{t}.result")]
