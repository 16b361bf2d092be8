"""`tandem bench engine` and `tandem bench paper` as commands: what they print and write, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import tandem_binary

EX_USAGE, EX_UNAVAILABLE = 64, 69
DEADLINE_S = 120

ENGINE = ["--keys", "500", "--threads", "1", "--batch", "64", "--ops", "3000", "--rounds", "2", "--no-cache-misses"]


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tandem_binary()), "bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def document(path: Path, *arguments: object) -> dict:
    run = bench(*arguments, "--json", path)
    assert run.returncode == 0, run.stderr
    return json.loads(path.read_text())


def measured(doc: dict, subject: str = "tandem") -> list[dict]:
    return [run for run in doc["runs"] if run["subject"] == subject and not run["cell"].startswith("load ")]


def test_getk_beside_get(tmp_path: Path) -> None:
    doc = document(tmp_path / "k.json", "engine", *ENGINE, "--workloads", "K8-G95-U", "--protocol", "meta", "--getk")
    for subject in ("tandem", "tandem getk", "tandem embedded", "tandem embedded getk"):
        assert len(measured(doc, subject)) == 2
        assert all(run["result"]["hits"] == run["result"]["gets"] for run in measured(doc, subject))
    assert measured(doc, "tandem getk")[0]["result"]["other_keys"] == 0
    pairs = {(c["subject"], c["base"]) for c in doc["comparisons"]}
    assert {("tandem getk", "tandem"), ("tandem embedded getk", "tandem embedded")} <= pairs
    assert " --getk " in doc["command"]
    run = bench("engine", *ENGINE, "--workloads", "K8-G95-U", "--getk")
    assert run.returncode == EX_USAGE
    assert "getk is a flag of the meta protocol" in run.stderr


def test_a_document_has_what_the_format_asks_for(tmp_path: Path) -> None:
    doc = document(tmp_path / "e.json", "engine", *ENGINE, "--workloads", "K8-G95-U,K16-G50-S")
    assert doc["format"] == "tandem-bench/1"
    assert doc["command"].startswith("tandem bench engine --workloads K8-G95-U,K16-G50-S ")
    assert doc["machine"]["memory_bytes"] > 0
    assert {run["subject"] for run in doc["runs"]} == {"tandem", "tandem embedded", "two-line loop", "copy loop"}
    for run in doc["runs"]:
        assert run["kind"] == "engine"
        assert run["command"].startswith("tandem bench engine ")
        assert {"cell", "round", "seed", "settings", "result"} <= run.keys()
        assert run["result"]["ops_per_s"] > 0
    for run in measured(doc):
        result = run["result"]
        assert result["gets"] + result["sets"] == result["ops"] == 3000
        assert result["hits"] == result["gets"]
        assert result["errors"] == {
            "wrong_values": 0,
            "wrong_replies": 0,
            "unexpected_misses": 0,
            "timeouts": 0,
            "connection": 0,
            "first": "",
        }
        assert run["settings"]["threads"] == 1
        assert run["settings"]["batch"] == 64
    for comparison in doc["comparisons"]:
        assert comparison["ratio"]["low"] <= comparison["ratio"]["median"] <= comparison["ratio"]["high"]
        assert comparison["rounds"] == 2


def test_the_command_of_a_run_repeats_it(tmp_path: Path) -> None:
    first = document(tmp_path / "1.json", "engine", *ENGINE, "--workloads", "K16-G50-S,K8-G95-U", "--seed", "7")
    last = measured(first)[-1]
    words = shlex.split(last["command"])
    assert words[:3] == ["tandem", "bench", "engine"]
    again = document(tmp_path / "2.json", *words[2:])
    assert again["command"] == last["command"]
    for key in ("gets", "sets", "hits", "bytes_sent", "bytes_received", "batches"):
        assert measured(again)[-1]["result"][key] == last["result"][key]
    assert measured(again)[-1]["settings"] == last["settings"]
    other = document(tmp_path / "3.json", *words[2:], "--seed", "8") if "--seed" not in words else None
    assert other is None or measured(other)[-1]["result"]["gets"] != last["result"]["gets"]


def test_another_seed_is_another_mix(tmp_path: Path) -> None:
    gets = {
        measured(document(tmp_path / "e.json", "engine", *ENGINE, "--workloads", "K8-G50-U", "--seed", seed))[0][
            "result"
        ]["gets"]
        for seed in (1, 2, 3)
    }
    assert len(gets) > 1


def test_the_table_goes_to_standard_output_or_out_of_the_documents_way() -> None:
    plain = bench("engine", *ENGINE, "--workloads", "K8-G95-U")
    assert plain.returncode == 0
    assert plain.stdout.startswith("| workload | batch | threads |")
    assert "| K8-G95-U | 64 | 1 |" in plain.stdout
    assert plain.stderr == ""
    both = bench("engine", *ENGINE, "--workloads", "K8-G95-U", "--json", "-")
    assert json.loads(both.stdout)["format"] == "tandem-bench/1"
    assert "| K8-G95-U | 64 | 1 |" in both.stderr
    quiet = bench("engine", *ENGINE, "--workloads", "K8-G95-U", "--json", "-", "--quiet")
    assert json.loads(quiet.stdout)["runs"]
    assert quiet.stderr == ""


def test_several_threads_are_compared_with_one() -> None:
    run = bench(
        "engine",
        "--keys",
        500,
        "--threads",
        "1,2",
        "--ops",
        2000,
        "--rounds",
        1,
        "--workloads",
        "K8-G100-U",
        "--batch",
        16,
    )
    assert run.returncode == 0, run.stderr
    assert "scaling 1 -> 2 threads, K8-G100-U, batches of 16:" in run.stdout


def test_a_store_in_a_file(tmp_path: Path) -> None:
    doc = document(
        tmp_path / "e.json",
        "engine",
        *ENGINE,
        "--workloads",
        "K8-G50-U",
        "--subjects",
        "wire",
        "--memory-file",
        tmp_path / "items",
    )
    assert measured(doc)[0]["settings"]["memory_file"] is True


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--plan", "gpu"], "there are: cpu"),
        (["--protocol", "http"], "there are: text, meta, binary"),
        (["--workloads", "K9-G50-U"], "K9-G50-U"),
        (["--workloads", "ycsb-e"], "scan"),
        (["--subjects", "wire,speed"], "wire, embedded, two-lines, copy"),
        (["--alternate", "K8-G50-U"], "two workloads"),
        (["--alternate", "K8-G50-U,K16-G50-U", "--every", "2"], "a time such as 2ms"),
        (["--alternate", "K8-G50-U,K16-G50-U", "--workloads", "K8-G50-U"], "together"),
        (["--batch", "0"], "batch sizes"),
        (["--threads", "0"], "threads"),
        (["--items", "much"], "size"),
        (["--rate", "1e6"], "--subjects wire"),
        (["--rate", "5", "--subjects", "wire"], "at least"),
        (["--misses", "2", "--subjects", "wire"], "0 to 1"),
        (["--workloads", "K32..16-V2-G50-U"], "K32..16"),
        (["--speed", "high"], "--speed"),
    ],
)
def test_bad_options_are_refused(arguments: list[str], text: str) -> None:
    run = bench("engine", *arguments)
    assert run.returncode == EX_USAGE
    assert text in run.stderr
    assert run.stdout == ""


def test_workloads_that_alternate(tmp_path: Path) -> None:
    doc = document(
        tmp_path / "e.json",
        *["engine", "--keys", 500, "--threads", 1, "--batch", 64, "--rounds", 1, "--seconds", 0.05],
        *["--alternate", "K8-G50-U,K16-G95-S", "--every", "2ms"],
    )
    [run] = measured(doc)
    assert [phase["workload"] for phase in run["result"]["phases"]] == ["K8-G50-U", "K16-G95-S"]
    assert all(phase["ops"] > 0 for phase in run["result"]["phases"])
    assert run["result"]["timeline"]
    assert run["settings"]["alternate_every_us"] == 2000


def test_an_open_loop_with_misses(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    run = bench(
        *[
            "engine",
            "--keys",
            500,
            "--threads",
            1,
            "--batch",
            16,
            "--rounds",
            1,
            "--seconds",
            0.1,
            "--subjects",
            "wire",
        ],
        *["--workloads", "K16..64-V2-G100-U", "--rate", "0,20000", "--misses", 0.25, "--json", path],
    )
    assert run.returncode == 0, run.stderr
    assert "0.02 M ops/s offered, K16..64-V2-G100-U, batches of 16, 1 threads" in run.stdout
    closed, paced = measured(json.loads(path.read_text()))
    assert "rate" not in closed["settings"]
    assert paced["settings"]["rate"] == 20000
    assert paced["result"]["ops_per_s"] <= 22000
    for result in (closed["result"], paced["result"]):
        assert 0.1 < result["misses"] / result["gets"] < 0.4
    assert "--misses 0.25" in paced["command"]


def test_the_papers_are_listed() -> None:
    run = bench("paper")
    assert run.returncode == 0
    for name in ("mega-kv", "dido", "memcachedgpu", "kvcg", "heterokv"):
        assert f"{name}: " in run.stdout
    assert "needs the cluster mode" in run.stdout


def test_an_experiment_of_a_paper(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    run = bench("paper", "mega-kv", "table-3", "fig2", "--quick", "--threads", "1", "--json", path)
    assert run.returncode == 0, run.stderr
    assert "mega-kv Table 3" in run.stdout
    assert "| 8 B key, 8 B value |" in run.stdout
    doc = json.loads(path.read_text())
    assert [figure["figure"] for figure in doc["figures"]] == ["table-3", "2"]
    for figure in doc["figures"]:
        for series in figure["series"]:
            for point in series["points"]:
                assert point["y"] > 0
                assert all(0 <= index < len(doc["runs"]) for index in point.get("runs", []))


def test_an_experiment_that_fails_leaves_the_others(tmp_path: Path) -> None:
    """Of figure 1 tasks are timed, for which no turn is long enough here: it fails before table 3 is measured."""
    path = tmp_path / "p.json"
    short = ["--seconds", "0.001", "--rounds", "1", "--items", "1MiB", "--gpu", "off", "--threads", "1"]
    run = bench("paper", "mega-kv", "1", "table-3", *short, "--json", path)
    assert run.returncode == 1
    assert "mega-kv 1 failed: the turns are too short" in run.stderr
    assert "mega-kv Table 3" in run.stdout
    doc = json.loads(path.read_text())
    assert [figure["figure"] for figure in doc["figures"]] == ["table-3"]
    assert any(note.startswith("failed: mega-kv 1: the turns") for note in doc["notes"])


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["mica"], EX_USAGE, "mega-kv, dido, memcachedgpu, kvcg, heterokv"),
        (["dido", "99"], EX_USAGE, "there are: 4, 5, 6"),
        (["dido", "15"], EX_UNAVAILABLE, "work stealing"),
        (["dido", "--fast"], EX_USAGE, "--fast"),
        (["mega-kv", "10", "--gpu", "off"], EX_UNAVAILABLE, "needs a GPU"),
        (["mega-kv", "8", "--gpu", "sim"], EX_UNAVAILABLE, "a simulated one has none"),
        (["mega-kv", "10", "--gpu", "x"], EX_USAGE, "--gpu"),
    ],
)
def test_unknown_experiments(arguments: list[str], code: int, text: str) -> None:
    run = bench("paper", *arguments)
    assert run.returncode == code
    assert text in run.stderr
    assert run.stdout == ""


def written_parts(file: int) -> Iterator[tuple[int, bytes]]:
    """Where the file, which is mostly holes, has data."""
    end = 0
    with contextlib.suppress(OSError):  # ENXIO: no more data
        while True:
            begin = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, begin, os.SEEK_HOLE)
            yield begin, os.pread(file, end - begin, begin)


def flip_a_value(items: Path, key: bytes, running: subprocess.Popen) -> None:
    """Waits until the key's item lies in the file and changes the first byte of its value."""
    while running.poll() is None:
        if items.exists():
            with items.open("r+b", buffering=0) as file:
                for begin, data in written_parts(file.fileno()):
                    at = data.find(key) + len(key)
                    if at >= len(key) and any(data[at : at + 8]):
                        os.pwrite(file.fileno(), bytes([data[at] ^ 0xFF]), begin + at)
                        return
        time.sleep(0.01)
    pytest.fail("the key was never stored")


def test_a_value_that_changes_under_the_run_fails_it(tmp_path: Path) -> None:
    items, path = tmp_path / "items", tmp_path / "e.json"
    command = ["engine", "--workloads", "K8-G100-U", "--keys", 200, "--threads", 1, "--rounds", 1, "--seconds", 2]
    options = ["--subjects", "wire", "--no-cache-misses", "--memory-file", items, "--json", path, "--quiet"]
    with subprocess.Popen(
        [str(tandem_binary()), "bench", *map(str, command + options)], stderr=subprocess.PIPE, text=True
    ) as run:
        flip_a_value(items, b"0000002a", run)
        _, stderr = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 1
    assert "wrong values" in stderr
    assert "key 42" in stderr
    errors = measured(json.loads(path.read_text()))[0]["result"]["errors"]
    assert errors["wrong_values"] > 0
    assert errors["wrong_replies"] == errors["unexpected_misses"] == 0
