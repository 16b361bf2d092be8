"""`tandem calibrate` on a simulated GPU, and servers that choose their cycle by what it keeps."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import HOST, free_port
from harness.wire import Stream

EX_USAGE, EX_UNAVAILABLE, EX_CANTCREAT, EX_CONFIG = 64, 69, 73, 78
QUICK = ("--gpu", "sim", "--table", "1MiB", "--searches", "4096", "--sets", "1024", "--steps", "4", "--rounds", "3")


def tandem(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tandem_binary(), *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, **variables}
    )


def calibration(**changes: object) -> dict:
    """C >= 70 us."""
    return {
        "format": "tandem-calibration/1",
        "version": "0.1.0",
        "date": "2026-11-23T05:31:23Z",
        "device": {"backend": "sim", "name": "sim", "pci_bus_id": ""},
        "table": {"cells": 1 << 20, "keys": 800_000},
        "search": {"k_ns": 5, "b_ns": 20_000, "r2": 0.99, "samples": []},
        "change": {"k_ns": 10, "b_ns": 100_000, "r2": 0.98, "samples": []},
    } | changes


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., Path]:
    def keep(text: str | None = None, **changes: object) -> Path:
        path = tmp_path / "kept.json"
        path.write_text(json.dumps(calibration(**changes)) if text is None else text)
        return path

    return keep


def test_lines_are_printed_and_kept_where_a_server_looks(tmp_path: Path) -> None:
    result = tandem("calibrate", *QUICK, XDG_STATE_HOME=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, "")
    path = tmp_path / "tandem/calibration.json"
    assert f"kept in {path}" in result.stdout
    assert "Search: T = " in result.stdout and "Insert and Delete: T = " in result.stdout
    document = json.loads(path.read_text())
    assert document["device"] == {"backend": "sim", "name": "sim", "pci_bus_id": ""}
    assert document["table"] == {"cells": 1 << 17, "keys": int(0.8 * (1 << 17))}
    for line, most in (("search", 4096), ("change", 1024)):
        samples = document[line]["samples"]
        assert [s["queries"] for s in samples] == [most * i // 4 for i in (1, 2, 3, 4)]
        for s in samples:
            assert 0 < s["low_ns"] <= s["ns"] <= s["high_ns"]
            fitted = document[line]["k_ns"] * s["queries"] + document[line]["b_ns"]
            assert s["ns"] - s["residual_ns"] == pytest.approx(fitted, rel=1e-6)


def test_json_is_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c.json"
    result = tandem("calibrate", *QUICK, "--json", "--file", str(path))
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == json.loads(path.read_text())
    shown = tandem("calibrate", *QUICK, "--no-file", XDG_STATE_HOME=str(tmp_path))
    assert (shown.returncode, sorted(os.listdir(tmp_path))) == (0, ["a"])


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["x"], EX_USAGE, "x"),
        (["--gpu", "off"], EX_USAGE, "nothing to measure"),
        (["--gpu", "y"], EX_USAGE, "neither auto, off, sim nor a number"),
        (["--gpu", "99"], EX_UNAVAILABLE, "no GPU"),
        (["--gpu", "sim", "--table", "lots"], EX_USAGE, "--table"),
        (["--gpu", "sim", "--table", "1KiB"], EX_USAGE, "cells"),
        (["--gpu", "sim", "--load", "0.99"], EX_USAGE, "load"),
        (["--gpu", "sim", "--steps", "1"], EX_USAGE, "steps"),
        (["--gpu", "sim", "--table", "8GiB"], EX_UNAVAILABLE, "bytes left"),
    ],
)
def test_bad_calls(arguments: list[str], code: int, words: str, tmp_path: Path) -> None:
    result = tandem("calibrate", *arguments, XDG_STATE_HOME=str(tmp_path))
    assert (result.returncode, result.stdout) == (code, "")
    assert words in result.stderr
    assert os.listdir(tmp_path) == []


def test_without_a_place_nothing_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = tandem("calibrate", *QUICK, "--file", str(tmp_path / "file/x.json"))
    assert result.returncode == EX_CANTCREAT and "cannot be written" in result.stderr
    result = tandem("calibrate", *QUICK, HOME="", XDG_STATE_HOME="")
    assert (result.returncode, result.stdout) == (EX_USAGE, "") and "--file" in result.stderr


# --- the server


SERVE = ("serve", "--gpu", "sim", "--preset", "mega-kv", "--memory", "64MiB", "--port")


def refused(*options: str, **variables: str) -> str:
    result = tandem(*SERVE, str(free_port()), *options, **variables)
    assert result.returncode == EX_CONFIG, result.stderr
    return result.stderr


def test_a_server_chooses_its_cycle(kept: Callable[..., Path]) -> None:
    port = free_port()
    command = [tandem_binary(), *SERVE, str(port), "--gpu-calibration", str(kept()), "--gpu-latency-target", "300"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        try:
            for line in process.stderr:
                lines.append(line)
                if "preset mega-kv" in line:
                    break
            assert "GPU: cycle 100 us, which serves up to 57.14 million queries per second" in "".join(lines)
            with Stream(socket.create_connection((HOST, port))) as stream:
                assert stream.exchange(b"set a 0 0 1\r\nx\r\n").data == b"STORED\r\n"
                assert stream.exchange(b"get a\r\n").data == b"VALUE a 0 1\r\nx\r\nEND\r\n"
        finally:
            process.terminate()
            process.stderr.read()
            assert process.wait(60) == 0


def test_what_cannot_be_is_said(kept: Callable[..., Path], tmp_path: Path) -> None:
    target = ("--gpu-latency-target", "300")
    assert "at least 70 us at any rate" in refused("--gpu-calibration", str(kept()), "--gpu-latency-target", "200")
    assert "at 58 million" in refused("--gpu-calibration", str(kept()), *target, "--gpu-rate", "58")
    other = kept(device={"backend": "cuda", "name": "NVIDIA H100", "pci_bus_id": "0000:3b:00.0"})
    assert "is of another device" in refused("--gpu-calibration", str(other), *target)
    for text in ("", "{}", "[1]", json.dumps(calibration(search=5))):
        assert "kept.json: " in refused("--gpu-calibration", str(kept(text)), *target)
    assert "cannot be read: No such file" in refused(*target, XDG_STATE_HOME=str(tmp_path / "none"))
    assert "no home is known" in refused(*target, XDG_STATE_HOME="", HOME="")
