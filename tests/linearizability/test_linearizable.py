"""Every history that concurrent clients record is linearizable, key by key: over TCP and in process, with searches by
the host and by a (simulated) device, calm, full, growing, while pages move and while items expire.

A run lasts a few seconds. TANDEM_LINEARIZABILITY_SECONDS makes each kind of history be recorded again and again, with
other seeds, for so long; TANDEM_LINEARIZABILITY_SEED is the first one's.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

import pytest

from linearizability.harness import SEED, Result, TandemServer, record_and_check, run_go

SECONDS = float(os.environ.get("TANDEM_LINEARIZABILITY_SECONDS", "0"))


@dataclass(frozen=True)
class Scenario:
    """What is recorded, and what must have happened for it to be worth its name."""

    memory_mib: int
    item_expected: int  # a large one makes a small index
    recorder: str
    may_vanish: bool = False
    expires: bool = False
    grows: bool = False
    moves: bool = False
    pause_us: int = 100  # in process


SCENARIOS = {
    "calm": Scenario(64, 256, "--operations 80000"),
    "eviction": Scenario(8, 256, "--operations 60000 --value-bytes 8000 --ballast-percent 40", may_vanish=True),
    "growth": Scenario(64, 1 << 20, "--operations 80000 --ballast-percent 40", grows=True),
    "pagemoves": Scenario(
        24,
        256,
        "--operations 120000 --seconds 3 --value-bytes 4000 --value-sizes 2 --ballast-percent 30 --move-every-us 5000",
        may_vanish=True,
        moves=True,
    ),
    "expiry": Scenario(
        64,
        256,
        "--operations 100000 --seconds 3 --think-us 1500 --expiry-percent 40 --hot-keys 16 --operations-a-key 1200",
        expires=True,
        pause_us=500,
    ),
    "flush": Scenario(64, 256, "--operations 60000 --flush-every 100 --ballast-percent 5", pause_us=50),
}


# Who searches: the server's options, and the recorder's for a store in process.
PLANS = {
    "cpu": (["--gpu", "off"], ["--plan", "cpu"]),
    "mirrored": (["--gpu", "sim", "--preset", "mirrored"], ["--plan", "mirrored"]),
    # On two of them, each with half the keys; workers steal.
    "values": (
        ["--gpu", "sim", "--gpus", "2", "--gpu-steal", "--preset", "mirrored", "--gpu-values", "16MiB"],
        ["--plan", "values", "--devices", "2"],
    ),
    # The same two, and the host has no index.
    "device": (["--gpu", "sim", "--gpus", "2", "--preset", "mega-kv"], ["--plan", "device", "--devices", "2"]),
}


def record(over: str, plan: str, scenario: str, seed: int) -> Result:
    s = SCENARIOS[scenario]
    name = f"{over}-{plan}-{scenario}-{seed}"
    options = ["--seed", str(seed), "--clients", "5", *s.recorder.split(), "--may-vanish", str(int(s.may_vanish))]
    if over == "tcp":
        options += ["--abandon-per-mille", "4"]
        memory = ["--memory", f"{s.memory_mib}MiB", "--item-expected", str(s.item_expected)]
        server = TandemServer("--threads", "2", *memory, *PLANS[plan][0])
        try:
            return record_and_check(name, [*options, "--port", str(server.port)])
        finally:
            server.close()
    # The public API knows neither devices nor pages.
    api = "engine" if plan != "cpu" or s.moves else "store"
    memory = ["--memory-mib", str(s.memory_mib), "--item-expected", str(s.item_expected)]
    return record_and_check(name, [*options, *memory, *PLANS[plan][1], "--api", api, "--pause-us", str(s.pause_us)])


@pytest.mark.timeout(300 + 2 * SECONDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
# Who has copies of items also searches: without a soak's time that stands for both.
@pytest.mark.parametrize("plan", PLANS if SECONDS else ["cpu", "values", "device"])
@pytest.mark.parametrize("over", ["tcp", "embedded"])
def test_every_history_is_linearizable(over: str, plan: str, scenario: str) -> None:
    end = time.monotonic() + SECONDS
    seed = SEED
    while True:
        result = record(over, plan, scenario, seed)
        again = f"TANDEM_LINEARIZABILITY_SEED={seed} pytest tests/linearizability -k '{over}-{plan}-{scenario}'"
        assert result.code == 0, f"{result.text}\nagain: {again}"
        print(result.text.strip(), f"{result.facts['seconds']:.1f} s recorded")
        check_facts(result, over, plan, SCENARIOS[scenario])
        seed += 1
        if time.monotonic() > end:
            break


def check_facts(result: Result, over: str, plan: str, scenario: Scenario) -> None:
    facts = result.facts
    overlapping, expired = (int(n) for n in re.search(r"keys, (\d+) began .*?, (\d+) found", result.text).groups())
    assert overlapping > facts["operations"] / 500, f"the clients were not concurrent: {result.text}"
    assert (facts["evictions"] > 0) == scenario.may_vanish, facts
    assert (facts["searched_batches"] > 0) == (plan != "cpu"), facts
    if plan == "values" and not scenario.may_vanish:  # most items of the others have no copy: they are too large
        assert facts["image_hits"] > 0, facts
    if over == "tcp":
        assert facts["unknown"] > 0, facts
    assert (expired > 0) == scenario.expires, result.text
    if scenario.grows and plan != "device":  # there the table has room for as many as fit the memory
        assert facts["index_bytes"] >= 4 * facts["index_bytes_before"], facts
    if scenario.moves:
        assert facts["pages_moved"] > 0, facts


def test_the_checker_knows_good_histories_from_bad() -> None:
    """Its own tests: histories by hand, and what is shown of the bad ones."""
    assert "ok" in run_go("test", "-count=1", "./...")
