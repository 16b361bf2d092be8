"""The Dockerfile, as far as it can be checked without a container engine: its health check is run, its command is
understood, what it copies is there. hadolint reads it in `make test`."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from conftest import tandem_binary
from harness.server import free_port

from package.test_package import ROOT

TEXT = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())


def instruction(name: str) -> str:
    (found,) = re.findall(rf"^\s*{name} (.*)$", TEXT, re.MULTILINE)
    return found


def health_check(port: int) -> int:
    check = json.loads(re.search(r"CMD (\[.*\])", instruction("HEALTHCHECK"))[1])
    assert check[:2] == ["bash", "-c"] and check[2].count("/11211 ") == 1
    check[2] = check[2].replace("/11211 ", f"/{port} ")
    return subprocess.run(check, timeout=20, capture_output=True).returncode


@pytest.mark.timeout(60)
def test_the_command_serves_and_the_health_check_sees_it() -> None:
    port = free_port()
    command = json.loads(instruction("ENTRYPOINT")) + json.loads(re.findall(r"^CMD (.*)$", TEXT, re.MULTILINE)[0])
    assert command[:2] == ["tandem", "serve"] and "*" in command
    listen = ["127.0.0.1" if word == "*" else word for word in command[1:]]  # a test must not be reached from outside
    process = subprocess.Popen([tandem_binary(), *listen, "--port", str(port)], stderr=subprocess.PIPE, text=True)
    try:
        while health_check(port) != 0:
            assert process.poll() is None
        process.terminate()
        assert process.wait(20) == 0
        assert health_check(port) != 0
    finally:
        process.kill()
        process.communicate()


def test_what_the_build_reads_is_not_ignored() -> None:
    kept = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in kept)
    for name in (
        "CMakeLists.txt",
        "Makefile",
        "cmake",
        "deploy",
        "include",
        "scripts",
        "src",
        "CHANGELOG.md",
        "LICENSE",
    ):
        assert name in kept, name


def test_it_does_not_run_as_root() -> None:
    assert instruction("USER") == "11211:11211"
