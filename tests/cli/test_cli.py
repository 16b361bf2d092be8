"""The program itself: how it is called, what it prints, how it starts and ends."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import memcached_binary, tandem_binary
from harness.server import SANITIZER_REPORTS, Server, free_port

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 20.0
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can change its user")
AS_ROOT = ["-u", "root"] if IS_ROOT else []

EX_USAGE, EX_NOINPUT, EX_NOUSER, EX_OSERR, EX_CONFIG = 64, 66, 67, 71, 78


@pytest.fixture(scope="module")
def alias(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program under the name memcached."""
    link = tmp_path_factory.mktemp("bin") / "memcached"
    link.symlink_to(tandem_binary().resolve())
    return link


def call(*command: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    """Runs a program that is to end by itself."""
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        stdin=subprocess.DEVNULL,
        **keywords,
    )


def tandem(*arguments: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    return call(tandem_binary(), *arguments, **keywords)


Start = Callable[..., subprocess.Popen]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs that serve; stderr is a pipe. Those still running at the end are killed."""
    started: list[subprocess.Popen] = []

    def run(*command: object, **keywords: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **keywords,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until(done: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, f"not in {DEADLINE_S} s: {what}"
        time.sleep(0.005)


def ask(address: str | tuple[str, int], request: bytes = b"version\r\n", end: bytes = b"\r\n") -> bytes:
    """The reply to one command, or an OSError."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(address)
        connection.sendall(request)
        reply = b""
        while not reply.endswith(end):
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError(f"closed after {reply!r}")
            reply += data
        return reply


def answers(address: str | tuple[str, int]) -> bool:
    try:
        return ask(address).startswith(b"VERSION ")
    except OSError:
        return False


def wait_serving(process: subprocess.Popen, address: str | tuple[str, int]) -> None:
    def serving() -> bool:
        assert process.poll() is None, f"exited with {process.returncode}: {process.stderr.read()}"
        return answers(address)

    wait_until(serving, f"answers at {address}")


def stop(process: subprocess.Popen, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Exit code and all of stderr."""
    process.send_signal(how)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert not any(report in errors for report in SANITIZER_REPORTS), errors
    return process.returncode, errors


def status_of(pid: int, name: str) -> list[str]:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.split()[1:]
    raise AssertionError(f"no {name} of process {pid}")


# --- what is printed --------------------------------------------------------------------------------------------------


def test_version_is_the_projects() -> None:
    project = re.search(r"project\(tandem VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert project is not None
    assert tandem("version").stdout == f"tandem {project[1]}\n"
    assert tandem("--version").stdout == f"tandem {project[1]}\n"


def test_help_lists_the_commands() -> None:
    for word in ("help", "--help", "-h"):
        result = tandem(word)
        assert result.returncode == 0
        for command in ("serve", "memcached", "options", "version", "help"):
            assert re.search(rf"^  {command} ", result.stdout, re.MULTILINE), result.stdout


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["version", "x"], ["help", "x"], ["options", "x"]])
def test_bad_calls(arguments: list[str]) -> None:
    result = tandem(*arguments)
    assert result.returncode == EX_USAGE
    assert result.stdout == ""
    assert result.stderr != ""


def test_committed_docs_are_what_the_program_prints() -> None:
    assert tandem("options").stdout == (ROOT / "docs/options.md").read_text()
    assert tandem("options", "--toml").stdout == (ROOT / "deploy/tandem.toml").read_text()


def test_alias_is_the_memcached_command(alias: Path) -> None:
    for option in ("-h", "--help", "-V", "--version", "-i"):
        ours, same = call(alias, option), tandem("memcached", option)
        assert (ours.returncode, ours.stdout, ours.stderr) == (0, same.stdout, "")
    # Scripts read the first two words.
    reference = call(memcached_binary(), "-V").stdout.split()
    assert call(alias, "-V").stdout.split()[:2] == reference
    assert call(alias, "-h").stdout.split()[:2] == reference


# --- bad options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p"],
        ["-Q"],
        ["--bogus"],
        ["--port"],
        ["-c", "0"],
        ["-c", "-1"],
        ["-t", "0"],
        ["-f", "1"],
        ["-n", "0"],
        ["-R", "0"],
        ["-D", ""],
        ["-B", "foo"],
        ["-o", "idle_timeout"],
        ["-I", "1"],
        ["-I", "2000m"],
        ["-m", "0"],
        ["-m", "1"],
        ["-m", "4096", "-I", "1025m"],
        ["-p", "99999"],
    ],
    ids=" ".join,
)
def test_refused_in_memcacheds_words(arguments: list[str], alias: Path) -> None:
    """Same message, same exit code."""
    results = [
        call("memcached", *AS_ROOT, *arguments, executable=str(program)) for program in (memcached_binary(), alias)
    ]
    reference, ours = ((result.returncode, result.stdout, result.stderr) for result in results)
    assert ours == reference


@needs_root
def test_root_has_to_name_a_user(alias: Path) -> None:
    for arguments in ([], ["-u", ""], ["-u", "no_such_user_here"]):
        reference, ours = (call(program, *arguments) for program in (memcached_binary(), alias))
        assert (ours.returncode, ours.stderr) == (reference.returncode, reference.stderr)


@pytest.mark.parametrize(
    "arguments",
    [["-S"], ["-Z"], ["-Y", "/etc/hostname"], ["-B", "binary"], ["-o", "drop_privileges"], ["--enable-ssl"]],
    ids=" ".join,
)
def test_what_would_protect_is_refused_not_ignored(arguments: list[str], alias: Path) -> None:
    result = call(alias, *AS_ROOT, "-p", free_port(), *arguments)
    assert result.returncode == EX_USAGE
    assert "not supported yet" in result.stderr


def test_address_errors(alias: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call(alias, *AS_ROOT, "-l", "127.0.0.1", "-p", port)
        assert result.returncode == EX_OSERR
        assert "Address already in use" in result.stderr and str(port) in result.stderr
        result = tandem("serve", "--port", port, "--udp-port", 0)
        assert result.returncode == EX_OSERR
        assert "Address already in use" in result.stderr and str(port) in result.stderr
    assert call(alias, *AS_ROOT, "-l", "host.invalid", "-p", port).returncode == EX_OSERR
    result = call(alias, *AS_ROOT, "-s", "/nonexistent/folder/socket")
    assert result.returncode == EX_OSERR
    assert "/nonexistent/folder/socket" in result.stderr


# --- serving as memcached ---------------------------------------------------------------------------------------------


def test_memcached_mode_is_silent_and_open_to_all_interfaces(start: Start, alias: Path) -> None:
    port = free_port()
    process = start(alias, *AS_ROOT, "-p", port)
    wait_serving(process, ("127.0.0.1", port))
    assert answers(("127.0.0.2", port))
    with socket.socket(type=socket.SOCK_DGRAM) as udp, contextlib.suppress(ConnectionRefusedError):
        udp.bind(("127.0.0.1", port))  # UDP is off: the port is free
    assert stop(process) == (0, "")


def test_ignored_options_are_reported(start: Start, alias: Path) -> None:
    port = free_port()
    process = start(
        *[alias, *AS_ROOT, "-l", "127.0.0.1", f"-p{port}", "-o", "lru_crawler,relaxed_privileges,no_such_thing=1"],
        *["-A", "-X"],
    )
    wait_serving(process, ("127.0.0.1", port))
    code, errors = stop(process)
    assert code == 0
    for name in ('"lru_crawler"', '"relaxed_privileges"', '"no_such_thing=1"', "-A", "-X"):
        assert len([line for line in errors.splitlines() if name in line and "ignored" in line]) == 1, errors


def settings_of(address: tuple[str, int]) -> dict[str, str]:
    lines = ask(address, b"stats settings\r\n", b"END\r\n").decode().splitlines()
    return dict(line.split(" ", 2)[1:] for line in lines[:-1])


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
    assert stop(process)[0] == 0


@needs_root
def test_socket_and_pid_file_belong_to_the_user(start: Start, tmp_path: Path) -> None:
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(0o777)
    process = start(
        *[tandem_binary(), "serve", "--user", "nobody", "--unix", "s.sock", "--pid-file", "t.pid"], cwd=tmp_path
    )
    wait_serving(process, str(tmp_path / "s.sock"))
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
    locked_kib = int(status_of(process.pid, "VmLck")[0])
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
    assert result.stderr.startswith("serving on ")
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


# --- tandem serve -----------------------------------------------------------------------------------------------------


def test_serve_says_what_it_serves(start: Start) -> None:
    port = free_port()
    process = start(tandem_binary(), "serve", "--port", port, "--udp-port", port, "--threads", 2, "--memory", "64MiB")
    wait_serving(process, ("127.0.0.1", port))
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.settimeout(DEADLINE_S)
        udp.sendto(b"\0\1\0\0\0\1\0\0version\r\n", ("127.0.0.1", port))
        assert udp.recv(100)[8:].startswith(b"VERSION ")
    assert not answers(("127.0.0.2", port)), "only 127.0.0.1 by default"
    code, errors = stop(process)
    assert code == 0
    assert re.fullmatch(
        rf"serving on 127\.0\.0\.1:{port} \(TCP, UDP\), 64\.0 MiB, 2 threads, lanes (scalar|avx2|avx512|neon)\n", errors
    ), errors


def test_serve_on_any_free_port_says_which(start: Start) -> None:
    process = start(tandem_binary(), "serve", "--port", -1, "--udp-port", 0)
    line = process.stderr.readline()
    port = int(re.match(r"serving on 127\.0\.0\.1:(\d+) \(TCP\)", line)[1])
    assert answers(("127.0.0.1", port))
    assert stop(process) == (0, "")


def test_command_line_over_file_over_default(start: Start, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "t.toml"
    file.write_text(f'port = {port}\nudp-port = 0\nmemory = "32MiB"\nthreads = 3\nflush = false\n')
    process = start(tandem_binary(), "serve", "--config", file, "--threads", 2)
    wait_serving(process, ("127.0.0.1", port))
    settings = settings_of(("127.0.0.1", port))
    assert settings["num_threads"] == "2"
    assert settings["maxbytes"] == str(32 << 20)
    assert settings["maxconns"] == "1024"
    assert not ask(("127.0.0.1", port), b"flush_all\r\n").startswith(b"OK")
    assert stop(process)[0] == 0


def test_example_file_serves(start: Start) -> None:
    port = free_port()
    process = start(tandem_binary(), "serve", "--config", ROOT / "deploy/tandem.toml", "--port", port, "--udp-port", 0)
    wait_serving(process, ("127.0.0.1", port))
    assert stop(process)[0] == 0


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("\nprot = 1\n", EX_CONFIG, '{file}:2: unknown key "prot"'),
        ("port = {port}\nthreads = true\n", EX_CONFIG, "{file}:2: threads: expected an integer from 1 to 1024, got a"),
        ("port = {port}\nmemory = '1kB'\n", EX_CONFIG, "{file}:2: memory: expected a size"),
        ("port = 99999\n", EX_CONFIG, "{file}:1: port: expected an integer from -1 to 65535, got 99999"),
        ("port = {port}\nport = {port}\n", EX_CONFIG, "{file}:2: "),
        ("item-max = '1GiB'\n", EX_USAGE, "{file}:1: item-max: 1GiB is more than half of the memory (1GiB)"),
    ],
)
def test_mistakes_in_the_file_start_nothing(text: str, code: int, message: str, tmp_path: Path) -> None:
    file, port = tmp_path / "t.toml", free_port()
    file.write_text(text.replace("{port}", str(port)))
    result = tandem("serve", "--config", file)
    assert result.returncode == code
    assert result.stderr.startswith("tandem: " + message.replace("{file}", str(file))), result.stderr
    assert not answers(("127.0.0.1", port))


def test_missing_file() -> None:
    result = tandem("serve", "--config", "/nonexistent/tandem.toml")
    assert result.returncode == EX_NOINPUT
    assert result.stderr == "tandem: /nonexistent/tandem.toml: No such file or directory\n"


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
        assert stop(process, how)[0] == 0
    assert not path.exists()


def test_usr1_stops_memcached_mode(start: Start, alias: Path, tmp_path: Path) -> None:
    process = start(alias, *AS_ROOT, "-s", tmp_path / "s.sock")
    wait_serving(process, str(tmp_path / "s.sock"))
    assert stop(process, signal.SIGUSR1) == (0, "Gracefully stopping\n")


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
