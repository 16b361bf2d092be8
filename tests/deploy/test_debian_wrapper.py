"""Debian's own way to start memcached, with Tandem in place of its program."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.programs import answers, settings_of, status_of, wait_until
from conftest import tandem_binary
from harness.server import HOST, free_port

WRAPPER = Path("/usr/share/memcached/scripts/systemd-memcached-wrapper")
CONFIGURATION = Path("/etc/memcached.conf")
USER = "memcache"


def may_mount() -> bool:
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[tuple[subprocess.Popen, tuple[str, int]]]:
    """The wrapper with Debian's configuration, but for port and pid file, where /usr/bin/memcached is Tandem."""
    port = free_port()
    text = re.sub(r"(?m)^-p \d+$", f"-p {port}", CONFIGURATION.read_text())
    text = re.sub(r"(?m)^-P .*$", f"-P {tmp_path}/memcached.pid", text)
    assert f"-p {port}" in text and f"-u {USER}" in text and "-m 64" in text
    configuration = tmp_path / "memcached.conf"
    configuration.write_text(text)
    program = tmp_path / "tandem"
    shutil.copy(tandem_binary(), program)
    for path in (tmp_path, *list(tmp_path.parents)[:2]):
        path.chmod(path.stat().st_mode | 0o011)
    shutil.chown(tmp_path, USER)
    script = 'mount --bind "$1" /usr/bin/memcached && exec "$2" "$3"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", program, WRAPPER, configuration]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
    try:
        wait_until(lambda: answers((HOST, port)) or process.poll() is not None, "answers")
        assert process.poll() is None, (tmp_path / "log").read_text()
        yield process, (HOST, port)
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.skipif(not may_mount(), reason="only root can put another program in memcached's place")
def test_debian_s_wrapper_and_configuration_start_tandem(
    wrapped: tuple[subprocess.Popen, tuple[str, int]], tmp_path: Path
) -> None:
    process, address = wrapped
    assert Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"/usr/bin/memcached\0-m\x0064\0")
    settings = settings_of(address)
    assert (settings["maxbytes"], settings["inter"], settings["udpport"]) == (str(64 << 20), HOST, "0")
    user = str(pwd.getpwnam(USER).pw_uid)
    assert status_of(process.pid, "Uid") == [user] * 4
    assert (tmp_path / "memcached.pid").read_text() == f"{process.pid}\n"
    tool = ["/usr/share/memcached/scripts/memcached-tool", f"{address[0]}:{address[1]}"]
    for what in ("stats", "settings", "display", "sizes"):
        done = subprocess.run([*tool, what], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout, (what, done)
    process.terminate()
    assert process.wait(30) == 0
    assert not (tmp_path / "memcached.pid").exists()
