"""The systemd unit: checked by systemd's own tools, and the server run under the unit's filter of system calls."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import HOST, free_port

from package.test_package import BUILD, run

pytestmark = pytest.mark.timeout(120)
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "server")
    return prefix / "lib/systemd/system/tandem.service"


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def test_it_starts_the_installed_program_with_the_installed_settings(unit: Path) -> None:
    (command,) = settings(unit)["ExecStart"]
    program, *words = command.split()
    prefix = unit.parents[3]
    assert (program, words) == (f"{prefix}/bin/tandem", ["serve", "--config", f"{prefix}/etc/tandem/tandem.toml"])
    assert os.access(program, os.X_OK) and Path(words[-1]).is_file()


def test_systemd_finds_no_mistake(unit: Path) -> None:
    assert run("systemd-analyze", "verify", "--man=no", unit) == ""


def test_the_members_unit_is_bound_to_the_servers(unit: Path) -> None:
    member = unit.with_name("tandem-member.service")
    found = settings(member)
    assert found["BindsTo"] == ["tandem.service"] and found["After"][0].startswith("tandem.service ")
    (command,) = found["ExecStart"]
    program, *words = command.split()
    prefix = unit.parents[3]
    assert (program, words) == (f"{prefix}/bin/tandem-member", ["run", "--config", f"{prefix}/etc/tandem/member.toml"])
    assert os.access(program, os.X_OK)
    assert run("systemd-analyze", "verify", "--man=no", unit, member) == ""
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", member)


def test_a_mistake_would_be_found(unit: Path, tmp_path: Path) -> None:
    bad = tmp_path / "tandem.service"
    bad.write_text(unit.read_text().replace("NoNewPrivileges=yes", "NoNewPrivilege=yes"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", bad], capture_output=True, text=True)
    assert "NoNewPrivilege" in done.stderr


def test_it_is_exposed_to_little(unit: Path) -> None:
    """systemd's own measure, 0 to 10, here times 10: an untouched unit has 96."""
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


# --- readiness --------------------------------------------------------------------------------------------------------


@contextmanager
def manager(path: Path) -> Iterator[socket.socket]:
    """The service manager's end of $NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(path))
        end.settimeout(DEADLINE_S)
        yield end


def test_the_manager_is_told_when_the_server_listens_and_when_it_stops(tmp_path: Path) -> None:
    port = free_port()
    command = [tandem_binary(), "serve", "--port", str(port), "--udp-port", "0", "--memory", "64MiB"]
    with manager(tmp_path / "notify") as end:
        process = subprocess.Popen(command, env=os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        try:
            assert end.recv(100) == b"READY=1"
            socket.create_connection((HOST, port), timeout=DEADLINE_S).close()
            process.terminate()
            assert end.recv(100) == b"STOPPING=1"
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
            process.wait()


def test_the_manager_is_not_told_when_the_start_fails(tmp_path: Path) -> None:
    with manager(tmp_path / "notify") as end, socket.socket() as other:
        other.bind((HOST, 0))
        command = [tandem_binary(), "serve", "--port", str(other.getsockname()[1]), "--udp-port", "0"]
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        assert subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE_S).returncode != 0
        end.setblocking(False)
        with pytest.raises(BlockingIOError):
            end.recv(100)


# --- system calls -----------------------------------------------------------------------------------------------------


def members(group: str) -> set[str]:
    """The system calls of one of systemd's groups, groups inside it included."""
    found: set[str] = set()
    for line in run("systemd-analyze", "syscall-filter", group).splitlines()[1:]:
        name = line.strip()
        if name and not name.startswith("#"):
            found |= members(name) if name.startswith("@") else {name}
    return found


def allowed(unit: Path) -> set[str]:
    """What SystemCallFilter= leaves, and what systemd itself needs between the filter and the program."""
    calls = members("@default") | {"execve"}
    for entry in settings(unit)["SystemCallFilter"]:
        name = entry.removeprefix("~")
        group = members(name) if name.startswith("@") else {name}
        calls = calls - group if entry.startswith("~") else calls | group
    return calls


def filter_for(calls: set[str]) -> ctypes.c_void_p:
    """A filter that ends the process at any other call, where the unit's says EPERM: none is overlooked."""
    library = seccomp()
    kill_process, allow = 0x80000000, 0x7FFF0000
    context = ctypes.c_void_p(library.seccomp_init(kill_process))
    for call in calls:
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # else of another architecture
            assert library.seccomp_rule_add(context, allow, number, 0) == 0, call
    return context


def seccomp() -> ctypes.CDLL:
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)  # systemd's own
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    library.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    return library


@pytest.mark.parametrize("more", [[], ["--seccomp"]], ids=["", "with its own beside it"])
def test_the_server_lives_under_the_filter(unit: Path, more: list[str]) -> None:
    context = filter_for(allowed(unit))
    port = free_port()
    options = ["--listen", HOST, "--port", str(port), "--udp-port", str(port), "--memory", "64MiB", "--threads", "2"]
    process = subprocess.Popen(
        [tandem_binary(), "serve", *options, "--lock-memory", "--connections", "100", *more],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: seccomp().seccomp_load(context),
    )
    try:
        line = process.stderr.readline()
        while line and "serving on" not in line:
            line = process.stderr.readline()
        assert line, f"ended with {process.wait()}: it needs a system call that the unit forbids"
        requests = (
            b"".join(b"set k%d 0 1 3\r\nabc\r\n" % n for n in range(1000)) + b"get k1\r\nstats\r\nflush_all\r\nmn\r\n"
        )
        with socket.create_connection((HOST, port), timeout=DEADLINE_S) as connection:
            connection.sendall(requests)
            reply = b""
            while not reply.endswith(b"OK\r\nMN\r\n"):
                data = connection.recv(65536)
                assert data, f"closed after {reply[-100:]!r}"
                reply += data
        with socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(DEADLINE_S)
            datagrams.sendto(b"\0\1\0\0\0\1\0\0version\r\n", (HOST, port))
            assert b"VERSION" in datagrams.recv(2000)
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_forbidden_call_would_be_found(unit: Path) -> None:
    context = filter_for(allowed(unit) - members("@network-io"))
    done = subprocess.run(
        [tandem_binary(), "serve", "--port", "-1", "--udp-port", "0"],
        capture_output=True,
        timeout=DEADLINE_S,
        preexec_fn=lambda: seccomp().seccomp_load(context),
    )
    assert done.returncode < 0
