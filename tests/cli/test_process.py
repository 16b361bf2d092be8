"""The program as a process: memcached mode, users, sockets, limits, daemons and signals."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import memcached_binary, tandem_binary
from harness.server import Server, free_port

from cli.programs import (
    AS_ROOT,
    DEADLINE_S,
    EX_OSERR,
    IS_ROOT,
    Start,
    answers,
    call,
    said,
    settings_of,
    status_of,
    stop,
    tandem,
    wait_serving,
    wait_until,
)

needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can change its user")


# --- serving as memcached ---------------------------------------------------------------------------------------------


def test_memcached_mode_is_silent_and_open_to_all_interfaces(start: Start, alias: Path) -> None:
    port = free_port()
    process = start(alias, *AS_ROOT, "-p", port)
    wait_serving(process, ("127.0.0.1", port))
    assert answers(("127.0.0.2", port))
    with socket.socket(type=socket.SOCK_DGRAM) as udp, contextlib.suppress(ConnectionRefusedError):
        udp.bind(("127.0.0.1", port))  # UDP is off: the port is free
    assert stop(process) == (0, "")


def test_serve_is_open_to_this_machine_alone(start: Start, tmp_path: Path) -> None:
    """Told nothing but a port: TCP on the loopback address, and nothing else."""
    port = free_port()
    process = start(tandem_binary(), "serve", "--port", port, "--memory", "64MiB", cwd=tmp_path)
    wait_serving(process, ("127.0.0.1", port))
    assert not answers(("127.0.0.2", port))
    inodes = set()
    for fd in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of a connection: closed meanwhile
            inodes.add(os.readlink(fd))
    listens = []
    for table in ("tcp", "tcp6", "udp", "udp6", "unix"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            inode, is_open = (words[6], words[3] != "0") if table == "unix" else (words[9], words[3] in ("0A", "07"))
            if is_open and f"socket:[{inode}]" in inodes:
                listens.append((table, words[1]))
    assert listens == [("tcp", f"0100007F:{port:04X}")]
    assert stop(process)[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_ignored_options_are_reported(start: Start, alias: Path) -> None:
    port = free_port()
    process = start(
        *[alias, *AS_ROOT, "-l", "127.0.0.1", f"-p{port}", "-o", "slab_chunk_max=5,relaxed_privileges,hot_lru_pct=30"],
        *["-N", "2"],
    )
    wait_serving(process, ("127.0.0.1", port))
    code, errors = stop(process)
    assert code == 0
    for name in ('"slab_chunk_max=5"', '"relaxed_privileges"', '"hot_lru_pct=30"', "-N"):
        assert len([line for line in errors.splitlines() if name in line and "ignored" in line]) == 1, errors


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-m100", "-c", "100", "-t2", "-I", "2m", "-R", "50", "-b", "100", "-f", "1.5"],
        ["-MCF", "-vv"],
        ["--memory-limit=80", "--conn-limit", "200", "--max-item-size", "512k", "-o", "slab_chunk_max=256"],
        ["-o", "idle_timeout=30,no_maxconns_fast"],
        ["-U", "on"],
    ],
    ids=lambda arguments: " ".join(arguments) or "defaults",
)
def test_options_arrive_as_in_memcached(arguments: list[str], start: Start, alias: Path) -> None:
    """What `stats settings` shows of them."""
    names = ["maxbytes", "maxconns", "udpport", "evictions", "growth_factor", "num_threads", "reqs_per_event"]
    names += ["cas_enabled", "tcp_backlog", "item_size_max", "maxconns_fast", "idle_timeout", "flush_enabled"]
    names += ["verbosity"]
    shown = []
    for program in (memcached_binary(), alias):
        port = free_port()
        given = ["-U", port] if arguments == ["-U", "on"] else ["-p", port, *arguments]
        process = start(program, *AS_ROOT, "-l", "127.0.0.1", *given)
        wait_serving(process, ("127.0.0.1", port))
        settings = settings_of(("127.0.0.1", port))
        assert settings["tcpport"] == str(port)
        shown.append({name: settings[name].replace(str(port), "PORT") for name in names})
        process.kill()
    assert shown[1] == shown[0]


@needs_root
def test_user_is_changed(start: Start, alias: Path) -> None:
    port = free_port()
    process = start(alias, "-u", "nobody", "-l", "127.0.0.1", "-p", port)
    wait_serving(process, ("127.0.0.1", port))
    nobody = pwd.getpwnam("nobody")
    assert status_of(process.pid, "Uid") == [str(nobody.pw_uid)] * 4
    assert status_of(process.pid, "Gid") == [str(nobody.pw_gid)] * 4
    assert status_of(process.pid, "Groups") == []
    assert all(int(status_of(process.pid, of)[0], 16) == 0 for of in ("CapPrm", "CapEff", "CapAmb"))
    assert stop(process)[0] == 0


@needs_root
def test_socket_and_pid_file_belong_to_the_user(start: Start, tmp_path: Path) -> None:
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(0o777)
    process = start(
        *[tandem_binary(), "serve", "--user", "nobody", "--unix", "s.sock", "--pid-file", "t.pid"], cwd=tmp_path
    )
    wait_serving(process, str(tmp_path / "s.sock"))
    wait_until((tmp_path / "t.pid").exists, "the pid file, which is written once it listens")
    for name in ("s.sock", "t.pid"):
        assert (tmp_path / name).owner() == "nobody"
    assert stop(process)[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "mode"), [([], 0o700), (["-a", "0770"], 0o770), (["-a", "606"], 0o606)])
def test_unix_socket(option: list[str], mode: int, start: Start, alias: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    process = start(alias, *AS_ROOT, "-s", path, *option)
    wait_serving(process, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stop(process) == (0, "")
    assert not path.exists()


def test_limits_are_raised(start: Start, alias: Path) -> None:
    port = free_port()
    process = start("sh", "-c", 'ulimit -S -n 200; ulimit -S -c 0; exec "$0" "$@"', alias, *AS_ROOT, "-l", "127.0.0.1",
                    "-p", port, "-c", "400", "-r", "-k")  # fmt: skip
    wait_serving(process, ("127.0.0.1", port))
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert int(re.search(r"Max open files\s+(\d+)", limits)[1]) > 400
    assert re.search(r"Max core file size\s+(\S+)", limits)[1] != "0"
    end = time.monotonic() + 5  # the port is open before the memory is locked
    while (locked_kib := int(status_of(process.pid, "VmLck")[0])) == 0 and time.monotonic() < end:
        time.sleep(0.01)
    code, errors = stop(process)
    assert code == 0
    assert (locked_kib > 0) != ("memory is not locked" in errors), errors


def test_too_many_connections_for_the_system(alias: Path) -> None:
    result = call(alias, *AS_ROOT, "-l", "127.0.0.1", "-p", free_port(), "-c", "9999999")
    assert result.returncode == EX_OSERR
    assert "failed to set rlimit for open files" in result.stderr


# --- in the background ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def daemon(pid_file: Path) -> Iterator[int]:
    """The process that the file names; killed at the end if it still runs."""
    pid = int(pid_file.read_text())
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return status_of(pid, "State")[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_daemon_serves_when_its_parent_returns(alias: Path, tmp_path: Path) -> None:
    pid_file, port = tmp_path / "m.pid", free_port()
    result = call(alias, *AS_ROOT, "-d", "-P", pid_file, "-l", "127.0.0.1", "-p", port)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    with daemon(pid_file) as pid:
        assert answers(("127.0.0.1", port))
        assert os.getsid(pid) == pid, "has left the session"
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert {os.readlink(f"/proc/{pid}/fd/{n}") for n in range(3)} == {"/dev/null"}
        assert list(tmp_path.iterdir()) == [pid_file]
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not is_running(pid), "the daemon ends")
        assert not pid_file.exists()


def test_daemon_with_relative_paths(tmp_path: Path) -> None:
    result = tandem("serve", "--daemon", "--pid-file", "t.pid", "--unix", "t.sock", cwd=tmp_path)
    assert result.returncode == 0
    assert said(result.stderr).startswith("info: serving on ")
    with daemon(tmp_path / "t.pid") as pid:
        assert answers(str(tmp_path / "t.sock"))
        os.kill(pid, signal.SIGINT)
        wait_until(lambda: not is_running(pid), "the daemon ends")
        assert list(tmp_path.iterdir()) == []


def test_daemon_errors_reach_the_terminal(alias: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "m.pid"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call(alias, *AS_ROOT, "-d", "-P", pid_file, "-l", "127.0.0.1", "-p", port)
    assert result.returncode == EX_OSERR
    assert "Address already in use" in result.stderr
    assert not pid_file.exists()


def test_pid_file_that_cannot_be_written(start: Start, alias: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none" / "t.pid"
    result = tandem("serve", "--unix", tmp_path / "s.sock", "--pid-file", missing)
    assert result.returncode == 73
    assert str(missing) in result.stderr
    # memcached goes on.
    process = start(alias, *AS_ROOT, "-s", tmp_path / "m.sock", "-P", missing)
    wait_serving(process, str(tmp_path / "m.sock"))
    code, errors = stop(process)
    assert code == 0
    assert str(missing) in errors


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("mode", ["serve", "memcached"])
def test_clean_stop(how: signal.Signals, mode: str, start: Start, tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    options = ["--unix", path] if mode == "serve" else [*AS_ROOT, "-s", path]
    process = start(tandem_binary(), mode, *options)
    wait_serving(process, str(path))
    with socket.socket(socket.AF_UNIX) as idle:  # clients do not hold it up
        idle.connect(str(path))
        idle.sendall(b"set half 0 0 100\r\nonly so much")
        code, log = stop(process, how)
    assert code == 0
    assert not path.exists()
    lines = said(log).splitlines()
    if mode == "serve":
        assert lines[-2:] == [f"info: stopping: received {how.name}", "info: stopped"]
    else:  # as memcached, which tells of it only with -v
        assert lines == []


@pytest.mark.parametrize("cause", ["received SIGTERM", "a client sent shutdown"])
@pytest.mark.parametrize("mode", ["serve", "memcached"])
def test_a_stop_is_logged_with_its_cause(mode: str, cause: str, start: Start, tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    as_root = ["--user", "root"] if AS_ROOT else []
    options = (
        [*as_root, "--shutdown-command", "--unix", path] if mode == "serve" else [*AS_ROOT, "-v", "-A", "-s", path]
    )
    process = start(tandem_binary(), mode, *options)
    wait_serving(process, path)
    if "client" in cause:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"shutdown\r\n")
            assert client.recv(100) == b""
        _, log = process.communicate(timeout=DEADLINE_S)
    else:
        _, log = stop(process)
    lines = [line for line in said(log).splitlines() if "serving" not in line]
    assert (process.returncode, lines) == (0, [f"info: stopping: {cause}", "info: stopped"])


def test_usr1_stops_memcached_mode(start: Start, alias: Path, tmp_path: Path) -> None:
    process = start(alias, *AS_ROOT, "-s", tmp_path / "s.sock")
    wait_serving(process, str(tmp_path / "s.sock"))
    code, log = stop(process, signal.SIGUSR1)
    assert (code, said(log)) == (0, "info: Gracefully stopping\n")


def test_signals_that_serve_survives(start: Start, tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    process = start(tandem_binary(), "serve", "--unix", path)
    wait_serving(process, path)
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE):
        process.send_signal(number)
    # Signals are taken in no promised order: a stop that came first would have hidden an end by one of them.
    pending = re.compile(r"^(SigPnd|ShdPnd):\s*0+$", re.MULTILINE)
    wait_until(lambda: len(pending.findall(Path(f"/proc/{process.pid}/status").read_text())) == 2, "signals are taken")
    assert answers(path)
    assert stop(process)[0] == 0


def test_stock_server_class_works_with_the_alias(alias: Path) -> None:
    server = Server([str(alias)])
    try:
        assert answers(server.address())
    finally:
        server.close()
