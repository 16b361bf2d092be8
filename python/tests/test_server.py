"""tandem.Server and `python -m tandem`: processes that start, answer, and do not outlive their parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import tandem
from tandem import Server
from tandem.server import program

WAIT_S = 60


def ask(address: Any, command: bytes = b"version\r\n") -> bytes:
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as connection:
        connection.settimeout(WAIT_S)
        connection.connect(address)
        connection.sendall(command)
        return connection.makefile("rb").readline()


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + WAIT_S
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


def test_a_server_answers_until_the_statement_ends() -> None:
    with Server(memory="32MiB", threads=1) as server:
        assert isinstance(server.address, tuple) and server.url == f"tcp://127.0.0.1:{server.address[1]}"
        assert ask(server.address).startswith(b"VERSION ") and "32.0 MiB, 1 thread" in server.log
        assert repr(server) == f"<tandem.Server {server.url}>"
        pid, address = server.pid, server.address
    assert not is_alive(pid)
    with pytest.raises(ConnectionError):
        ask(address)
    for of in ("address", "url", "pid"):
        with pytest.raises(RuntimeError, match="not running"):
            getattr(server, of)
    assert repr(server) == "<tandem.Server not running>"


def test_two_servers_do_not_meet() -> None:
    with Server(threads=1) as one, Server(threads=1) as two:
        assert one.url != two.url
        assert ask(one.address, b"set a 0 0 1\r\n1\r\n") == b"STORED\r\n"
        assert ask(two.address, b"get a\r\n") == b"END\r\n"


def test_a_server_can_be_started_again() -> None:
    server = Server(threads=1)
    for _ in range(2):
        with server:
            assert ask(server.address).startswith(b"VERSION ")
            with pytest.raises(RuntimeError, match="has been started"):
                server.start()
    server.close()


def test_unix_sockets(tmp_path: Path) -> None:
    path = tmp_path / "tandem.sock"
    with Server(unix=path, threads=1) as server:
        assert server.address == str(path) and server.url == f"unix:{path}"
        assert ask(server.address).startswith(b"VERSION ")
    with Server(unix=True, threads=1) as server:
        assert isinstance(server.address, str)
        folder = Path(server.address).parent
        assert ask(server.address).startswith(b"VERSION ") and folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_sizes_and_options() -> None:
    with Server(64 << 20, item_max="8MiB", threads=1, options=["--ordered"]) as server:
        assert "64.0 MiB" in server.log
        value = b"x" * (4 << 20)
        assert ask(server.address, b"set a 0 0 %d\r\n%s\r\n" % (len(value), value)) == b"STORED\r\n"
        assert ask(server.address, b"mr a b\r\n") != b"ERROR\r\n"


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    server = Server(options=["--no-such-option"])
    with pytest.raises(tandem.ServerError, match=r'(?s)ended with exit code.*unknown option "--no-such-option"'):
        server.start()
    with pytest.raises(tandem.ServerError, match="not-there"):
        Server(unix=tmp_path / "not-there" / "s", threads=1).start()
    assert threading.active_count() < 20


def test_a_server_that_is_not_ready_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\necho not yet\nexec sleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setenv("TANDEM_BIN", str(slow))
    with pytest.raises(tandem.ServerError, match=r"(?s)not ready after 0\.5 s"):
        Server(start_timeout=0.5).start()


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TANDEM_BIN", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="none"):
        Server().start()
    done = subprocess.run([sys.executable, "-m", "tandem"], capture_output=True, text=True)
    assert done.returncode == 1 and "the program tandem is not there" in done.stderr


def child(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_number(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@pytest.mark.parametrize("end", ["kill", "exit", "leave"])
def test_a_server_ends_with_its_parent(end: str) -> None:
    ends = {"kill": "input()", "exit": "sys.exit()", "leave": "os._exit(0)"}
    parent = child(
        f"import os, sys, tandem\ns = tandem.Server(threads=1).start()\nprint(s.pid, flush=True)\n{ends[end]}"
    )
    with parent:
        pid = first_number(parent)
        if end == "kill":
            assert is_alive(pid)
            parent.kill()
        parent.wait(WAIT_S)
    assert gone(pid)


def test_a_server_outlives_the_thread_that_started_it() -> None:
    server = Server(threads=1)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    time.sleep(0.2)  # the kernel sends the death signal when the thread has ended
    assert ask(server.address).startswith(b"VERSION ")
    server.close()


def test_a_child_of_fork_does_not_stop_the_server() -> None:
    with Server(threads=1) as server:
        pid = os.fork()
        if pid == 0:
            server.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert ask(server.address).startswith(b"VERSION ")


def test_an_interrupt_of_the_terminal_is_the_parents() -> None:
    text = """
import os, signal, time, tandem
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
with tandem.Server(threads=1) as server:
    print(server.pid, flush=True)
    input()
    tandem.Cache(server.url, "json")["a"] = 1
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    pid = first_number(parent)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.stdout is not None and parent.stdout.readline() == "interrupted\n"
    parent.communicate("\n", timeout=WAIT_S)
    assert parent.returncode == 0 and gone(pid)


def test_the_program_is_a_command() -> None:
    wanted = subprocess.check_output([str(program()), "--version"])
    assert subprocess.check_output([sys.executable, "-m", "tandem", "--version"]) == wanted
    served = subprocess.Popen(
        [sys.executable, "-m", "tandem", "serve", "--port", "-1", "--memory", "16MiB"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with served:
        assert served.stdout is not None and "serving on 127.0.0.1:" in served.stdout.readline()
        served.terminate()  # the server itself: no Python stands between
        assert served.wait(WAIT_S) == 0
