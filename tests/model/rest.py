"""Warm rest: a replica that rests, and comes back by what its writers have marked (docs/decisions/0057-warm-rest.md).
The key, its cells, items and steps are those of protocol.py; the log can be off, and so can the announcements of sets
in place.

step          code
------------  -----------------------------------------------------------------------------------------------------
mark on, off  ReplicaLog::start_marking(), stop_marking(); the replica no longer serves once it is on
reserve       ReplicaLog::reserve_slowly: a record if the log is on; whether the change is to be marked
mark          ReplicaLog::commit_slowly(): after the commit, the bytes of the bucket and of the item that its cell
              names; of a set in place without a stripe the item's alone (lane::may_rewrite, task::store_in_place)
log off       BasicReplica::settle(), after a last drain; then the scheduler ends the announcements of sets in place
log on        BasicReplica::step(), after the scheduler has begun them again
take          DirtyMap: a byte is exchanged with 0, then what it stands for is read and sent
overflow      a writer finds its ring full: the log is off; the return begins again, as writers have marked all along

`faults` leaves a rule out; test_rest.py asks that each of them brings a wrong answer back."""

from model.checker import WAIT, State, Step, answer, named
from model.protocol import follow, frames, initial, leave, rewriter, writer


def initial_rest(threads: list[str]) -> State:
    s = initial(threads)
    s |= {"on": True, "marking": False, "announced": True, "serves": True, "back": False, "returns": False}
    s |= {"dirty": frozenset(), "stamp": frozenset(), "swept": False}
    for t in threads:
        s |= {f"{t}.on": False, f"{t}.marks": False}
    return s


def resting_writer(t: str, kind: str, faults: tuple[str, ...] = ()) -> list[Step]:
    """A writer of protocol.py, or "rewrite", that announces and marks as the replica wants it."""
    steps = rewriter(t) if kind == "rewrite" else writer(t, kind)
    by_name = {step.__name__: step for step in steps}
    reserve, commit = by_name["reserve"], by_name["commit"]

    def mark(s: State) -> None:
        if s[f"{t}.marks"]:
            cells = {1, 2} if kind == "move" else {s[f"{t}.cell"]} - {0}
            s["dirty"] |= cells
            # Of a displacement, too: the last drain may have looked for the item where it no longer was.
            if kind != "move" or "moves_cells_alone" not in faults:
                s["dirty"] |= {s[f"c{cell}"] for cell in cells} - {""}

    def reserve_slowly(s: State) -> "int | str | None":
        s[f"{t}.on"], s[f"{t}.marks"] = s["on"], s["marking"]
        if "marks_early" in faults:
            mark(s)
        before = s["log"]
        result = reserve(s)
        if not s[f"{t}.on"]:
            s["log"] = before
        return result

    def commit_slowly(s: State) -> None:
        if s[f"{t}.on"]:
            commit(s)

    program: list[Step] = []
    for step in steps:
        if step is reserve:
            program.append(named("reserve", reserve_slowly))
        elif step is commit:
            # One step for both: between them the record is committed and the byte not set, and the epoch goes on.
            def book(s: State) -> None:
                commit_slowly(s)
                if "marks_early" not in faults:
                    mark(s)

            program.append(named("commit, mark", book))
        else:
            program.append(step)
    return program


def set_in_place(t: str, value: int = 2, faults: tuple[str, ...] = ()) -> list[Step]:
    """A set of A in place: announced, under the stripe, or without a stripe and marked."""
    announced = resting_writer(t, "rewrite", faults)

    def choose(s: State) -> int | None:
        s[f"{t}.marks"] = s["marking"]
        return None if s["announced"] else quiet

    def hold(s: State) -> "int | None":
        if s["A"] != "live":
            return end
        s["A"] = "rewritten"
        return None

    def write(s: State) -> None:
        s["vA"] = value
        s["nA"] += 1

    def live(s: State) -> None:
        s["A"] = "live"
        s[f"{t}.result"] = 1

    def mark(s: State) -> None:
        if s[f"{t}.marks"] and "unmarked" not in faults:
            s["dirty"] |= {"A"}

    rewrite = [named("hold", hold), named("write", write), named("live", live)]
    marked = [named("mark", mark), *rewrite] if "marks_before" in faults else [*rewrite, named("mark", mark)]
    # The announced one's own jump to its end, where A is gone, is one step short here.
    body = announced[2:-2]
    program = [announced[0], announced[1], named("choose", choose)]
    for step in body:

        def shifted(s: State, step: Step = step) -> "int | str | None":
            to = step(s)
            return end if isinstance(to, int) else to

        program.append(named(step.__name__, shifted))
    done = [answer(t, f"{t}.result"), leave(t)]
    program.append(named("announced", lambda s: end - 1))
    quiet = len(program)
    program += [*marked, *done]
    end = len(program) - 1
    return program


def answered_before(t: str) -> list[Step]:
    """A GET whose launch the replica answers while it serves; else it ends without an answer."""
    program = frames(t)
    drain = program[2]

    def while_it_serves(s: State) -> "int | str | None":
        if s["serves"]:
            return drain(s)
        s["active"] -= {t}
        return len(program)

    program[2] = named("drain", while_it_serves)
    return program


def answered_after(t: str) -> list[Step]:
    """A GET whose launch comes after the return."""
    program = frames(t)

    def once_it_is_back(s: State) -> str | None:
        return None if s["back"] else WAIT

    return [named("is back", once_it_is_back), *(_moved(step, 1) for step in program)]


def _moved(step: Step, by: int) -> Step:
    def moved(s: State) -> "int | str | None":
        to = step(s)
        return to + by if isinstance(to, int) else to

    return named(step.__name__, moved, local=step.local)


def overflow() -> list[Step]:
    def step(s: State) -> str | None:
        if not (s["on"] and s["returns"]):
            return WAIT
        s["on"] = False
        return None

    return [named("overflow", step)]


def rest_and_return(t: str, faults: tuple[str, ...] = ()) -> list[Step]:
    """The scheduler: the replica rests, comes back, and is compared with the table while nobody
    changes that."""

    def mark_on(s: State) -> None:
        s["marking"] = True
        s["serves"] = False

    def stamp(s: State) -> None:
        s["stamp"] = s["active"]

    def wait(s: State) -> str | None:
        return WAIT if s["stamp"] & s["active"] else None

    def log_off(s: State) -> None:
        s["on"] = False

    def quiet(s: State) -> None:
        s["announced"] = False

    def announce(s: State) -> None:
        s["announced"] = True

    def log_on(s: State) -> None:
        s["log"] = frozenset()
        s["committed"] = frozenset()
        s["on"] = s["returns"] = True

    def take(what: "int | str") -> list[Step]:
        def exchange(s: State) -> None:
            s["swept"] = what in s["dirty"]
            if "clear_late" not in faults:
                s["dirty"] -= {what}

        def send_cell(s: State) -> None:
            if s["swept"]:
                s[f"r{what}"] = s[f"c{what}"]

        def send_item(s: State) -> str | None:
            if not s["swept"]:
                return None
            if s[what] == "rewritten":
                return WAIT
            if s[what] == "live":
                s[f"i{what}"] = s[f"v{what}"]
                if what == "A":
                    s["jA"] = s["nA"]
            return None

        send = send_cell if isinstance(what, int) else send_item
        return [named(f"take({what})", exchange), named(f"send({what})", send)]

    def clear(s: State) -> None:
        if "clear_late" in faults:
            s["dirty"] = frozenset()

    def back(s: State) -> int | None:
        if not s["on"]:
            return again
        s["marking"] = s["returns"] = False
        s["serves"] = s["back"] = True
        return None

    def compare(s: State) -> str | None:
        if s["active"]:
            return WAIT
        noted = {cell for cell, _ in s["log"]}
        for cell in {1, 2} - noted:
            item = s[f"c{cell}"]
            if s[f"r{cell}"] != item:
                s["broken"] = "the replica is stale for ever"
            elif item and s[item] == "live" and s[f"i{item}"] not in (0, s[f"v{item}"]):
                s["broken"] = "an image is stale for ever"
        return None

    drain = follow(t, images=True)
    program = [named("mark on", mark_on)]
    if "log_off_early" not in faults:
        program += [named("stamp", stamp), named("wait", wait)]
    if "no_last_drain" not in faults:
        program += [_moved(step, len(program)) for step in drain]
    program += [named("log off", log_off), named("quiet", quiet), named("announce", announce)]
    again = len(program)
    program += [named("log on", log_on)]
    if "returns_at_once" not in faults:
        program += [named("stamp", stamp), named("wait", wait)]
    for what in (1, 2, "A", "N"):
        program += take(what)
    program += [named("clear", clear), *drain, named("mark off", back)]
    return [*program, named("compare", compare)]
