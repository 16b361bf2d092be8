"""`tandem bench report` takes what the other commands of `tandem bench` write today, not only made-up documents."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import memcached_binary, start_memcached, tandem_binary

from bench.test_report import Page, report

SHORT = ("--seconds", "0.1", "--rounds", "1")
COMMANDS = {
    "compare": ("compare", "--quick", *SHORT, "--cells", "text-p16,udp-p16", "--keys", "2000", "--tail-rounds", "1"),
    "rate": ("compare", *SHORT, "--cells", "text-p16", "--sweep", "2", "--subjects", "tandem", "--keys", "2000"),
    "engine": ("engine", *SHORT, "--workloads", "K8-G95-U", "--items", "1MiB", "--threads", "1"),
    "memory": ("memory", "--memory", "8", "--sizes", "16/64"),
    "paper": ("paper", "mega-kv", "1", "--quick"),
    "sets": ("paper", "memcachedgpu", "2", "--quick"),
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert memcached_binary()
    folder = tmp_path_factory.mktemp("documents")
    for name, words in COMMANDS.items():
        command = [str(tandem_binary()), "bench", *words, "--json", str(folder / f"{name}.json")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        # 1: a run with errors, such as a lost datagram; its document is whole.
        assert done.returncode in (0, 1), done.stderr
    server = start_memcached()
    command = [str(tandem_binary()), "bench", "load", "--connect", f"127.0.0.1:{server.port}", *SHORT[:2]]
    command += ["--quiet", "--preload", "--ceiling", "--keys", "2000", "--json", str(folder / "load.json")]
    try:
        subprocess.run(command, capture_output=True, timeout=120, check=True)
    finally:
        server.discard()
    return folder


@pytest.mark.parametrize("name", [*COMMANDS, "load"])
def test_each_document_is_taken_alone(documents: Path, name: str, tmp_path: Path) -> None:
    done = report(tmp_path, documents / f"{name}.json")
    assert (done.returncode, done.stderr) == (0, "")


def test_all_of_them_on_one_page(documents: Path, tmp_path: Path) -> None:
    done = report(tmp_path, *sorted(documents.glob("*.json")))
    assert (done.returncode, done.stderr) == (0, "")
    page = Page(tmp_path)
    figures = page.anchors("figure")
    for slug in ("throughput", "server-cpu", "engine-throughput", "tasks", "memory-per-item", "memory-limit"):
        assert slug in figures
    held = {
        run["subject"]: run["result"]["memory"] for run in json.loads((documents / "memory.json").read_text())["runs"]
    }
    (row,) = page.table("memory-per-item")
    for subject, memory in held.items():
        assert row[subject][0] == memory["bytes_per_item"]
