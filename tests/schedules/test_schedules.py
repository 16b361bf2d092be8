"""The store, the scheduler of a device and the (simulated) device: their threads take turns as a seed says. Every
history is linearizable, no thread waits for ever. Seeds that a test runs are always the same ones; with
TANDEM_SCHEDULES_SECONDS each kind goes on for so long, from TANDEM_SCHEDULES_SEED on.

`make soak-schedules`, and tests/reliability.md, say more.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT
from linearizability.harness import checker

OUT = ROOT / "build/schedules"
SECONDS = float(os.environ.get("TANDEM_SCHEDULES_SECONDS", "0"))
FIRST = int(os.environ.get("TANDEM_SCHEDULES_SEED", "1"))
SEEDS_A_RUN = 200  # in a soak: their histories are checked together
JOBS = os.cpu_count() or 1

BASE = "--clients 4 --memory-mib 64 --hot-keys 3 --pause-us 20 --operations 300"
# Scans of hot keys that lie in several tiny leaves.
SCANS = "--plan cpu --leaf-cells 16 --scan-percent 20 --hot-keys 5 --burst 3 --ballast-percent 40"
PLANS = {
    "cpu": "--plan cpu",
    "ordered": f"{SCANS} --ordered 1",
    "tree": f"{SCANS} --index-kind hash_tree",
    "slabs": "--plan cpu --index-kind slab_list",
    "mirrored": "--plan mirrored",
    # The device has copies of items.
    "values": "--plan values --values-mib 4 --operations 500",
    # The device alone has the index.
    "device": "--plan device",
    # A client's batches are searched by the host or the device, at the same time and for the same keys.
    "mixed": "--plan values --values-mib 4 --host-percent 40",
    # Of batches that are large enough each a part, as workers keep the rest.
    "stolen": "--plan mirrored --devices 2 --host-percent 5 --burst 240 --hot-keys 12 --operations 6000",
    # What is not handed over is searched on the device by a worker that waits for it.
    "mixed-device": "--plan device --host-percent 40",
    # Of values' feasible plans the rest (`tandem plans`), and any of them for each batch.
    "search": "--plan values --values-mib 4 --batch-plan 'CPU[RV PP MM] GPU[S] CPU[I D KC RD WR SD]'",
    "host": "--plan values --values-mib 4 --batch-plan 'CPU[RV PP MM IN KC RD WR SD]'",
    "drawn": "--plan values --values-mib 4 --batch-plan drawn --large-burst 200 --operations 500",
}
NO_DEVICE = ("cpu", "ordered", "tree", "slabs")


@dataclass(frozen=True)
class Kind:
    options: str
    seeds: dict[str, int]  # of a test without a soak's time, by plan
    happens: str = ""  # what must have happened for it to be worth its name
    on_devices: str = ""  # more options of plans with a device


KINDS = {
    "calm": Kind(
        "",
        {"cpu": 900, "mirrored": 100, "values": 16, "device": 80, "mixed": 20, "stolen": 6, "mixed-device": 20}
        | {"search": 10, "host": 10, "drawn": 8, "ordered": 80, "tree": 80, "slabs": 80},
    ),
    "flush": Kind(
        "--flush-every 15",
        {"cpu": 500, "mirrored": 50, "values": 8, "device": 50, "mixed": 10, "ordered": 60, "tree": 40},
    ),
    "growth": Kind(
        "--operations 1600 --item-expected 1048576 --ballast-percent 70",
        {"cpu": 120, "mirrored": 20, "values": 6, "mixed": 5, "slabs": 60},
        "index_growths",
    ),
    "eviction": Kind(
        "--operations 1500 --memory-mib 8 --value-bytes 8000 --ballast-percent 40 --may-vanish 1",
        {"cpu": 6, "mirrored": 5, "values": 4, "device": 4, "mixed": 3, "mixed-device": 2, "ordered": 4, "tree": 4}
        | {"slabs": 4},
        "evictions",
    ),
    # Without eviction: what has no room is refused, and what is there stays.
    "full": Kind(
        "--operations 1500 --memory-mib 8 --value-bytes 8000 --ballast-percent 40 --may-refuse 1",
        {"cpu": 6, "mirrored": 5, "values": 4, "device": 4, "mixed": 3, "mixed-device": 2},
        "refused",
    ),
    "pagemoves": Kind(
        "--operations 1000 --memory-mib 24 --value-bytes 16000 --value-sizes 2 --ballast-percent 30 --move-every-us 200"
        " --may-vanish 1",
        {"cpu": 100, "mirrored": 12, "values": 5, "device": 12, "mixed": 3},
        "pages_moved",
    ),
    "expiry": Kind(
        "--think-us 500000 --expiry-percent 40",
        {"cpu": 60, "mirrored": 12, "values": 5, "device": 12, "mixed": 5, "ordered": 20},
        "expired",
    ),
    # The process dies somewhere, also while it starts or ends, and another goes on with its memory file: what was
    # answered is there, and nothing else. A device takes millions of points to start: there it dies once it serves.
    "killed": Kind(
        "--memory-mib 32 --crash-within 40000 --flush-every 40",
        {"cpu": 120, "mirrored": 15, "values": 4, "device": 12},
        "deaths",
        "--crash-serving 1 --crash-within 100000",
    ),
    # Work of the device is refused, fails, takes long; it hangs for some time; seldom it is lost.
    "faults": Kind(
        "--fault-every-us 100",
        {"mirrored": 25, "values": 8, "device": 25, "mixed": 15, "stolen": 3, "mixed-device": 10, "drawn": 20},
        "devices_lost",
    ),
}


def program(name: str) -> Path:
    path = ROOT / "build/thread/test" / name
    if not os.access(path, os.X_OK):
        pytest.fail(f"no {path}: run scripts/sanitizer_build thread schedules canary_schedules", pytrace=False)
    return path


@dataclass
class Outcome:
    good: bool
    text: str  # what is wrong, and how to see it again
    facts: dict[str, int]
    again: str = ""  # the command that plays one seed again, as `text` has it
    played: Played | None = None  # the last seed


@dataclass
class Played:
    """One seed: by how many points, turns, and which, and what its clients saw."""

    turns: str
    history: list[str]


def played(stdout: str, history: Path, seed: int) -> Played:
    turns = re.findall(rf"^seed {seed}: .*$", stdout, re.MULTILINE)
    assert len(turns) == 1, turns
    lines = []
    with history.open() as file:
        for line in file:
            words = line.split(" ")
            if not line.startswith("{") and words[3].startswith(f"s{seed}."):
                # After a death real threads look: their times are their own.
                is_after = int(words[0]) % 1000 >= 900
                lines.append(" ".join(words[:4] + words[6:]) if is_after else line)
    return Played(turns[0], lines)


def again(name: str, options: str, seed: int | str, binary: str) -> str:
    """What a shell is told to play a seed again, and to have its history checked."""
    history = str(OUT / f"{name}.{seed}.history")
    play = [str(program(binary)), "--trace", str(seed), history, *shlex.split(options), "--name", name]
    return f"{shlex.join(play)} && {shlex.join([str(checker()), '-html', str(OUT), history])}"


def run_seeds(name: str, options: str, first: int, count: int, binary: str = "schedules") -> Outcome:
    """Plays the seeds, and has their histories checked."""
    OUT.mkdir(parents=True, exist_ok=True)
    history = OUT / f"{name}.history"
    command = [
        str(program(binary)),
        str(first),
        str(count),
        str(JOBS),
        str(history),
        *shlex.split(options),
        "--name",
        name,
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1200)

    def bad(text: str, seed: str, facts: dict[str, int]) -> Outcome:
        command = again(name, options, seed, binary)
        return Outcome(False, f"{text}again: {command}", facts, command)

    if run.returncode == 1:
        seed = re.search(r"SCHEDULE seed (\d+)", run.stderr)
        return bad(run.stderr, seed[1] if seed else "?", {})
    assert run.returncode == 0, f"{shlex.join(command)}: {run.returncode}\n{run.stdout}{run.stderr}"
    check = subprocess.run([str(checker()), "-html", str(OUT), str(history)], capture_output=True, text=True)
    assert check.returncode in (0, 1), check.stdout + check.stderr
    with history.open("rb") as file:
        file.seek(max(0, history.stat().st_size - 4096))
        facts = json.loads(file.read().splitlines()[-1])
    if check.returncode != 0:
        return bad(check.stdout, re.search(r"key s(\d+)\.", check.stdout)[1], facts)
    facts["expired"] = int(re.search(r"(\d+) found the item expired", check.stdout)[1])
    last = played(run.stdout, history, first + count - 1)
    history.unlink()
    return Outcome(True, check.stdout, facts, played=last)


def check_replay(name: str, options: str, seed: int, as_played: Played) -> None:
    """Had it failed among the rest, the command that is printed would have shown the same run."""
    command = again(name, options, seed, "schedules")
    run = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"{command}\n{run.stdout[-2000:]}{run.stderr}"
    history = OUT / f"{name}.{seed}.history"
    alone = played(run.stdout, history, seed)
    assert alone.turns == as_played.turns, command
    assert alone.history == as_played.history, command
    assert run.stdout.count("->") > 20, command  # its turns
    history.unlink()


@pytest.mark.timeout(1200 + 2 * SECONDS)
@pytest.mark.parametrize(("plan", "kind"), [(plan, kind) for kind in KINDS for plan in KINDS[kind].seeds])
def test_every_schedule_is_linearizable_and_ends(plan: str, kind: str) -> None:
    k = KINDS[kind]
    end = time.monotonic() + SECONDS
    first, count = FIRST, SEEDS_A_RUN if SECONDS else k.seeds[plan]
    total: Counter[str] = Counter()
    name, options = (
        f"{plan}-{kind}",
        f"{BASE} {PLANS[plan]} {k.options} {k.on_devices if plan not in NO_DEVICE else ''}",
    )
    while True:
        outcome = run_seeds(name, options, first, count)
        assert outcome.good, outcome.text
        check_replay(name, options, first + count - 1, outcome.played)
        total.update(outcome.facts)
        first += count
        if time.monotonic() >= end:
            break
    print(f"{name}: {json.dumps(total)}")
    # The counters of a process go with it, the answers of its clients do not.
    searched = "device_operations" if kind == "killed" else "searched_batches"
    assert (total[searched] > 0) == (plan not in ("host", *NO_DEVICE)), total
    assert not k.happens or total[k.happens] > 0, total
    assert kind != "killed" or total["found_again"] > 10 * total["deaths"], total
    # A key's fingerprint is another's by chance once in 2^32 searches.
    assert total["asked_again"] <= 1, total
    # The model allows what has no memory to be refused where items are evicted, too. It must stay a rare thing there.
    assert kind == "full" or total["refused"] <= total["operations"] / 1000, total
    if plan not in ("mixed", "mixed-device", "stolen", "drawn"):
        return
    shares = total["host_operations"], total["device_operations"]
    # Devices that fail, and indexes that grow, leave more to the host.
    assert min(shares) > total["operations"] / (5 if kind == "calm" else 20), total
    assert total["keys_answered_by_both"] > 0, total
    assert plan != "stolen" or total["stolen"] > 0, total


def test_the_simulation_finds_what_it_is_for() -> None:
    """Programs of a few lines: races, deadlocks and lost wake-ups are found, and time passes as it should."""
    run = subprocess.run([str(program("schedules")), "--self-test"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("ok ") >= 10, run.stdout


CANARIES = {
    # Two instructions long: it shows if a process dies while a thread is between them.
    "dead_first": f"{BASE} --plan cpu --memory-mib 32 --clients 8 --hot-keys 4 --operations-a-key 1000 --burst 3"
    " --ballast-percent 0 --crash-serving 1 --crash-within 20000",
    # Sets in place (docs/decisions/0026): a version overlooked, an item killed under its writer's hands, a get that
    # returns what a later set of its strip wrote, a value torn by the end of the process.
    # Without flags and times to live: versions must have equal state words for it to matter.
    "stale_fixed": f"{BASE} --plan cpu --operations 1000 --operations-a-key 1000 --hot-keys 2 --ballast-percent 0"
    " --details 0 --clients 8 --rewrite-percent 100",
    "blind_kill": f"{BASE} --plan cpu --operations 1000 --operations-a-key 1000 --hot-keys 2 --ballast-percent 0",
    # Without flags and times to live, most sets rewrite an item.
    "no_redo": f"{BASE} --plan cpu --memory-mib 32 --clients 8 --hot-keys 4 --operations-a-key 1000 --burst 3"
    " --ballast-percent 0 --details 0 --rewrite-percent 100 --crash-serving 1 --crash-within 20000",
    "early_reuse": f"{BASE} --plan cpu --operations 3000 --pause-us 200 --operations-a-key 1000 --value-bytes 6000",
    "drop_displacement:3": f"{BASE} --plan cpu --operations 1000 --item-expected 1048576 --ballast-percent 80",
    # Scans that leave out a second look (docs/decisions/0039, steps 4 to 6), and a change of which they learn late.
    "scan_items_once": f"{BASE} {PLANS['ordered']} --operations-a-key 1000 --hot-keys 2 --ballast-percent 0"
    " --scan-percent 40 --rewrite-percent 100",
    "scan_leaves_once": f"{BASE} {PLANS['ordered']}",
    "scan_mark_once": f"{BASE} {PLANS['ordered']} --flush-every 15",
    "late_order": f"{BASE} {PLANS['ordered']}",
}


def violation(text: str) -> list[str]:
    """The key, and the operations that have no order; without times, since those after a death are real."""
    found = re.search(r"^VIOLATION \S+ (key \S+),.*\n((?:.*\n)*?)all of the key's operations", text, re.MULTILINE)
    assert found, text[-2000:]
    return [found[1], *(re.sub(r"^ +\S+ to +(\S+ us|no answer)", "", line) for line in found[2].splitlines())]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("canary", CANARIES)
def test_planted_bug_is_found(canary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = canary.split(":")[0]
    clean = run_seeds(f"without-{name}", CANARIES[canary], 1, 10, "canary_schedules")
    assert clean.good, clean.text
    monkeypatch.setenv("TANDEM_CANARY", canary)
    at_once = 100 if name in ("dead_first", "no_redo") else 10
    for first in range(1, 20 * at_once, at_once):
        outcome = run_seeds(f"canary-{name}", CANARIES[canary], first, at_once, "canary_schedules")
        if not outcome.good:
            print(f"{canary}: found in the seeds from {first} to {first + at_once - 1}\n{outcome.text}")
            replay = subprocess.run(outcome.again, shell=True, capture_output=True, text=True, timeout=300)
            # The store's own check may end the process before a client can see the bug.
            if failed := re.search(r"^tandem: assertion failed: .*$", outcome.text, re.MULTILINE):
                assert failed[0] in replay.stdout + replay.stderr, replay.stdout[-2000:] + replay.stderr
                return
            assert "VIOLATION" in outcome.text, outcome.text
            assert replay.returncode == 1, replay.stdout[-2000:] + replay.stderr
            assert violation(replay.stdout) == violation(outcome.text), replay.stdout[-2000:]
            return
    pytest.fail(f"{canary} was not found in {20 * at_once} seeds", pytrace=False)


@pytest.mark.parametrize("plan", PLANS)
def test_a_seed_is_always_the_same_schedule(plan: str) -> None:
    OUT.mkdir(parents=True, exist_ok=True)

    def trace(seed: int) -> tuple[str, str]:
        history = OUT / f"trace-{plan}"
        words = [
            str(program("schedules")),
            "--trace",
            str(seed),
            str(history),
            *BASE.split(),
            *shlex.split(PLANS[plan]),
        ]
        run = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr
        return run.stdout, history.read_text()

    once, again, other = trace(5), trace(5), trace(6)
    assert once == again
    assert len(once[0].splitlines()) > 20
    assert once[0] != other[0]
