"""What `make release` leaves, and how its programs are run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import ROOT
from harness.server import HOST, free_port
from pymemcache.client.base import Client

RELEASE = ROOT / os.environ.get("TANDEM_RELEASE", "build/release")
TOOLS = ROOT / "build/release-tools"
PATIENCE_S = 120  # an emulator starts slowly
ENVIRONMENT = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


def artefact(pattern: str) -> Path:
    found = sorted(RELEASE.glob(pattern))
    if len(found) != 1:
        pytest.fail(f"{len(found)} files {pattern} in {RELEASE}: run `make release`", pytrace=False)
    return found[0]


def output(*command: object, **keywords: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, timeout=600, **keywords
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}"
    return done.stdout


def unpack(deb: Path, folder: Path) -> Path:
    output("dpkg-deb", "--extract", deb, folder)
    return folder


class Serving:
    """A server that is started by a command, answers a set and a get, and stops in order."""

    def __init__(self, command: Sequence[object]) -> None:
        self.port = free_port()
        words = [*map(str, command), "serve", "--listen", HOST, "--port", str(self.port), "--memory", "64MiB"]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
        )

    def __enter__(self) -> Serving:
        end = time.monotonic() + PATIENCE_S
        while True:
            client = Client((HOST, self.port), timeout=PATIENCE_S)
            try:
                client.set("key", b"v" * 1000, noreply=False)
                break
            except OSError:
                late = self.process.poll() is not None or time.monotonic() > end
                if late:
                    self.process.kill()
                    pytest.fail(self.process.communicate()[0], pytrace=False)
                time.sleep(0.05)
            finally:
                client.close()
        client = Client((HOST, self.port), timeout=PATIENCE_S)
        assert client.get("key") == b"v" * 1000
        client.close()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM if kind is None else signal.SIGKILL)
        text = self.process.communicate(timeout=PATIENCE_S)[0]
        if kind is None:
            assert self.process.returncode == 0 and text.endswith("info: stopped\n"), text


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.fail("needs root, for a root folder of its own", pytrace=False)
    assert shutil.which("chroot", path=ENVIRONMENT["PATH"])
