"""The runner of the server benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from conftest import REFERENCE_VERSION, memcached_binary, tandem_binary

ROOT = Path(__file__).resolve().parent.parent.parent
RUNNER = [sys.executable, str(ROOT / "bench/server_bench.py"), "--generator", str(tandem_binary())]


def test_the_runner_prints_a_table(tmp_path: Path) -> None:
    stand_in = ROOT / "tests/conformance/memcached_as_tandem.sh"
    results = tmp_path / "results.json"
    command = [*RUNNER, "--tandem", str(stand_in), "--json", str(results)]
    command += ["--peer", str(memcached_binary())]
    command += ["--cells", "meta-mget50,udp-p1", "--keys", "1000", "--seconds", "0.2", "--warmup", "0"]
    run = subprocess.run([*command, "--rounds", "2", "--tail-rounds", "1"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    document = json.loads(results.read_text())
    assert [result["cell"] for result in document["results"]] == ["meta-mget50", "udp-p1"]
    for result in document["results"]:
        assert len(result["closed"]) == 2 and len(result["open"]) == 1
        for reports in result["closed"] + result["open"]:
            assert list(reports) == ["floor", f"memcached {REFERENCE_VERSION}", "tandem"]
            assert all(report["server"]["cpu_us_per_op"] > 0 and report["misses"] == 0 for report in reports.values())
    rows = [line for line in run.stdout.splitlines() if line.startswith("| udp-p1")]
    assert len(rows) == 2
    assert "<= 1.20" in rows[0]
    again = subprocess.run([*RUNNER, "--render", str(results)], capture_output=True, text=True, check=True)
    assert again.stdout == run.stdout


def test_the_runner_fails_on_a_server_that_does_not_start() -> None:
    command = [*RUNNER, "--quick", "--tandem", "/bin/false"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "tandem ended at once" in run.stderr
