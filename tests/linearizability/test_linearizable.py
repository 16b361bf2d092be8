"""Every history that concurrent clients record is linearizable, key by key, and where there are scans, group by group
of the keys that they show: over TCP and in process, with searches by the host and by a (simulated) device or by both,
calm, full, growing, while pages move and while items expire.

A run lasts a few seconds. TANDEM_LINEARIZABILITY_SECONDS makes each kind of history be recorded again and again, with
other seeds, for so long; TANDEM_LINEARIZABILITY_SEED is the first one's. With TANDEM_LINEARIZABILITY_GPU, a number, the
devices are TANDEM_LINEARIZABILITY_GPUS (default 1) GPUs from that one on.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from dataclasses import dataclass

import pytest

from linearizability.harness import SEED, Result, TandemServer, record_and_check, run_go

SECONDS = float(os.environ.get("TANDEM_LINEARIZABILITY_SECONDS", "0"))
GPU = os.environ.get("TANDEM_LINEARIZABILITY_GPU", "sim")
DEVICES = 2 if GPU == "sim" else int(os.environ.get("TANDEM_LINEARIZABILITY_GPUS", "1"))


@dataclass(frozen=True)
class Scenario:
    """What is recorded, and what must have happened for it to be worth its name."""

    memory_mib: int
    item_expected: int  # a large one makes a small index
    recorder: str
    may_vanish: bool = False
    may_refuse: bool = False
    expires: bool = False
    grows: bool = False
    moves: bool = False
    pause_us: int = 100  # in process


SCENARIOS = {
    "calm": Scenario(64, 256, "--operations 80000"),
    "eviction": Scenario(8, 256, "--operations 60000 --value-bytes 8000 --ballast-percent 40", may_vanish=True),
    "full": Scenario(8, 256, "--operations 20000 --value-bytes 8000 --ballast-percent 40", may_refuse=True),
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
    "touch": Scenario(64, 256, "--operations 60000 --ballast-percent 5 --touch-percent 40", pause_us=50),
    "flush": Scenario(64, 256, "--operations 60000 --flush-every 100 --ballast-percent 5", pause_us=50),
    # Of an index that does not grow, in place of growth: a few sets for all keys, which evict from each other all the
    # time while memory is left.
    "crowded": Scenario(64, 1 << 20, "--operations 60000 --ballast-percent 40", may_vanish=True),
}


@dataclass(frozen=True)
class Plan:
    """What searches."""

    server: str  # options of a server
    in_process: str  # of the recorder for a store in process
    tcp: str = ""  # and for a server


# Scans of hot keys that lie in several leaves of the tree: in process leaves are tiny; over TCP, where they have 512
# cells, many other keys lie between the hot ones.
SCANS = "--scan-percent 12 --hot-keys 6 --burst 3 --ballast-percent 60 --operations 30000"
# Hot keys stay so for as long as items live, and then fewer other keys will do.
SCANS_EXPIRY = f"{SCANS} --operations-a-key 3000 --ballast-percent 10"
HOST_SCAN_PLANS = ("scans-ordered", "scans-tree", "scans-api")
SCAN_PLANS = (*HOST_SCAN_PLANS, "scans-values")
HOST_PLANS = ("cpu", "slabs", "sets", "tree", "ordered", *HOST_SCAN_PLANS)
DEVICE_QUERIES_MIN = 4  # of bursts of up to six
ON_DEVICES = f"--gpu {GPU} --gpus {DEVICES}"
IN_PROCESS = f"--gpu {GPU} --devices {DEVICES}"
PLANS = {
    "cpu": Plan("--gpu off", "--plan cpu"),
    "slabs": Plan("--gpu off --preset cpu --index slab_list", "--plan cpu --index-kind slab_list"),
    "sets": Plan("--gpu off --preset memcachedgpu", "--plan cpu --index-kind set_associative"),
    # A device answers plain reads whole, and follows the sets. It searches for no other keys.
    "sets-values": Plan(f"--gpu {GPU} --preset memcachedgpu", ""),
    "tree": Plan("--gpu off --preset heterokv", "--plan cpu --index-kind hash_tree"),
    "ordered": Plan("--gpu off --preset cpu --ordered", "--plan cpu --ordered 1"),
    "scans-ordered": Plan("--gpu off --preset cpu --ordered", "--plan cpu --ordered 1 --leaf-cells 16"),
    "scans-tree": Plan("--gpu off --preset heterokv", "--plan cpu --index-kind hash_tree --leaf-cells 16"),
    "scans-api": Plan("", "--plan cpu --ordered 1"),
    # Points are read by a device, too, which is not told of the order.
    "scans-values": Plan(
        f"--gpu {GPU} --preset mirrored --gpu-values 16MiB --ordered",
        f"--plan values --gpu {GPU} --host-percent 40 --ordered 1 --leaf-cells 16",
    ),
    "mirrored": Plan(f"--gpu {GPU} --preset mirrored", f"--plan mirrored --gpu {GPU}"),
    # With copies of the items on one; and on two without, each with half the keys.
    "values": Plan(f"--gpu {GPU} --preset mirrored --gpu-values 16MiB", f"--plan values --gpu {GPU}"),
    "halves": Plan(f"{ON_DEVICES} --gpu-steal --preset mirrored", f"--plan mirrored {IN_PROCESS}"),
    # The same two, and the host has no index.
    "device": Plan(f"{ON_DEVICES} --preset mega-kv", f"--plan device {IN_PROCESS}"),
    # Hot keys turn hot and cold all the time, and the host answers them.
    "hot": Plan(f"{ON_DEVICES} --preset kvcg", f"--plan hot {IN_PROCESS} --host-percent 40"),
    # One alone, which locates the keys of text for the lane.
    "located-device": Plan(f"--gpu {GPU} --preset mega-kv", f"--plan device --gpu {GPU}"),
    # Batch by batch the host or a device, at the same time and for the same keys; over TCP, of batches with a control
    # command in the middle each a part.
    "mixed": Plan(
        f"--gpu {GPU} --preset auto --gpu-batch-min {DEVICE_QUERIES_MIN} --gpu-values 16MiB",
        f"--plan values --gpu {GPU} --host-percent 40 --operations 40000",
        f"--device-queries-min {DEVICE_QUERIES_MIN} --control-percent 2 --operations 40000",
    ),
    # Of batches that are large enough each a part, as workers keep the rest when the devices do not keep up.
    "stolen": Plan(
        f"{ON_DEVICES} --gpu-steal --preset mirrored",
        f"--plan mirrored {IN_PROCESS} --host-percent 5 --large-burst 200 --operations 40000",
        "--large-burst 200",
    ),
    # The host has no index to answer with: batches that are not handed over, and what follows a control command, are
    # searched on the device by a worker that waits for it.
    "mixed-device": Plan(
        f"{ON_DEVICES} --preset mega-kv",
        f"--plan device {IN_PROCESS} --host-percent 40 --operations 40000",
        "--control-percent 10 --operations 40000",
    ),
}
# In process the plan of each call, where the placement has more than one that is feasible (`tandem plans`).
HOST = "'CPU[RV PP MM IN KC RD WR SD]'"
FRONT = "'CPU[RV PP MM] GPU[S]{0:1} CPU[S]{1:} CPU[I D KC RD WR SD]'"
BATCH_PLANS = {
    "halves-host": f"--plan mirrored {IN_PROCESS} --batch-plan {HOST}",
    "values-front": f"--plan values --gpu {GPU} --batch-plan {FRONT} --large-burst 200 --operations 40000",
    # Each call's is drawn among all that are feasible, with and without a range.
    "halves-drawn": f"--plan mirrored {IN_PROCESS} --batch-plan drawn --large-burst 200 --operations 40000",
    "mixed-drawn": f"--plan values --gpu {GPU} --batch-plan drawn --host-percent 40 --operations 40000",
}
PLANS |= {name: Plan("", in_process) for name, in_process in BATCH_PLANS.items()}
if DEVICES == 1:  # one keeps up, and nothing is stolen from it
    del PLANS["stolen"]


def fits(plan: str, scenario: str) -> bool:
    """Whether the index of the plan grows, or keeps its size."""
    if plan == "scans-api" and scenario == "pagemoves":  # the public API moves no pages
        return False
    return scenario != ("growth" if plan.startswith("sets") else "crowded")


def is_recorded(over: str, plan: str) -> bool:
    return bool(PLANS[plan].server if over == "tcp" else PLANS[plan].in_process)


# Without a soak's time. A plan with copies of items also searches, so "values" stands for "mirrored", too.
SHORT = [
    (over, plan, scenario)
    for over in ("tcp", "embedded")
    for plan in ("cpu", "sets", "sets-values", "values", "device")
    for scenario in SCENARIOS
    if fits(plan, scenario) and is_recorded(over, plan)
]
SHORT += [(over, "slabs", scenario) for over in ("tcp", "embedded") for scenario in ("eviction", "growth", "expiry")]
SHORT += [(over, "tree", scenario) for over in ("tcp", "embedded") for scenario in ("eviction", "growth", "flush")]
SHORT += [(over, "ordered", scenario) for over in ("tcp", "embedded") for scenario in ("eviction", "growth", "expiry")]
SHORT += [
    (over, "scans-ordered", scenario)
    for over in ("tcp", "embedded")
    for scenario in ("calm", "eviction", "growth", "flush")
]
SHORT += [("embedded", "scans-ordered", "expiry")]
SHORT += [
    (over, "scans-tree", scenario) for over in ("tcp", "embedded") for scenario in ("eviction", "growth", "flush")
]
SHORT += [("embedded", "scans-api", scenario) for scenario in ("calm", "flush")]
SHORT += [("tcp", "scans-values", "calm"), ("embedded", "scans-values", "flush")]
SHORT += [("tcp", "mixed", scenario) for scenario in ("calm", "growth")]
SHORT += [("embedded", "mixed", scenario) for scenario in ("calm", "eviction", "flush")]
SHORT += [(over, "halves", scenario) for over in ("tcp", "embedded") for scenario in ("calm", "growth")]
SHORT += [("embedded", "stolen", "calm")] if DEVICES > 1 else []
SHORT += [(over, "mixed-device", "calm") for over in ("tcp", "embedded")]
SHORT += [("embedded", "hot", scenario) for scenario in SCENARIOS if fits("hot", scenario)]
SHORT += [("tcp", "hot", scenario) for scenario in ("calm", "eviction")]
SHORT += [("tcp", "located-device", scenario) for scenario in SCENARIOS if fits("located-device", scenario)]
SHORT += [("embedded", plan, "calm") for plan in BATCH_PLANS]
SHORT += [("embedded", "halves-drawn", scenario) for scenario in ("eviction", "growth", "flush")]
ALL = [("tcp", plan, scenario) for plan in PLANS if is_recorded("tcp", plan) for scenario in SCENARIOS]
ALL += [("embedded", plan, scenario) for plan in PLANS if is_recorded("embedded", plan) for scenario in SCENARIOS]
ALL = [(over, plan, scenario) for over, plan, scenario in ALL if fits(plan, scenario)]


def scans(plan: str, scenario: str) -> list[str]:
    if plan not in SCAN_PLANS:
        return []
    return (SCANS_EXPIRY if scenario == "expiry" else SCANS).split()


def record(over: str, plan: str, scenario: str, seed: int) -> Result:
    s = SCENARIOS[scenario]
    name = f"{over}-{plan}-{scenario}-{seed}"
    options = ["--seed", str(seed), "--clients", "5", *s.recorder.split(), "--may-vanish", str(int(s.may_vanish))]
    options += ["--may-refuse", str(int(s.may_refuse)), *scans(plan, scenario)]
    if over == "tcp":
        options += ["--abandon-per-mille", "4", *PLANS[plan].tcp.split()]
        memory = ["--memory", f"{s.memory_mib}MiB", "--item-expected", str(s.item_expected)]
        if s.may_refuse:
            memory += ["--no-evict"]
        server = TandemServer("--threads", "2", *memory, *PLANS[plan].server.split())
        try:
            return record_and_check(name, [*options, "--port", str(server.port)])
        finally:
            server.close()
    # The public API knows neither devices nor pages.
    api = "store" if plan in ("cpu", "scans-api") and not s.moves else "engine"
    memory = ["--memory-mib", str(s.memory_mib), "--item-expected", str(s.item_expected)]
    in_process = [*shlex.split(PLANS[plan].in_process), "--api", api, "--pause-us", str(s.pause_us)]
    return record_and_check(name, [*options, *memory, *in_process])


@pytest.mark.timeout(300 + 2 * SECONDS)
@pytest.mark.parametrize(("over", "plan", "scenario"), ALL if SECONDS else SHORT)
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
    counted = re.search(r"keys, (\d+) began .*?, (\d+) found", result.text)
    overlapping, expired = (int(n) for n in counted.groups())
    assert overlapping > facts["operations"] / 500, f"the clients were not concurrent: {result.text}"
    assert (facts["evictions"] > 0) == scenario.may_vanish, facts
    # The model allows what has no memory to be refused where items are evicted, too. It must stay a rare thing there.
    if scenario.may_refuse:
        assert facts["refused"] > 0, facts
    else:
        rare = facts["operations"] / 1000 if scenario.may_vanish else 0
        assert facts["refused"] <= rare, f"{facts}\n{result.text}"
    assert (facts["searched_batches"] > 0) == (plan not in (*HOST_PLANS, "halves-host")), facts
    # One device reads copies for what it answers whole; most items of small stores have none: they are too large.
    if over == "tcp" and plan == "sets-values" and scenario.memory_mib > 8:
        assert facts["image_hits"] > 0, facts
    # What has no answer says little: that is bursts with a connection that ended (0.4 %), and nothing else.
    assert (facts["unknown"] > 0) == (over == "tcp"), facts
    assert facts["unknown"] < facts["operations"] / 50, facts
    # A key's fingerprint is another's by chance once in 2^32 searches.
    assert facts["asked_again"] <= 1, facts
    assert (expired > 0) == scenario.expires, result.text
    scans = facts["scans_whole"] + facts["scans_cut"]
    assert (scans > 0) == (plan in SCAN_PLANS), facts
    assert facts["scans_whole"] >= scans / 2, facts  # the rest tell of a part of their range
    if plan == "halves-drawn":
        assert min(facts["device_operations"], facts["host_operations"]) > facts["operations"] / 10, facts
        assert facts["keys_answered_by_both"] > facts["hot_keys"] / 2, facts
    if plan == "hot" and over == "embedded":
        share = 200 if scenario.grows else 50  # one key of 20,000 is asked for less often, and less often sampled
        assert facts["hot_queries"] > facts["operations"] / share, facts
        assert min(facts["turned_hot"], facts["turned_cold"]) > 100, facts
    if plan.startswith("mixed"):
        check_mix(result, over, plan)
    if plan == "stolen" and over == "embedded":  # a server's workers need not be pressed
        assert facts["stolen"] > 0 and facts["device_operations"] > 0 and facts["keys_answered_by_both"] > 0, facts
    if (
        scenario.grows and "device" not in plan and plan != "hot"
    ):  # there the table has room for as many as fit the memory
        assert facts["index_bytes"] >= 4 * facts["index_bytes_before"], facts
    if scenario.moves:
        assert facts["pages_moved"] > 0, facts


def check_mix(result: Result, over: str, plan: str) -> None:
    """Host and devices each had a good part of the operations, and of those on the same keys."""
    facts = result.facts
    operations = facts["operations"]
    if over == "tcp" and plan == "mixed-device":  # every key, once or more often
        assert facts["handed_over"] > operations, facts
        return
    if over == "tcp":  # of batches: by the counters of the server; of keys: by the bursts that they were asked for in
        by_device, by_host = facts["handed_over"], operations - facts["handed_over"]
        share = 0.005  # where machines are busy bursts wait for each other, and their batches are large
    else:
        by_device, by_host = facts["device_operations"], facts["host_operations"]
        share = 0.1
    assert min(by_device, by_host) > share * operations, facts
    assert facts["keys_answered_by_both"] > facts["hot_keys"] / 2, facts


def test_the_checker_knows_good_histories_from_bad() -> None:
    """Its own tests: histories by hand, and what is shown of the bad ones."""
    assert "ok" in run_go("test", "-count=1", "./...")
