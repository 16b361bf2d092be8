"""memcached's command line options: what each does, seen from outside."""

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
from collections.abc import Callable
from pathlib import Path

import pytest
from conformance.conftest import NO_BACKGROUND
from conftest import start_tandem, tandem_binary
from harness.server import HOST, PATIENCE_S, Server, free_port
from harness.wire import Stream, UdpClient

from integration.conftest import ask, stats

OPTIONS = [
    "-p", "-U", "-s", "-a", "-l", "-d", "-u", "-m", "-M", "-c", "-k", "-v", "-vv", "-vvv", "-h", "-V", "-P", "-f", "-n",
    "-L", "-t", "-R", "-C", "-b", "-I", "-o", "-B", "-S", "-Y",
]  # fmt: skip

# Options and the setting in which each shows.
SETTINGS = [
    (["-m", "128"], "maxbytes", str(128 << 20)),
    (["-M"], "evictions", "off"),
    ([], "evictions", "on"),
    (["-c", "77"], "maxconns", "77"),
    (["-t", "3"], "num_threads", "3"),
    (["-I", "2m"], "item_size_max", str(2 << 20)),
    (["-I", "512k"], "item_size_max", str(512 << 10)),
    (["-I", "1048576"], "item_size_max", str(1 << 20)),
    (["-f", "1.5"], "growth_factor", "1.50"),
    (["-n", "100"], "chunk_size", "100"),
    (["-b", "333"], "tcp_backlog", "333"),
    (["-R", "55"], "reqs_per_event", "55"),
    (["-C"], "cas_enabled", "no"),
    ([], "cas_enabled", "yes"),
    ([], "binding_protocol", "auto-negotiate"),
    (["-B", "ascii"], "binding_protocol", "ascii"),
    ([], "auth_enabled_sasl", "no"),
    ([], "auth_enabled_ascii", "no"),
    (["-v"], "verbosity", "1"),
    (["-vv"], "verbosity", "2"),
    (["-o", "idle_timeout=60"], "idle_timeout", "60"),
    (["-o", "track_sizes"], "track_sizes", "yes"),
    (["-o", "no_maxconns_fast"], "maxconns_fast", "no"),
    (["--threads=3"], "num_threads", "3"),
    (["--conn-limit=78"], "maxconns", "78"),
    (["--disable-evictions"], "evictions", "off"),
    (["--max-item-size=2m"], "item_size_max", str(2 << 20)),
    (["--disable-cas", "--max-reqs-per-event=9", "--listen-backlog=99"], "tcp_backlog", "99"),
    (["--slab-growth-factor=2", "--slab-min-size=64"], "growth_factor", "2.00"),
    (["-t3", "-c79"], "maxconns", "79"),
    (["-Mv"], "verbosity", "1"),
]


def command(*arguments: str) -> list[str]:
    return [str(tandem_binary()), "memcached", *arguments]


def as_user() -> list[str]:
    """memcached refuses to run as root unless told to."""
    return ["-u", pwd.getpwuid(os.geteuid()).pw_name] if os.geteuid() == 0 else []


def serves(server: Server) -> None:
    """A smoke test of values small and large."""
    for size in (1, 100, 10_000, 200_000):
        value = b"s" * size
        request = b"set serves 0 0 %d\r\n%s\r\nget serves\r\n" % (size, value)
        assert ask(server, request) == b"STORED\r\nVALUE serves 0 %d\r\n%s\r\nEND\r\n" % (size, value)


@pytest.mark.parametrize(
    ("options", "name", "value"), SETTINGS, ids=lambda part: " ".join(part) if isinstance(part, list) else None
)
def test_option_is_in_force(options: list[str], name: str, value: str, tandem: Callable[..., Server]) -> None:
    server = tandem(*options)
    assert stats(server, b"settings")[name] == value
    serves(server)


def test_addresses_are_in_the_settings(tandem: Callable[..., Server]) -> None:
    server = tandem()
    settings = stats(server, b"settings")
    assert settings["tcpport"] == str(server.port) and settings["udpport"] == str(server.port)
    assert settings["inter"] == HOST


def test_version() -> None:
    for option in ("-V", "--version"):
        result = subprocess.run(command(option), capture_output=True, text=True, timeout=10, check=True)
        assert re.match(r"\w+ \d+\.\d+", result.stdout), result.stdout


def test_help_names_every_option() -> None:
    for option in ("-h", "--help"):
        result = subprocess.run(command(option), capture_output=True, text=True, timeout=10, check=True)
        missing = [name for name in OPTIONS if not re.search(rf"(?<![\w-]){name}\b", result.stdout)]
        assert not missing, f"{option} does not tell of {missing}"


WRONG = [["--nosuch"], ["-Q"], ["-I", "4000000000"], ["-m"], ["-I", "0"], ["-p", "70000"], ["-t", "x"], ["-c", "0"]]


@pytest.mark.parametrize("wrong", WRONG, ids=" ".join)
def test_wrong_options_are_refused(wrong: list[str]) -> None:
    arguments = [*wrong, *([] if "-p" in wrong else ["-p", str(free_port())]), "-l", HOST, *as_user()]
    if wrong == ["-m"]:
        arguments = wrong  # nothing follows that could be its number
    result = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=10, check=False)
    assert result.returncode != 0
    assert result.stderr.strip(), "nothing says why"


def test_port_in_use_is_refused(server: Server) -> None:
    arguments = ["-p", str(server.port), "-U", "0", "-l", HOST, *as_user()]
    result = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=10, check=False)
    assert result.returncode != 0
    assert result.stderr.strip()
    serves(server)


@pytest.mark.beyond_memcached("only its debug build knows the name")
def test_an_o_name_without_a_meaning_is_reported_and_ignored(tandem: Callable[..., Server]) -> None:
    server = tandem("-o", "relaxed_privileges")
    serves(server)
    assert '-o "relaxed_privileges" has no effect, ignored' in server.output()


@pytest.mark.parametrize(
    "names", ["no_such_thing=5,modern", "hashpower=20,no_such_thing", "drop_priviliges", "ssl_verify_mod=2"]
)
def test_o_names_that_memcached_does_not_know_end_the_start(names: str) -> None:
    arguments = ["-p", str(free_port()), "-U", "0", "-l", HOST, *as_user(), "-o", names]
    result = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=10, check=False)
    assert result.returncode == 1
    assert re.match(r'Illegal suboption "\w+(=\d)?"', result.stderr), result.stderr


@pytest.mark.parametrize(
    "names", ["modern", "hashpower=18", "no_lru_crawler", "maxconns_fast,hash_algorithm=jenkins", "slab_chunk_max=256"]
)
def test_known_o_names_are_taken(names: str, tandem: Callable[..., Server]) -> None:
    """Also those that have no meaning for this server: service files that use them keep working."""
    serves(tandem("-o", names))


def test_called_as_memcached(tmp_path: Path) -> None:
    """Through a link of that name no sub-command is needed."""
    link = tmp_path / "memcached"
    link.symlink_to(tandem_binary().resolve())
    server = Server([str(link)], "-t", "2")
    try:
        serves(server)
        assert stats(server, b"settings")["num_threads"] == "2"
    finally:
        server.close()


def test_unix_socket_and_its_mask(tandem: Callable[..., Server], tmp_path: Path) -> None:
    for mask, mode in (([], 0o700), (["-a", "0777"], 0o777), (["-a", "660"], 0o660)):
        path = tmp_path / f"socket{mode:o}"
        server = tandem(*mask, unix_path=path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        serves(server)
        settings = stats(server, b"settings")
        assert settings["domain_socket"] == str(path) and settings["umask"] == f"{mode:o}"


def test_stale_socket_file_is_replaced(tandem: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    serves(tandem(unix_path=path))


def test_listen_addresses(tandem: Callable[..., Server]) -> None:
    port = free_port()
    server = tandem("-l", "127.0.0.2", "-p", str(port), "-U", str(port), ports=False, wait=False)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            Stream(socket.create_connection(("127.0.0.2", port), timeout=5)).close()
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=5)
    with UdpClient(("127.0.0.2", port)) as udp:
        assert udp.exchange(b"get x\r\n")[0].payload == b"END\r\n"
    server.check_alive()


def test_several_listen_addresses(tandem: Callable[..., Server]) -> None:
    port = free_port()
    for option in (["-l", "127.0.0.1,127.0.0.3"], ["-l", "127.0.0.1", "-l", "127.0.0.3"]):
        server = tandem(*option, "-p", str(port), ports=False, wait=False)
        server.port = port
        server.wait_ready()
        for host in (HOST, "127.0.0.3"):
            with Stream(socket.create_connection((host, port), timeout=5)) as stream:
                assert stream.exchange(b"mn\r\n").data == b"MN\r\n"
        server.stop()


def test_udp_is_off_unless_asked_for(tandem: Callable[..., Server]) -> None:
    for option in ([], ["-U", "0"]):
        port = free_port()
        server = tandem("-p", str(port), "-l", HOST, *option, ports=False, wait=False)
        server.port = port
        server.wait_ready()
        with UdpClient((HOST, port)) as udp:
            udp.send(b"version\r\n")
            with pytest.raises(ConnectionRefusedError):
                udp.receive(2.0)
                udp.receive(2.0)


@pytest.mark.parametrize(
    "option",
    [
        ["-L"],
        ["-k"],
        ["-r"],
        ["-f", "1.05"],
        ["-f", "4"],
        ["-n", "8"],
        ["-n", "1000"],
        ["-R", "1"],
        ["-R", "100000"],
        ["-b", "1"],
        ["-t", "1"],
        ["-t", "8"],
    ],
)
def test_serves_with(option: list[str], tandem: Callable[..., Server]) -> None:
    server = tandem(*option)
    serves(server)
    with Stream(server.connect()) as stream:
        deep = stream.exchange(b"set deep 0 0 1\r\n0\r\n" + b"incr deep 1\r\n" * 2000).data
        assert deep.endswith(b"\r\n1999\r\n2000\r\n")


def test_memory_is_locked_with_k(tandem: Callable[..., Server]) -> None:
    """Where the system allows it; else the server says that it does not, and serves."""
    server = tandem("-k")
    serves(server)
    status = Path(f"/proc/{server.pid}/status").read_text()
    locked_kib = int(re.search(r"VmLck:\s+(\d+)", status)[1])
    assert locked_kib > 0 or server.output().strip()


def test_no_cas_with_C(tandem: Callable[..., Server], memcached: Callable[..., Server]) -> None:
    requests = (
        b"set a 0 0 1\r\n1\r\ngets a\r\ncas a 0 0 1 0\r\n2\r\ncas a 0 0 1 1\r\n2\r\nget a\r\n",
        b"mg a c v\r\nms a 1 c\r\n3\r\nms a 1 C5\r\n4\r\nms a 1 C0\r\n4\r\nmg a v c\r\nmd a C9\r\n",
        # On its own: memcached's "fetch" depends on whether a reply before still holds the item.
        b"ma a c\r\nme a\r\n",
    )
    ours, theirs = memcached("-C", *NO_BACKGROUND), tandem("-C", *NO_BACKGROUND)
    for request in requests:
        reference, candidate = (re.sub(rb"(cls|size)=\d+", rb"\1", ask(server, request)) for server in (ours, theirs))
        assert reference == candidate


def test_runs_as_another_user(tmp_path: Path) -> None:
    """As root -u changes the user; otherwise it changes nothing."""
    if os.geteuid() != 0:
        server = start_tandem("-u", "nobody")
        wanted = os.geteuid()
    else:
        server = start_tandem(run_as="nobody")
        wanted = pwd.getpwnam("nobody").pw_uid
    try:
        serves(server)
        uids = re.search(r"Uid:\s+(\d+)\s+(\d+)\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text()).groups()
        assert {int(uid) for uid in uids} == {wanted}
    finally:
        server.close()


def test_verbosity_shows_commands(tandem: Callable[..., Server]) -> None:
    """-vv prints what clients ask; without it nothing of them is printed."""
    for option, shown in (([], False), (["-v"], False), (["-vv"], True), (["-vvv"], True)):
        server = tandem(*option)
        ask(server, b"get seen_in_the_log\r\n")
        assert ("seen_in_the_log" in server.output()) == shown, option


def test_the_log_shows_bytes_as_text(tandem: Callable[..., Server]) -> None:
    """No client writes lines of its own into the log, or to the terminal that shows it."""
    server = tandem("-vv")
    ask(server, b"get \x1b[31mred\r\xff\r\n")
    with server.connect() as connection:
        key = b"k\n[warning] forged"
        connection.sendall(b"\x80\x00" + len(key).to_bytes(2) + bytes(4) + len(key).to_bytes(4) + bytes(12) + key)
        assert connection.recv(100)
    assert "get \\x1b[31mred\\x0d\\xff\n" in server.output()
    assert "binary request 0 k\\x0a[warning] forged\n" in server.output()


def test_a_log_that_nobody_reads(tmp_path: Path, tandem: Callable[..., Server]) -> None:
    """Lines for which a full pipe has no room are left out: no client waits, and the server ends when asked."""
    fifo = tmp_path / "stderr"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        into_pipe = ["sh", "-c", f'exec "$@" 2>{fifo}', "sh", *command()]
        server = Server(into_pipe, "-t", "2")
        try:
            assert ask(server, b"verbosity 3\r\n") == b"OK\r\n"
            request = b"get " + b"k" * 200 + b"\r\n"
            for _ in range(50):
                assert ask(server, request * 20) == b"END\r\n" * 20
            read = os.read(reader, 1 << 20)
            ask(server, request)
            assert b" lines were left out: stderr was full\n" in os.read(reader, 1 << 20)
            assert read.endswith(b"\n")
            for _ in range(50):
                ask(server, request * 20)
        finally:
            server.close()
    finally:
        os.close(reader)


def test_daemon_and_pid_file(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    port = free_port()
    arguments = ["-d", "-P", str(pid_file), "-p", str(port), "-U", "0", "-l", HOST, *as_user()]
    result = subprocess.run(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=10,
        check=False,
    )
    assert result.returncode == 0
    deadline = time.monotonic() + PATIENCE_S
    while not pid_file.exists() or not pid_file.read_text().strip():
        assert time.monotonic() < deadline, "no pid file"
        time.sleep(0.01)
    pid = int(pid_file.read_text())
    try:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                connection = socket.create_connection((HOST, port), timeout=5)
                break
            assert time.monotonic() < deadline, "the daemon does not listen"
            time.sleep(0.01)
        with Stream(connection) as stream:
            assert f"STAT pid {pid}\r\n".encode() in stream.exchange(b"stats\r\n").data
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        assert int(fields[1]) != os.getpid(), "still a child of the one who started it"
        assert os.getsid(pid) != os.getsid(0), "still in the session of the one who started it"
    finally:
        os.kill(pid, signal.SIGTERM)
    while Path(f"/proc/{pid}").exists() and not zombie(pid):
        assert time.monotonic() < deadline, "the daemon does not stop"
        time.sleep(0.01)
    assert not pid_file.exists(), "the pid file is left behind"


def zombie(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    return True
