"""The write protocol of one key, as built, with a replica that follows it (docs/decisions/0002-index.md).

The key has two cells, c1 and c2, one in each of its buckets. Items are letters: A is there at first and holds 1, N is a
writer's and holds 2. vA and vN are their values: a set in place changes the one of A.

step          code
------------  -----------------------------------------------------------------------------------------------------
lock          StripeLock's constructor; the look-up under it is Guard::find (src/index/cuckoo/guard.cpp)
reserve       ChangeLog::reserve, from Guard::reserve, Logged (src/index/change_log.hpp)
live, dead    Guard::put: state_word.store(live), then kill(old); Guard::erase: kill(old)
cell          write_cell, or the compare-and-swap of Index::add_cell
copy, clear   Index::move_cell (src/index/cuckoo/make_room.cpp)
commit        ChangeLog::commit
launch        ChangeLog::launch, read by Guard's destructor or by move_cell after the commit
unlock        StripeLock::unlock_changed: launch stamp, next version and the free lock in one store
retire        Heap::retire, by the caller after the Guard has gone
strip         Index::search: both cells read without any order
compare       task KC: the candidate's state word, then its key
word, look    Index::find: the stripe's word, each candidate cell and its item's state
confirm       Index::find: the stripe's word again
drain         the replica's: launch number + 1, the reserved cells noted, the committed ones forgotten
read, apply   the noted cells re-read, and stored into the replica
rewrite       try_store_announced (src/task/store_in_place.hpp): under the stripe, between reserve and commit, the item
              is locked, its value written, and the item unlocked. in_place.py has these steps one by one
image         the drain's: the item of a noted cell is copied with its state word (src/placement/mirrored/); the copy
              is of one version
publish       try_store_announced: the item's new version goes into the writer's ring of images before it is unlocked
take          the drain's: what each ring has published is noted, before any cell or item is read
store         the launch's first kernel: reads the noted images where they lie; one replaces an older version of the
              same item (store_rewrites). Then their places are free (release_rings)
refill        a set of another key puts its image where one of A lay
answer        a kernel's own, from the image (src/frames/frames-inl.hpp): the host looks at no cell, item or stripe
final         final_miss(), by the host when the launch is done
reuse         the heap hands A's slot out again once its epoch has passed (Heap::reclaim)

`faults` leaves a rule out; test_protocol.py asks that each of them brings a wrong answer back."""

from model.checker import WAIT, State, Step, answer, invoke, named


def initial(threads: list[str], c1: str = "", c2: str = "A") -> State:
    s: State = {
        "c1": c1,
        "c2": c2,
        "A": "live",
        "N": "filling",
        "vA": 1,
        "vN": 2,
        "lock": "",
        "version": 0,
        "changed_at": 0,
        # the replica and its log: (cell, writer)
        "r1": c1,
        "r2": c2,
        "log": frozenset(),
        "committed": frozenset(),
        "launch": 0,
        "busy": "",
        "noted": frozenset(),
        "p1": "",
        "p2": "",
        # its images, by item, and what a drain has read for them, by cell: the item's value if it is live, else 0
        "iA": 1,
        "iN": 0,
        "q1": 0,
        "q2": 0,
        # A's version, those of its image and of what a drain has read for it, the rings of images by writer: (version,
        # value), and which of them a drain has noted: (ring, version, value)
        "nA": 1,
        "jA": 1,
        "m1": 0,
        "m2": 0,
        "ring.y": (),
        "ring.z": (),
        "taken": (),
        # epochs
        "active": frozenset(),
        "retired": "",
        "waits_for": frozenset(),
        "reused": "",
        "broken": "",
        "history": (),
    }
    for t in threads:
        s |= {f"{t}.result": 0, f"{t}.cell": 0, f"{t}.old": "", f"{t}.seen": "", f"{t}.word": 0, f"{t}.launch": 0}
    return s


def enter(t: str) -> Step:
    def step(s: State) -> None:
        s["active"] |= {t}

    return named("enter", step)


def leave(t: str) -> Step:
    def step(s: State) -> None:
        s["active"] -= {t}

    return named("exit", step, local=True)


def touch(s: State, item: str) -> None:
    if item == s["reused"] != "":
        s["broken"] = "a reader touches an item whose slot was given to somebody else"


def writer(t: str, kind: str, faults: tuple[str, ...] = ()) -> list[Step]:
    """kind: set, add, delete, or move (a displacement of the key's cell to the other bucket)."""

    def lock(s: State) -> str | None:
        if "no_stripe" not in faults:
            if s["lock"]:
                return WAIT
            s["lock"] = t
        s[f"{t}.cell"] = 1 if s["c1"] else 2 if s["c2"] else 0
        return None

    def changes(s: State) -> bool:
        found = s[f"{t}.cell"] != 0
        return {"set": True, "add": not found, "delete": found, "move": found}[kind]

    def reserve(s: State) -> None:
        # An add reserves the cell that it is about to claim: both stand for it here, as in a displacement.
        if changes(s):
            cell = s[f"{t}.cell"]
            cells = {1, 2} if kind == "move" or cell == 0 else {cell}
            s["log"] |= {(c, t) for c in cells}

    def dead(s: State) -> None:
        if changes(s) and kind != "move" and s[f"{t}.cell"]:
            s[f"{t}.old"] = s[f"c{s[f'{t}.cell']}"]
            s[s[f"{t}.old"]] = "dead"

    def live(s: State) -> None:
        if changes(s) and kind in ("set", "add"):
            s["N"] = "live"

    def cell(s: State) -> None:
        at = s[f"{t}.cell"]
        if kind == "set" or (kind == "add" and not at):
            # A free cell of either bucket; with more than one adder each prefers another one.
            s[f"c{at or (1 if t < 'b' else 2)}"] = "N"
            s[f"{t}.result"] = 1
        elif kind == "delete" and at:
            s[f"c{at}"] = ""
            s[f"{t}.result"] = 1

    def copy(s: State) -> None:
        at = s[f"{t}.cell"]
        if at:
            s[f"c{3 - at}"] = s[f"c{at}"]

    def clear(s: State) -> None:
        at = s[f"{t}.cell"]
        if at:
            s[f"c{at}"] = ""

    def copy_late(s: State) -> None:
        at = s[f"{t}.cell"]
        if at:
            s[f"c{3 - at}"] = s[f"{t}.seen"]

    def clear_early(s: State) -> None:
        at = s[f"{t}.cell"]
        if at:
            s[f"{t}.seen"] = s[f"c{at}"]
            s[f"c{at}"] = ""

    def commit(s: State) -> None:
        s["committed"] |= {t}

    def launch(s: State) -> None:
        s[f"{t}.launch"] = s["launch"]

    def unlock(s: State) -> None:
        if changes(s) and "no_version" not in faults:
            s["version"] += 1
        if changes(s):
            s["changed_at"] = s[f"{t}.launch"]
        if s["lock"] == t:
            s["lock"] = ""

    def retire(s: State) -> None:
        if s[f"{t}.old"] == "A":
            s["retired"] = "A"
            s["waits_for"] = s["active"]

    def mark(name: str, step: Step) -> Step:
        return named(name, step)

    change = [mark("live", live), mark("dead", dead), mark("cell", cell)]
    if kind == "move":
        change = [mark("copy", copy), mark("clear", clear)]
        if "clear_first" in faults:
            change = [mark("clear", clear_early), mark("copy", copy_late)]
    book = [mark("commit", commit), mark("launch", launch)]
    body = [
        mark("lock", lock),
        mark("reserve", reserve),
        *change,
        *book,
        mark("unlock", unlock),
        mark("retire", retire),
    ]
    if "stamp_early" in faults:
        body = [body[0], body[1], mark("launch", launch), *change, mark("commit", commit), *body[-2:]]
    if "reserve_late" in faults:
        body = [body[0], *change, mark("retire", retire), mark("reserve", reserve), *book, mark("unlock", unlock)]
    if "retire_early" in faults:
        body = [
            body[0],
            body[1],
            mark("live", live),
            mark("dead", dead),
            mark("retire", retire),
            *change[2:],
            *book,
            mark("unlock", unlock),
        ]
    if kind == "move":
        return [enter(t), *body[:-1], leave(t)]
    return [enter(t), invoke(t), *body, answer(t, f"{t}.result"), leave(t)]


def rewriter(t: str, faults: tuple[str, ...] = (), value: int = 2) -> list[Step]:
    """A set of A in place where devices have copies of items. Where A is gone it ends without an answer, as a set that
    may have been done or not."""

    def lock(s: State) -> str | None:
        if s["lock"]:
            return WAIT
        s["lock"] = t
        s[f"{t}.cell"] = 1 if s["c1"] == "A" else 2 if s["c2"] == "A" else 0
        return None

    def reserve(s: State) -> int | None:
        if not s[f"{t}.cell"]:
            s["lock"] = ""
            return end
        if "unlogged" not in faults:
            s["log"] |= {(s[f"{t}.cell"], t)}
        return None

    def hold(s: State) -> None:
        s["A"] = "rewritten"

    def write(s: State) -> None:
        s["vA"] = value
        s["nA"] += 1

    def live(s: State) -> None:
        s["A"] = "live"
        s[f"{t}.result"] = 1

    def commit(s: State) -> None:
        s["committed"] |= {t}

    def launch(s: State) -> None:
        s[f"{t}.launch"] = s["launch"]

    def unlock(s: State) -> None:
        s["version"] += 1
        s["changed_at"] = s[f"{t}.launch"]
        s["lock"] = ""

    body = [("lock", lock), ("reserve", reserve), ("hold", hold), ("write", write), ("live", live)]
    if "commit_early" in faults:
        body.insert(2, ("commit", commit))
    else:
        body.append(("commit", commit))
    body += [("launch", launch), ("unlock", unlock)]
    steps = [enter(t), invoke(t), *(named(name, step) for name, step in body), answer(t, f"{t}.result"), leave(t)]
    end = len(steps) - 1
    return steps


def publisher(t: str, value: int, faults: tuple[str, ...] = ()) -> list[Step]:
    """A set of A in place that puts the item's image into its own ring, as rewriter() but for the log."""

    def lock(s: State) -> str | None:
        if s["lock"]:
            return WAIT
        s["lock"] = t
        s[f"{t}.cell"] = 1 if s["c1"] == "A" else 2 if s["c2"] == "A" else 0
        return None

    def hold(s: State) -> int | None:
        if not s[f"{t}.cell"]:
            s["lock"] = ""
            return end
        s["A"] = "rewritten"
        return None

    def write(s: State) -> None:
        s["vA"] = value
        s["nA"] += 1

    def publish(s: State) -> None:
        s[f"ring.{t}"] += ((s["nA"], value),)

    def live(s: State) -> None:
        s["A"] = "live"
        s[f"{t}.result"] = 1

    def launch(s: State) -> None:
        s[f"{t}.launch"] = s["launch"]

    def unlock(s: State) -> None:
        s["version"] += 1
        s["changed_at"] = s[f"{t}.launch"]
        s["lock"] = ""

    body = [("lock", lock), ("hold", hold), ("write", write), ("publish", publish), ("live", live)]
    if "publish_late" in faults:
        body = [*body[:3], ("live", live), ("publish", publish)]
    if "publish_unlocked" in faults:  # neither under the item's lock nor under the stripe
        body = [*body[:3], ("live", live), ("launch", launch), ("unlock", unlock), ("publish", publish)]
    else:
        body += [("launch", launch), ("unlock", unlock)]
    steps = [enter(t), invoke(t), *(named(name, step) for name, step in body), answer(t, f"{t}.result"), leave(t)]
    end = len(steps) - 1
    return steps


def refill(ring: str, faults: tuple[str, ...] = ()) -> list[Step]:
    """A set of another key by the ring's writer. Its image needs the place of what the ring has."""

    def step(s: State) -> str | None:
        if s[ring] or ("release_early" not in faults and any(image[0] == ring for image in s["taken"])):
            return WAIT
        s["taken"] = tuple(image for image in s["taken"] if image[0] != ring)
        return None

    return [named(f"refill({ring})", step)]


def find(t: str, base: int, done: int, faults: tuple[str, ...]) -> list[Step]:
    """Index::find, from step `base` of the program; goes to step `done` with the answer."""

    def word(s: State) -> None:
        s[f"{t}.word"] = (s["lock"] != "", s["version"])

    def look(cell: str) -> list[Step]:
        def load(s: State) -> None:
            s[f"{t}.seen"] = s[cell]

        def state(s: State) -> int | str | None:
            item = s[f"{t}.seen"]
            if item == "":
                return None
            touch(s, item)
            if s[item] == "rewritten":
                return WAIT
            if s[item] != "live":
                return None
            s[f"{t}.result"] = s[f"v{item}"]
            return done

        return [named(f"look({cell})", load), named(f"state({cell})", state)]

    def confirm(s: State) -> int | None:
        locked, version = s[f"{t}.word"]
        if "no_confirm" not in faults and (locked or s["lock"] or s["version"] != version):
            return base
        s[f"{t}.result"] = 0
        return done

    return [named("word", word), *look("c1"), *look("c2"), named("confirm", confirm)]


def reader(t: str, faults: tuple[str, ...] = (), strip: bool = False) -> list[Step]:
    """A GET on the host. The strip search before it is left out unless asked for: it can only answer sooner."""
    program = [enter(t), invoke(t)]
    if strip:
        base = len(program) + 3

        def load(cell: str) -> Step:
            def step(s: State) -> None:
                if s[f"{t}.seen"] == "":
                    s[f"{t}.seen"] = s[cell]

            return named(f"strip({cell})", step)

        def compare(s: State) -> int | None:
            item = s[f"{t}.seen"]
            if item == "":
                return None
            touch(s, item)
            if s[item] != "live":
                return None
            s[f"{t}.result"] = s[f"v{item}"]
            return base + 6

        program += [load("c1"), load("c2"), named("compare", compare)]
    end = [answer(t, f"{t}.result"), leave(t)]
    return [*program, *find(t, len(program), len(program) + 6, faults), *end]


def reader_that_leaves_early(t: str) -> list[Step]:
    """Ends its epoch when it has the location and reads the item afterwards, as if the epoch ended before WR."""

    def load(s: State) -> None:
        s[f"{t}.seen"] = s["c2"]

    def state(s: State) -> None:
        if s[f"{t}.seen"]:
            touch(s, s[f"{t}.seen"])

    return [enter(t), named("look(c2)", load), leave(t), named("read", state)]


def follow(t: str, faults: tuple[str, ...] = (), images: bool = False, rings: bool = False) -> list[Step]:
    """What a launch begins with: drain and apply."""

    def drain(s: State) -> str | None:
        if "unordered" not in faults:
            if s["busy"]:
                return WAIT
            s["busy"] = t
        s["launch"] += 1
        s[f"{t}.launch"] = s["launch"]
        s["noted"] = frozenset(cell for cell, _ in s["log"])
        forget = s["log"] if "forget_all" in faults else {(c, w) for c, w in s["log"] if w in s["committed"]}
        s["log"] -= forget
        return None

    def read(cell: int) -> Step:
        def step(s: State) -> None:
            s[f"p{cell}"] = s[f"c{cell}"]

        return named(f"read(c{cell})", step)

    def image(cell: int) -> Step:
        def step(s: State) -> str | None:
            item = s[f"p{cell}"]
            if item and cell in s["noted"]:
                touch(s, item)
                if s[item] == "rewritten":
                    return WAIT
                s[f"q{cell}"] = s[f"v{item}"] if s[item] == "live" else 0
                s[f"m{cell}"] = s["nA"] if item == "A" and s[item] == "live" else 0
            return None

        return named(f"image(c{cell})", step)

    def apply(cell: int) -> Step:
        def step(s: State) -> None:
            if cell in s["noted"]:
                s[f"r{cell}"] = s[f"p{cell}"]
                if images and s[f"p{cell}"]:
                    s[f"i{s[f'p{cell}']}"] = s[f"q{cell}"]
                    if s[f"p{cell}"] == "A":
                        s["jA"] = s[f"m{cell}"]
            if cell == 2:
                s["busy"] = ""

        return named(f"apply(c{cell})", step)

    def take(ring: str) -> Step:
        def step(s: State) -> None:
            s["taken"] += tuple((ring, *image) for image in s[ring])
            s[ring] = ()

        return named(f"take({ring})", step)

    def store(s: State) -> None:
        for _, version, value in s["taken"]:
            if version > s["jA"] or "any_version" in faults:
                s["iA"], s["jA"] = value, version
        s["taken"] = ()

    takes = [take("ring.y"), take("ring.z")] if rings else []
    stores = [named("store", store)] if rings else []
    reads = [read(1), image(1), read(2), image(2)] if images else [read(1), read(2)]
    if "take_late" in faults:
        return [named("drain", drain), *reads, *takes, *stores, apply(1), apply(2)]
    return [named("drain", drain), *takes, *reads, *stores, apply(1), apply(2)]


def kernel(t: str, cell: int) -> Step:
    def step(s: State) -> None:
        if s[f"{t}.seen"] == "":
            s[f"{t}.seen"] = s[f"r{cell}"]

    return named(f"search(r{cell})", step)


def is_final_miss(s: State, t: str) -> bool:
    return not s["lock"] and s["changed_at"] < s[f"{t}.launch"]


def device(
    t: str, faults: tuple[str, ...] = (), search: bool = True, images: bool = False, rings: bool = False
) -> list[Step]:
    """A launch: drain, apply, and the Search of one GET. A miss that is not final is searched again on the host."""
    program = [enter(t)] + ([invoke(t)] if search else [])
    program += follow(t, faults, images, rings)
    if not search:
        return [*program, leave(t)]
    base = len(program) + 3
    done = base + 6

    def compare(s: State) -> int | None:
        item = s[f"{t}.seen"]
        if item:
            touch(s, item)
            if s[item] == "live":
                s[f"{t}.result"] = s[f"v{item}"]
                return done
        elif "trust_miss" in faults or is_final_miss(s, t):
            s[f"{t}.result"] = 0
            return done
        return None

    program += [kernel(t, 1), kernel(t, 2), named("compare", compare)]
    return [*program, *find(t, base, done, faults), answer(t, f"{t}.result"), leave(t)]


def frames(t: str, faults: tuple[str, ...] = (), rings: bool = False) -> list[Step]:
    """A GET that its launch answers whole (docs/decisions/0035-frames.md). A hit is the image's, whatever has become of
    the item; the host confirms misses, and answers where the item has no image."""
    begin = [invoke(t), *follow(t, faults, images=True, rings=rings)]
    if "drain_early" in faults:
        begin = [*begin[1:], named("receive", lambda s: None), begin[0]]
    program = [enter(t), *begin, kernel(t, 1), kernel(t, 2)]
    base = len(program) + 2
    done = base + 6

    def image(s: State) -> int | None:
        item = s[f"{t}.seen"]
        if item and s[f"i{item}"]:
            s[f"{t}.result"] = s[f"i{item}"]
            return done
        return None

    def final(s: State) -> int | None:
        if not s[f"{t}.seen"] and ("trust_miss" in faults or is_final_miss(s, t)):
            s[f"{t}.result"] = 0
            return done
        return None

    program += [named("answer by image", image), named("final", final)]
    return [*program, *find(t, base, done, faults), answer(t, f"{t}.result"), leave(t)]


def frames_behind(t: str, first: str, faults: tuple[str, ...] = ()) -> list[Step]:
    """A GET behind a command of its key, `first`, in one connection (docs/decisions/0046-runs-as-strips.md). The launch
    has answered it; the host executes the command meanwhile, takes no answer behind it, and looks itself."""
    program = [enter(t), *follow(t, images=True), kernel(t, 1), kernel(t, 2)]

    def executed(s: State) -> str | None:
        return None if any(event[:2] == ("r", first) for event in s["history"]) else WAIT

    program += [named(f"executed({first})", executed), invoke(t)]
    base = len(program) + 1
    done = base + 6

    def take(s: State) -> int | None:
        item = s[f"{t}.seen"]
        if "run_before_set" in faults and item and s[f"i{item}"]:
            s[f"{t}.result"] = s[f"i{item}"]
            return done
        s[f"{t}.seen"] = ""
        return None

    program += [named("take", take)]
    return [*program, *find(t, base, done, faults), answer(t, f"{t}.result"), leave(t)]


def replica_check(launches: int) -> list[Step]:
    """After all threads: one more launch, then the replica equals the table."""

    def step(s: State) -> str | None:
        if s["launch"] < launches or s["active"] or s["busy"]:
            return WAIT
        for cell in (1, 2):
            noted = cell in {c for c, _ in s["log"]}
            if not noted and s[f"r{cell}"] != s[f"c{cell}"]:
                s["broken"] = "the replica is stale for ever: no record is left"
            item = s[f"c{cell}"]
            if s["ring.y"] or s["ring.z"]:
                continue
            if not noted and item and s[f"i{item}"] not in (0, s[f"v{item}"]):
                s["broken"] = "an image is stale for ever: no record is left"
        return None

    return [named("replica", step)]


def reuse() -> list[Step]:
    def step(s: State) -> str | None:
        if s["retired"] == "" or s["waits_for"] & s["active"]:
            return WAIT
        s["reused"] = s["retired"]
        return None

    return [named("reuse", step)]
