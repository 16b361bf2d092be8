"""The Dockerfile, as far as it can be checked without a container engine: its health check is run, its command is
understood, what it copies is there. hadolint reads it in `make test`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import free_port
from harness.tls import make_identity

from package.test_package import ROOT

TEXT = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())


def instruction(name: str) -> str:
    (found,) = re.findall(rf"^\s*{name} (.*)$", TEXT, re.MULTILINE)
    return found


def health_check(process: subprocess.Popen) -> int:
    (source,) = re.findall(r"COPY (\S+) /usr/local/bin/tandem-healthcheck", TEXT)
    assert json.loads(re.search(r"CMD (\[.*\])", instruction("HEALTHCHECK"))[1]) == ["tandem-healthcheck"]
    # A container has one server; this machine may have more.
    environment = {**os.environ, "TANDEM_PID": str(process.pid)}
    return subprocess.run([ROOT / source], timeout=30, capture_output=True, env=environment).returncode


def check(process: subprocess.Popen) -> None:
    """The check sees the server while it serves, and sees when it stands still or has ended."""
    try:
        while health_check(process) != 0:
            assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGSTOP)
        assert health_check(process) == 1
        process.send_signal(signal.SIGCONT)
        assert health_check(process) == 0
        process.terminate()
        assert process.wait(20) == 0
        assert health_check(process) == 1
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def serve(*options: object) -> subprocess.Popen:
    return subprocess.Popen([tandem_binary(), *map(str, options)], stderr=subprocess.PIPE, text=True)


@pytest.mark.timeout(100)
def test_the_command_serves_and_the_health_check_sees_it() -> None:
    command = json.loads(instruction("ENTRYPOINT")) + json.loads(re.findall(r"^CMD (.*)$", TEXT, re.MULTILINE)[0])
    assert command[:2] == ["tandem", "serve"] and "*" in command
    listen = ["127.0.0.1" if word == "*" else word for word in command[1:]]  # a test must not be reached from outside
    check(serve(*listen, "--port", free_port()))


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "kind", ["another address", "passwords", "binary passwords", "TLS", "TLS with client certificates"]
)
def test_the_health_check_needs_no_settings(kind: str, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("user:word\n")
    identity = make_identity(tmp_path, "server")
    tls = ["--tls", "--tls-cert", identity.certificate, "--tls-key", identity.key]
    options = {
        "another address": ["--listen", "127.0.0.3"],
        "passwords": ["--auth-file", passwords],
        "binary passwords": ["--sasl", "--sasl-file", passwords],
        "TLS": tls,
        "TLS with client certificates": [*tls, "--tls-ca", identity.certificate, "--tls-verify", "required"],
    }[kind]
    check(serve("serve", "--port", free_port(), *options))


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
