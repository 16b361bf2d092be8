"""A memcached-like server as a child process: started on free ports, watched while it runs, stopped and judged."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import pwd
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# How much slower than a release build the server under test may be; for sanitizers.
TIME_FACTOR = float(os.environ.get("TANDEM_TIME_FACTOR", "1"))
# Ends what would hang, and decides nothing else: other processes may have the processors for seconds.
PATIENCE_S = 60.0 * TIME_FACTOR
HOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1
SANITIZER_REPORTS = ("ERROR: AddressSanitizer", "WARNING: ThreadSanitizer", "runtime error:", "ERROR: LeakSanitizer")


def wait_until(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S} s: {what}"
        time.sleep(0.005)


class ServerError(AssertionError):
    """The server broke the contract of a child process: did not start, died, reported an error or did not stop."""


# Lately given by free_port(), and perhaps not used yet.
_given: collections.deque[int] = collections.deque(maxlen=200)


def free_port() -> int:
    """A port that neither TCP nor UDP uses, below the range that the kernel gives to clients; as a rule none that tests
    in another process are given."""
    first = 12_000 + 1250 * (os.getpid() % 16)
    for _ in range(2000):
        port = random.SystemRandom().randrange(first, first + 1250)
        if port in _given:
            continue
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind((HOST, port))
                udp.bind((HOST, port))
            except OSError:
                continue
            _given.append(port)
            return port
    raise ServerError("no free port found")


def begin_child() -> None:
    """Dies with its parent; INT does what it does by default, also where a shell's `&` had it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """One server process.

    `command` is the program and its sub-command, `options` memcached's options. Unless `ports` is False the options
    -p, -U and -l are added; `unix_path` adds -s (which in memcached turns ports off).
    """

    def __init__(
        self,
        command: list[str],
        *options: str,
        memory_mib: int = 64,
        ports: bool = True,
        unix_path: Path | None = None,
        run_as: str | None = None,
        wait: bool = True,
    ) -> None:
        self.port = free_port() if ports else 0
        self.unix_path = unix_path
        arguments = ["-m", str(memory_mib)]
        if unix_path is not None:
            arguments += ["-s", str(unix_path)]
        elif ports:
            arguments += ["-p", str(self.port), "-U", str(self.port), "-l", HOST]
        if os.geteuid() == 0:  # memcached refuses to run as root without being told to
            arguments += ["-u", run_as or pwd.getpwuid(0).pw_name]
        self.command = [*command, *arguments, *options]
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=begin_child
        )
        if wait:
            try:
                self.wait_ready()
            except ServerError:
                self.kill()
                self.log.close()
                raise

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        """All that the server has printed."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def describe(self, what: str) -> str:
        return f"{what}\n  command: {' '.join(self.command)}\n  its output ends with:\n{self.output()[-4000:]}"

    def address(self, host: str = HOST) -> str | tuple[str, int]:
        return str(self.unix_path) if self.unix_path is not None else (host, self.port)

    def connect(self, timeout_s: float = PATIENCE_S, host: str = HOST) -> socket.socket:
        family = socket.AF_UNIX if self.unix_path is not None else socket.AF_INET
        connection = socket.socket(family)
        connection.settimeout(timeout_s)
        try:
            connection.connect(self.address(host))
        except OSError:
            connection.close()
            raise
        if family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def wait_ready(self) -> None:
        """Waits until the server accepts a connection. Raises ServerError when it exits or takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if self.process.poll() is not None:
                raise ServerError(self.describe(f"the server exited with {self.process.returncode} while starting"))
            try:
                self.connect().close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ServerError(self.describe(f"not ready in {PATIENCE_S} s ({error})")) from error
                time.sleep(0.005)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def check_alive(self) -> None:
        if not self.is_alive():
            raise ServerError(self.describe(f"the server died with {self.process.returncode}"))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Asks the server to end and returns its exit code. Raises ServerError when it was dead already, does not end
        in time, or a sanitizer complained."""
        self.check_alive()
        self.process.send_signal(how)
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServerError(self.describe(f"still running {PATIENCE_S} s after {how.name}")) from error
        output = self.output()
        if any(report in output for report in SANITIZER_REPORTS):
            raise ServerError(self.describe("a sanitizer found an error"))
        return code

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Ends of a test: a clean stop with exit code 0, or ServerError."""
        try:
            if self.process.returncode is None:
                code = self.stop()
                if code != 0:
                    raise ServerError(self.describe(f"exit code {code} after SIGTERM, not 0"))
        finally:
            self.log.close()

    def discard(self) -> None:
        """Ends a server that is not under test: it must still run, but how it stops (memcached needs a second or two)
        is not looked at."""
        try:
            self.check_alive()
        finally:
            self.kill()
            self.log.close()

    def resident_bytes(self) -> int:
        """Resident set size of the process, in bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ServerError(self.describe("no VmRSS: the process is gone"))
