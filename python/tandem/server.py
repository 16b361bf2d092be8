"""A Tandem server as a child process: the program of the wheel on a free port, or on a Unix socket."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

__all__ = ["Server", "ServerError", "program"]

# Run between fork and the server, as code after fork() in a process with threads must not be Python's: asks the kernel
# for SIGTERM when the parent ends, and looks whether it has ended already.
_LAUNCH = """
import ctypes, os, signal, sys
parent, command = int(sys.argv[1]), sys.argv[2:]
if ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0) != 0:
    sys.exit("prctl(PR_SET_PDEATHSIG) failed")
if os.getppid() != parent:
    sys.exit("the parent process has ended")
os.execv(command[0], command)
"""
_STOP_S = 30


class ServerError(RuntimeError):
    """The server did not start. The text has what it printed."""


def program() -> Path:
    """The path of the `tandem` program: the wheel's, or what the environment variable TANDEM_BIN names."""
    named = os.environ.get("TANDEM_BIN")
    path = Path(named) if named else Path(__file__).resolve().parent / "bin" / "tandem"
    if not path.is_file():
        raise FileNotFoundError(f"the program tandem is not there: {path}")
    return path.resolve()


class Server:
    """A server that ends with the `with` statement, and at the latest with this process, also a killed one.

    `memory` bounds items and index ("64MiB", or bytes). It listens on a free port of 127.0.0.1; with `unix=True` on a
    Unix socket in a folder of its own, with a path on that one. `item_max` is the largest item, `threads` the number of
    worker threads, `options` further arguments of `tandem serve`, such as ("--ordered",).

    One thread at a time may enter and leave it. A child of fork() may use the address; leaving the `with` statement
    there does not stop the server.
    """

    def __init__(
        self,
        memory: int | str = "64MiB",
        unix: bool | str | os.PathLike[str] | None = None,
        *,
        item_max: int | str | None = None,
        threads: int | None = None,
        options: Iterable[str] = (),
        start_timeout: float = 30.0,
    ) -> None:
        self._arguments = ["--memory", _size(memory)]
        if item_max is not None:
            self._arguments += ["--item-max", _size(item_max)]
        if threads is not None:
            self._arguments += ["--threads", str(threads)]
        self._arguments += [str(option) for option in options]
        self._unix = unix
        self._start_timeout = start_timeout
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._address: str | tuple[str, int] | None = None

    def start(self) -> Server:
        """Starts the server and returns when it accepts connections."""
        if self._process is not None:
            raise RuntimeError("the server has been started")
        listen = self._listen()
        self._log = tempfile.TemporaryFile(prefix="tandem-")  # noqa: SIM115, close() closes it
        self._owner = os.getpid()
        try:
            self._launch([str(program()), "serve", *self._arguments, *listen])
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stops the server. Does nothing if it has been stopped, or in a child of fork()."""
        process, self._process, self._address = self._process, None, None
        if os.getpid() != self._owner:
            return
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def address(self) -> str | tuple[str, int]:
        """What pymemcache.Client takes: (host, port), or the path of the Unix socket."""
        if self._address is None:
            raise RuntimeError("the server is not running")
        return self._address

    @property
    def url(self) -> str:
        """`tcp://127.0.0.1:PORT` or `unix:PATH`, as `tandem.Cache` takes it."""
        address = self.address
        return f"unix:{address}" if isinstance(address, str) else f"tcp://{address[0]}:{address[1]}"

    @property
    def pid(self) -> int:
        """The process id of the server."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server has printed so far."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")  # the offset is the server's, too

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tandem.Server {self.url if self._address is not None else 'not running'}>"

    def _listen(self) -> list[str]:
        if self._unix is None or self._unix is False:
            return ["--listen", "127.0.0.1", "--port", "-1"]
        if self._unix is True:
            self._folder = tempfile.TemporaryDirectory(prefix="tandem-")
            path = os.path.join(self._folder.name, "tandem.sock")
        else:
            path = os.path.abspath(self._unix)
        return ["--unix", path]

    def _launch(self, command: list[str]) -> None:
        """Starts the process from a thread that lives as long as the process: the kernel sends the death signal when
        the *thread* ends that started it."""
        log = self._log
        assert log is not None
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *command]
        started: list[subprocess.Popen[bytes] | BaseException] = []
        done = threading.Event()

        def keep() -> None:
            try:
                # A session of its own: Ctrl-C in the terminal is for the parent, which then stops the server.
                process = subprocess.Popen(
                    launcher, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except BaseException as error:
                started.append(error)
                done.set()
                return
            started.append(process)
            done.set()
            process.wait()

        threading.Thread(target=keep, name="tandem-server", daemon=True).start()
        done.wait()
        if isinstance(started[0], BaseException):
            raise started[0]
        self._process = started[0]

    def _wait_until_ready(self) -> None:
        process = self._process
        assert process is not None
        deadline = time.monotonic() + self._start_timeout
        while True:
            ended = process.poll()
            said = self.log
            if ended is None and (found := re.search(r"\bserving on (.+?)(?: \(TCP\))?,", said)):
                break
            if ended is not None:
                raise ServerError(f"tandem serve ended with {_status(ended)}\n{said}".rstrip())
            if time.monotonic() > deadline:
                raise ServerError(f"tandem serve was not ready after {self._start_timeout} s\n{said}".rstrip())
            time.sleep(0.005)
        if self._unix is None or self._unix is False:
            host, _, port = found[1].rpartition(":")
            self._address = (host, int(port))
        else:
            self._address = found[1]


def _size(size: int | str) -> str:
    return f"{size}B" if isinstance(size, int) else size


def _status(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
