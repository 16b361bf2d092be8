"""The hot table and its log: keys that turn hot and cold beside a table that a device alone has. Two keys, 1 and 2, of
one signature: they share a stripe, a cell of the hot table and, at most, one cell of the device's table.

A slot of the heap is (key, value) while its item is live and (key, 0) when that is dead. A has key 1's item at first,
B key 2's; N and M are for key 1's writers, P and Q for key 2's. `hot` is the hot table's cell: a slot, TOMB (location
0: its key is known to be absent) or "" (cold). `from`, the log, is the slot that the device's cell names when all that
is queued is done. `records` are those that are linked in the overlay: (slot, "", "refused" or "resident"). `queue` is
the changes that are in no group yet, (from, to), and `unsafe` those groups that are complete and not safe.

step       code
---------  --------------------------------------------------------------------------------------------------------
begin      the epoch, then the hot table: what it names is the query's candidate, and no device is asked
launch     a device's search: the candidate is what its cell of the signature names, whosever that is
settle     task KC: the candidate's state word and key
hot        Index::find: the stripe's word, then the hot table's cell and its item
records    Index::find: the records (Overlay::find)
confirm    Index::find: the stripe's word again
change     under the stripe: Guard::find_elsewhere, then the new item is live and the old one dead
publish    Guard::put_elsewhere, erase: the hot table's cell, or Overlay::put, erase; then the stripe is free
promote    under the stripe: the cell, and `from`; by a thread that has searched for the key
demote     under the stripe: where the cell differs from `from`, Overlay::put or erase; then there is no cell
replay     the same, but the cell stays and `from` becomes what it says
cut        Overlay::begin_group, take
apply      change_table (src/index/cuckoo/table_kernels.hpp); Overlay::failed, complete; displaced slots are retired
safe       Overlay::oldest_is_safe; release of the group's records, under the stripe
allocate   the heap hands a slot out again, when the epochs have ended that were active as it was retired
lose       IndexPlacement::leave; rebuild: bring_back, when no epoch is active

What nobody can tell apart is one step: while the stripe is held others see what the items' states say, so that only
`change` and `publish` are two. A thread answers and ends its epoch with its last step: later would only allow more.

`faults` leaves a rule out; test_hot.py asks that each of them is found."""

from model.checker import WAIT, State, Step, named

TOMB = "tombstone"
SLOTS = "ABNMPQ"
Faults = tuple[str, ...]


def initial(threads: list[str], hot: str = "", second: str = "", absent: bool = False, full: bool = False) -> State:
    """hot: "" (cold), "clean", "dirty" (N has taken A's place) or TOMB. second: "resident" (key 2 has a record) or
    "table" (the device has key 2, and key 1 is absent). full: the device has room for no further cell."""
    absent = absent or second == "table"
    s: State = dict.fromkeys(SLOTS, (0, 0))
    s["A"] = (0, 0) if absent else (1, 0) if hot in ("dirty", TOMB) else (1, 1)
    s["N"] = (1, 1) if hot == "dirty" else (0, 0)
    s["B"] = (2, 1) if second else (0, 0)
    s |= {"hot": {"": "", "clean": "A", "dirty": "N", TOMB: TOMB}[hot], "from": "A" if hot else ""}
    s |= {"records": (("B", "resident"),) if second == "resident" else (), "queue": (), "groups": (), "unsafe": ()}
    s |= {"table": frozenset({"B"} if second == "table" else () if absent else {"A"}), "full": full}
    s |= {"place": "device", "host": (), "lock": False, "sure": frozenset()}
    s |= {"active": frozenset(), "retired": frozenset(), "broken": "", "history": ()}
    for t in threads:
        s |= {f"{t}.seen": "", f"{t}.item": "", f"{t}.how": "", f"{t}.result": 0}
    return s


# --- epochs, slots, the stripe


def is_live(s: State, slot: str, key: int) -> bool:
    return slot not in ("", TOMB) and s[slot][0] == key and s[slot][1] != 0


def live_item(s: State, slots: "list[str] | tuple[str, ...]", key: int) -> str:
    return next((slot for slot in slots if is_live(s, slot, key)), "")


def value_of(s: State, item: str) -> int:
    return s[item][1] if item else 0


def enter(s: State, t: str) -> "str | None":
    if s["place"] == "closed":
        return WAIT
    s["active"] |= {t}
    return None


def leave(s: State, t: str) -> None:
    """What waits for the thread's epoch no longer does."""
    s["active"] -= {t}
    s["retired"] = frozenset((slot, threads - {t}) for slot, threads in s["retired"])
    s["unsafe"] = tuple((threads - {t}, slots) for threads, slots in s["unsafe"])


def answer(s: State, t: str, result: int) -> None:
    s["history"] += (("r", t, result),)
    s[f"{t}.seen"] = s[f"{t}.item"] = s[f"{t}.how"] = ""
    s[f"{t}.result"] = 0
    s["sure"] -= {t}
    leave(s, t)


def retire(s: State, slot: str) -> None:
    if any(slot == other for other, _ in s["retired"]):
        s["broken"] = "a slot is retired twice"
    s["retired"] |= {(slot, s["active"])}


def displaced(s: State) -> set[str]:
    """The slots that are retired when the device has their change."""
    return {old for changes in (s["queue"], *s["groups"]) for old, _ in changes} - {""}


def unlock(s: State) -> None:
    """Each dead item's slot is to be retired once: it has been, or its change or the hot table holds it."""
    s["lock"] = False
    s["sure"] = frozenset()
    kept = {slot for slot, _ in s["retired"]} | displaced(s) | {s["from"]}
    if any(s[slot][0] and not s[slot][1] and slot not in kept for slot in SLOTS):
        s["broken"] = "a slot is lost"


# --- the overlay and the hot table, under the stripe


def put(s: State, old: str, to: str, resident: bool = False, detaches: bool = True) -> None:
    """Overlay::put; erase, where nothing takes the place."""
    if detaches:
        s["records"] = tuple(record for record in s["records"] if record[0] != old)
        s["queue"] = tuple((before, "" if after == old else after) for before, after in s["queue"])
    if to:
        s["records"] = ((to, "resident" if resident else ""), *s["records"])
    if old or not resident:
        s["queue"] += ((old, "" if resident else to),)


def find_locked(s: State, key: int, seen: str, faults: Faults = ()) -> tuple[str, str]:
    """The key's live item, and where its next one goes: "cell" (of the hot table), "record" or "resident"."""
    hot = s["hot"]
    records = [slot for slot, _ in s["records"]]
    item = live_item(s, [hot, *records, seen], key)
    if item and item == hot:
        return item, "cell"
    if hot == TOMB and not item and ("adopts" in faults or not s["from"] or s[s["from"]][0] == key):
        return "", "cell"
    clash = hot != "" and "hot_clash_unseen" not in faults
    clash = clash or any(s[slot][0] not in (0, key) for slot in records)
    clash = clash or (seen not in ("", TOMB) and s[seen][0] != key and s[seen][1] != 0)
    return item, "resident" if clash else "record"


def put_hot(s: State, item: str, slot: str, faults: Faults = ()) -> None:
    """No record: the device learns of it at the key's demotion. The slot at `from` is held, because the device names
    it; only the hot table has named another one."""
    if item and (item != s["from"] or "held_retired" in faults):
        retire(s, item)
    s["hot"] = slot or TOMB
    if not slot and "no_tombstone" in faults:
        retire(s, s["from"])
        s["hot"] = s["from"] = ""


# --- queries


def look_at_hot(s: State, t: str, hot_next: int) -> "int | None":
    if not s["hot"]:
        return None
    s[f"{t}.seen"] = s["hot"]
    return hot_next


def begin(t: str, hot_next: int, host_next: int) -> Step:
    def step(s: State) -> "int | str | None":
        if enter(s, t) is WAIT:
            return WAIT
        if ("i", t) not in s["history"]:
            s["history"] += (("i", t),)
        return host_next if s["place"] == "host" else look_at_hot(s, t, hot_next)

    return named("begin", step)


def begin_after_routing(t: str, hot_next: int) -> list[Step]:
    """What begin() must not be: the hot table is looked at before the epoch."""

    def route(s: State) -> None:
        s["history"] += (("i", t),)
        look_at_hot(s, t, 0)

    def late(s: State) -> "int | str | None":
        return enter(s, t) or (hot_next if s[f"{t}.seen"] else None)

    return [named("route", route), named("enter", late)]


def launch(t: str) -> Step:
    """Where the device is lost, the query begins again."""

    def step(s: State) -> "int | None":
        if s["place"] != "device":
            leave(s, t)
            return 0
        s[f"{t}.seen"] = next(iter(s["table"]), "")
        return None

    return named("launch", step)


def reader(t: str, key: int = 1, faults: Faults = ()) -> list[Step]:
    def look_at(s: State, slots: list[str]) -> "int | None":
        item = live_item(s, slots, key)
        if not item:
            return None
        answer(s, t, value_of(s, item))
        return end

    def settle(s: State) -> "int | None":
        if "trusts_hot" in faults and s["hot"] and s["hot"] == s[f"{t}.seen"]:
            answer(s, t, value_of(s, live_item(s, [s["hot"]], key)))
            return end
        return look_at(s, [s[f"{t}.seen"]])

    def hot(s: State) -> "int | None":
        if not s["lock"]:
            s["sure"] |= {t}
        return look_at(s, [s["hot"]])

    def records(s: State) -> "int | None":
        return look_at(s, [slot for slot, _ in s["records"]])

    def confirm(s: State) -> int:
        if "no_confirm" not in faults and (s["lock"] or t not in s["sure"]):
            return again
        answer(s, t, 0)
        return end

    def on_host(s: State) -> None:
        answer(s, t, value_of(s, live_item(s, s["host"], key)))

    steps = [launch(t), named("settle", settle), named("hot", hot), named("records", records)]
    steps += [named("confirm", confirm), named("on host", on_host)]
    first = begin_after_routing(t, 3) if "routes_early" in faults else [begin(t, 2, 6)]
    again = len(first) + 2
    end = len(first) + len(steps)
    return [*first, *steps]


def writer(t: str, kind: str, slot: str = "", value: int = 0, key: int = 1, faults: Faults = ()) -> list[Step]:
    """kind: set, delete, or exchange, which returns what it has replaced."""

    def result(s: State, item: str) -> int:
        return {"set": 1, "delete": 1 if item else 0, "exchange": value_of(s, item)}[kind]

    def replace(s: State, item: str) -> None:
        if item:
            s[item] = (key, 0)
        if slot:
            s[slot] = (key, value)
        if sum(is_live(s, other, key) for other in SLOTS) > 1:
            s["broken"] = "two live items of a key"

    def old_value(s: State) -> None:
        s[f"{t}.result"] = result(s, find_locked(s, key, s[f"{t}.seen"])[0])

    def change(s: State) -> "str | None":
        if s["lock"]:
            return WAIT
        s["lock"] = True
        seen = "" if "no_candidate" in faults else s[f"{t}.seen"]
        s[f"{t}.item"], s[f"{t}.how"] = find_locked(s, key, seen, faults)
        if "old_outside" not in faults:
            s[f"{t}.result"] = result(s, s[f"{t}.item"])
        replace(s, s[f"{t}.item"])
        return None

    def publish(s: State) -> int:
        item, how = s[f"{t}.item"], s[f"{t}.how"]
        if how == "cell" and "writes_past_hot" not in faults:
            put_hot(s, item, slot, faults)
        elif item or slot:
            put(s, item, slot, how == "resident")
        unlock(s)
        answer(s, t, s[f"{t}.result"])
        return end

    def on_host(s: State) -> None:
        item = live_item(s, s["host"], key)
        returned = result(s, item)
        replace(s, item)
        if item:
            retire(s, item)
        s["host"] = tuple(sorted({*s["host"], slot} - {item, ""}))
        answer(s, t, returned)

    steps = [launch(t)]
    if "old_outside" in faults:
        steps.append(named("old value", old_value))
    steps += [named("change", change), named("publish", publish), named("on host", on_host)]
    end = 1 + len(steps)
    return [begin(t, 2, end - 1), *steps]


# --- promotion and demotion


def promote(t: str, key: int = 1, faults: Faults = ()) -> list[Step]:
    """Not of a resident key. A record that is pending is left alone: the device will name its slot."""

    def start(s: State) -> "int | str | None":
        return end if s["place"] != "device" or s["hot"] else enter(s, t)

    def read(s: State) -> None:
        s[f"{t}.item"] = find_locked(s, key, s[f"{t}.seen"])[0]

    def place(s: State) -> "str | None":
        if s["lock"]:
            return WAIT
        if "populates" not in faults:
            read(s)
        item = s[f"{t}.item"]
        resident = (item, "resident") in s["records"] and "promotes_resident" not in faults
        if item and not s["hot"] and not resident:
            s["hot"] = s["from"] = item
        s[f"{t}.seen"] = s[f"{t}.item"] = ""
        unlock(s)
        leave(s, t)
        return None

    steps = [named("begin", start), launch(t)]
    if "populates" in faults:  # the paper's: a miss fills the cache when its answer has come back
        steps.append(named("read", read))
    steps.append(named("promote", place))
    end = len(steps)
    return steps


def demote(replay: bool = False, faults: Faults = ()) -> list[Step]:
    def step(s: State) -> "str | None":
        if s["lock"]:
            return WAIT
        hot, old = s["hot"], s["from"]
        if not hot:
            return None
        to = "" if hot == TOMB else hot
        if "no_replay" in faults:
            if old not in (to, ""):
                retire(s, old)
        elif to != old:
            put(s, old, to, not old and "queues_new" not in faults, "no_detach" not in faults)
        s["hot"], s["from"] = (hot, to) if replay else ("", "")
        unlock(s)
        return None

    return [named("replay" if replay else "demote", step)]


# --- the device and its scheduler


def device(groups: int = 1, faults: Faults = ()) -> list[Step]:
    """Groups of changes. A group's records go when the batches have ended that were in flight at its completion."""

    def cut(s: State) -> None:
        s["groups"] += (s["queue"],)
        s["queue"] = ()

    def apply(s: State) -> None:
        if not s["groups"] or s["place"] != "device":
            return
        later = "unordered" in faults and len(s["groups"]) == 2
        changes = s["groups"][1 if later else 0]
        s["groups"] = s["groups"][:1] if later else s["groups"][1:]
        refused = change_table(s, changes)
        s["records"] = tuple((slot, "refused" if slot in refused else flag) for slot, flag in s["records"])
        for old, _ in changes:
            if old:
                retire(s, old)
        active = frozenset() if "early_safe" in faults else s["active"]
        s["unsafe"] += ((active, tuple(to for _, to in changes if to)),)

    def safe(s: State) -> "str | None":
        if not s["unsafe"]:
            return None
        active, slots = s["unsafe"][0]
        if active or (slots and s["lock"]):
            return WAIT
        s["unsafe"] = s["unsafe"][1:]
        for slot in slots:
            release(s, slot, faults)
        return None

    one = [named("cut", cut), named("apply", apply), named("safe", safe)]
    return [step for step in one for _ in range(groups)] if "unordered" in faults else one * groups


def change_table(s: State, changes: tuple) -> set[str]:
    """Replaces and removes, then adds what it did not replace; returns those for which there was no room. Checks what
    the kernel requires, and that the table has one cell of a signature."""
    olds = [old for old, _ in changes if old]
    added = [to for _, to in changes if to]
    if len(set(olds)) != len(olds) or len(set(added)) != len(added) or set(olds) & set(added):
        s["broken"] = "a group has two changes of one slot"
    table = set(s["table"]) - set(olds) | {to for old, to in changes if to and old in s["table"]}
    new = {to for old, to in changes if to and old not in s["table"]}
    refused = new if s["full"] else set()
    table |= new - refused
    if len(table) > 1:
        s["broken"] = "the device has two cells of a signature"
    s["table"] = frozenset(table)
    return refused


def release(s: State, slot: str, faults: Faults) -> None:
    """Of a record that was not detached. One that was refused stays, as a resident one. A hot key's goes: then nothing
    holds the slot at `from`, and demotion makes the key resident."""
    record = next((record for record in s["records"] if record[0] == slot), None)
    if record is None:
        return
    s["records"] = tuple(other for other in s["records"] if other is not record)
    is_hot = s["from"] == slot and "keeps_refused" not in faults
    if record[1] and not is_hot:
        s["records"] += ((slot, "resident"),)
    elif record[1] and "refusal_ignored" not in faults:
        s["from"] = ""
        if not s[slot][1] and "hook_leaks" not in faults:
            retire(s, slot)
    unlock(s)


def room() -> list[Step]:
    """Another key's cell of the device's table is removed, or added."""

    def step(s: State) -> None:
        s["full"] = not s["full"]

    return [named("room", step)]


# --- slots that are handed out again, and the device's loss


def names(s: State, slot: str) -> str:
    """What still names the slot."""
    if slot in s["table"]:
        return "the device"
    if any(slot in change for changes in (s["queue"], *s["groups"]) for change in changes):
        return "a change"
    if slot in (s["hot"], s["from"]):
        return "the hot table"
    if any(slot == record[0] for record in s["records"]):
        return "a record"
    return "a query" if any(s[f"{t}.seen"] == slot for t in s["active"]) else ""


def reuses(program: list[Step], slot: str, faults: Faults = ()) -> list[Step]:
    """A writer that is given a slot in which another item was. "unchecked": the first wrong answer is looked for, not
    the first name of a slot that has been given away."""

    def allocate(s: State) -> "str | None":
        if (slot, frozenset()) not in s["retired"]:
            return WAIT
        s["retired"] -= {(slot, frozenset())}
        s[slot] = (0, 0)
        if "unchecked" not in faults and names(s, slot):
            s["broken"] = f"{names(s, slot)} names a slot that is handed out"
        return None

    def moved(step: Step) -> Step:
        def run(s: State) -> "int | str | None":
            to = step(s)
            return to + 1 if isinstance(to, int) else to

        return named(step.__name__, run)

    return [named("allocate", allocate), *(moved(step) for step in program)]


def lose(faults: Faults = ()) -> list[Step]:
    """The heap's live items make the host's index. The hot table is emptied; what was held is retired."""

    def close(s: State) -> None:
        s["place"] = "closed"

    def rebuild(s: State) -> "str | None":
        if s["active"] or s["lock"]:
            return WAIT
        known = s["table"] | {slot for slot, _ in s["records"]}
        s["host"] = tuple(slot for slot in SLOTS if s[slot][1] and ("index_alone" not in faults or slot in known))
        held = {s["from"]} - {s["hot"], ""} if "loss_leaks" not in faults else set()
        for slot in displaced(s) | held:
            retire(s, slot)
        s |= {"hot": "", "from": "", "records": (), "queue": (), "groups": (), "unsafe": (), "table": frozenset()}
        s["place"] = "host"
        unlock(s)
        return None

    return [named("lose", close), named("rebuild", rebuild)]
