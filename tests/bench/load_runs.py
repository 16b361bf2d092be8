"""`tandem bench load` and `tandem bench floor` as child processes."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator

from conftest import tandem_binary
from harness.server import Server

KEYS = 2000


def load(target: int | str, *options: str, keys: int | None = KEYS, check: bool = True) -> tuple[int, dict]:
    """Runs the load generator against a port of 127.0.0.1 or an address: its exit status and its run's result."""
    address = f"127.0.0.1:{target}" if isinstance(target, int) else target
    command = [str(tandem_binary()), "bench", "load", "--connect", address, "--quiet", "--no-energy", "--json", "-"]
    command += ["--seconds", "0.2", "--warmup", "0", *(["--keys", str(keys)] if keys else []), *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if check:
        assert run.returncode in (0, 1), run.stderr
    document = json.loads(run.stdout) if run.stdout else {}
    result = document["runs"][0]["result"] if document else {}
    result["stderr"] = run.stderr
    result["document"] = document
    assert (run.returncode == 1) == ("FAILED" in run.stderr), run.stderr
    return run.returncode, result


def all_errors(result: dict) -> int:
    return sum(count for name, count in result["errors"].items() if name != "first")


@contextlib.contextmanager
def floor(*options: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """A bare server: its address and its process."""
    command = [str(tandem_binary()), "bench", "floor", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def stats_of(server: Server) -> dict[str, int]:
    with server.connect() as connection:
        connection.sendall(b"stats\r\n")
        reply = b""
        while not reply.endswith(b"END\r\n"):
            reply += connection.recv(65536)
    words = [line.split() for line in reply.decode().splitlines()]
    return {line[1]: int(line[2]) for line in words if len(line) == 3 and line[2].isdigit()}
