"""`config` and the control socket (docs/fleet.md): who may read and write, the socket's file, limits, statistics; and
what the clients of ElastiCache that no registry has in this form make of a reply, by their own patterns."""

from __future__ import annotations

import re
import resource
import socket
import stat
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.binary import BinaryStream, Packet
from harness.server import HOST, Server, ServerError, free_port, wait_until
from harness.wire import Stream, UdpClient

Start = Callable[..., Server]
READ_ONLY = b"CLIENT_ERROR config is read-only here\r\n"
NODES = b"tandem-0.tandem.example|192.0.2.10|11211 tandem-1.tandem.example|192.0.2.11|11211"


def document(version: int, nodes: bytes = NODES) -> bytes:
    return b"%d\n%s\n" % (version, nodes)


def config_set(value: bytes, key: bytes = b"cluster", more: bytes = b"") -> bytes:
    return b"config set %s 0 %d%s\r\n%s\r\n" % (key, len(value), more, value)


def config_of(value: bytes) -> bytes:
    return b"CONFIG cluster 0 %d\r\n%s\r\nEND\r\n" % (len(value), value)


def control_of(path: Path) -> Stream:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(str(path))
    return Stream(connection)


def ask(stream: Stream, request: bytes) -> bytes:
    return stream.exchange(request).data


def stats(stream: Stream, group: bytes) -> dict[str, str]:
    lines = ask(stream, b"stats %s\r\n" % group).decode().splitlines()
    return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT "))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
def server(tandem: Start, path: Path) -> Server:
    return tandem("-t", "2", "-o", f"control={path}")


def test_a_list_that_is_set_over_the_control_socket_is_read_by_all(server: Server, path: Path) -> None:
    with control_of(path) as control, Stream(server.connect()) as client, BinaryStream(server.connect()) as packets:
        assert ask(client, b"config get cluster\r\n") == b"END\r\n"
        assert ask(control, config_set(document(7))) == b"STORED\r\n"
        assert ask(client, b"config get cluster\r\n") == config_of(document(7))
        assert [(a.status, a.value) for a in packets.ask(Packet(0x60, b"cluster"))] == [(0, document(7))]
        with UdpClient((HOST, server.port)) as udp:
            assert udp.exchange(b"config get cluster\r\n")[0].payload == config_of(document(7))
        assert ask(client, config_set(b"flush_all") + b"mn\r\n") == READ_ONLY + b"MN\r\n"
        assert [a.status for a in packets.ask(Packet(0x64, b"cluster", bytes(4), document(8)))] == [0x20]
        assert [a.status for a in packets.ask(Packet(0x66, b"cluster"))] == [0x20]
        assert ask(client, b"config delete cluster\r\n") == READ_ONLY
        assert ask(control, b"config delete cluster\r\n") == b"DELETED\r\n"
        assert ask(client, b"config get cluster\r\n") == b"END\r\n"


def test_a_refused_list_changes_nothing(server: Server, path: Path) -> None:
    with control_of(path) as control:
        assert ask(control, config_set(document(7))) == b"STORED\r\n"
        for bad in (document(6), document(7, b"a|192.0.2.1|1"), document(8)[:-1], document(8, b""), b"8\n", b""):
            assert ask(control, config_set(bad)).startswith(b"CLIENT_ERROR config cluster"), bad
            assert ask(control, b"config get cluster\r\n") == config_of(document(7)), bad


def test_the_control_socket_serves_all_commands(server: Server, path: Path) -> None:
    with control_of(path) as control, Stream(server.connect()) as client:
        assert ask(control, b"set k 0 0 1\r\nv\r\n") == b"STORED\r\n"
        assert ask(client, b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n"
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    with BinaryStream(connection) as packets:
        assert [a.status for a in packets.ask(Packet(0x64, b"cluster", bytes(4), document(8)))] == [0]


def test_without_a_control_socket_there_is_no_such_command(tandem: Start) -> None:
    with Stream(tandem("-t", "1").connect()) as client:
        assert ask(client, b"config get cluster\r\n") == b"ERROR\r\n"
        assert "config_version" not in stats(client, b"tandem")
        assert "tandem_control" not in stats(client, b"settings")


def test_the_file_is_its_users_alone_and_goes_with_the_server(tandem: Start, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))  # left over by a server that was killed
    server = tandem("-t", "1", "-o", f"control={path},drop_privileges")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with control_of(path) as control:
        assert ask(control, config_set(document(1))) == b"STORED\r\n"
    server.close()
    assert not path.exists()


def test_a_file_that_is_in_use_stays(server: Server, path: Path, tandem: Start) -> None:
    with pytest.raises(ServerError, match=f"cannot listen on {path}: Address already in use"):
        tandem("-t", "1", "-o", f"control={path}")
    with control_of(path) as control:
        assert ask(control, b"mn\r\n") == b"MN\r\n"
    path.unlink()
    path.write_text("not a socket")
    with pytest.raises(ServerError, match=f"cannot listen on {path}: File exists"):
        tandem("-t", "1", "-o", f"control={path}")
    assert path.read_text() == "not a socket"


def only_client(server: Server) -> socket.socket:
    """The connection of a server with -c 1, once the harness's first one has ended."""
    while True:
        client = server.connect()
        client.sendall(b"mn\r\n")
        if client.recv(100) == b"MN\r\n":
            return client
        client.close()


def test_the_control_socket_has_no_limit_of_connections(tandem: Start, path: Path) -> None:
    for mode in ("maxconns_fast", "no_maxconns_fast"):
        own = path.with_name(mode)
        server = tandem("-t", "1", "-c", "1", "-o", f"control={own},{mode}")
        with Stream(only_client(server)) as client:
            if mode == "maxconns_fast":
                with server.connect() as refused:
                    assert refused.recv(100) == b"ERROR Too many open connections\r\n"
            else:
                waiting = server.connect()
            with control_of(own) as control:
                assert ask(control, config_set(document(3))) == b"STORED\r\n"
            assert ask(client, b"config get cluster\r\n") == config_of(document(3))
        if mode != "maxconns_fast":
            with Stream(waiting) as late:
                assert ask(late, b"mn\r\n") == b"MN\r\n"


def test_an_idle_control_connection_takes_no_clients_place(tandem: Start, path: Path) -> None:
    server = tandem("-t", "1", "-c", "1", "-o", f"control={path},maxconns_fast")
    with control_of(path) as idle:
        assert ask(idle, b"mn\r\n") == b"MN\r\n"
        with Stream(only_client(server)) as client, control_of(path) as another:
            assert ask(client, b"mn\r\n") == ask(another, b"mn\r\n") == b"MN\r\n"
        with Stream(only_client(server)) as client:
            assert ask(client, b"mn\r\n") == b"MN\r\n"


def test_the_control_socket_is_heard_again_when_there_are_descriptors(tandem: Start, path: Path) -> None:
    server = tandem("-t", "1", "-c", "1", "-o", f"control={path},no_maxconns_fast")
    with Stream(only_client(server)) as client:
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (3, hard))
        with control_of(path) as control:
            wait_until(lambda: b"STAT listen_disabled_num 0\r\n" not in ask(client, b"stats\r\n"), "a failed accept")
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
            assert ask(control, config_set(document(3))) == b"STORED\r\n"


def test_who_may_open_the_socket_needs_no_password(tandem: Start, path: Path, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("u:p\n")
    passwords.chmod(0o600)
    server = tandem("-t", "1", "-Y", str(passwords), "-U", "0", "-o", f"control={path}")
    with control_of(path) as control, server.connect() as client:
        assert ask(control, config_set(document(1))) == b"STORED\r\n"
        replies = client.makefile("rb")
        client.sendall(b"config get cluster\r\n")
        assert replies.readline() == b"CLIENT_ERROR unauthenticated\r\n"
        client.sendall(b"set a 0 0 3\r\nu p\r\nconfig get cluster\r\n")
        expected = b"STORED\r\n" + config_of(document(1))
        assert replies.read(len(expected)) == expected


def test_control_tcp_lets_all_clients_write(tandem: Start, path: Path) -> None:
    with Stream(tandem("-t", "1", "-o", f"control={path},control_tcp").connect()) as client:
        assert ask(client, config_set(document(1))) == b"STORED\r\n"
        assert ask(client, b"config delete cluster\r\n") == b"DELETED\r\n"


def test_statistics_and_metrics(tandem: Start, path: Path) -> None:
    port = free_port()
    server = tandem("-t", "1", "-o", f"control={path},metrics={HOST}:{port}")

    def metric() -> str:
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=20) as page:
            return re.findall(r"^tandem_config_version (\S+)$", page.read().decode(), re.MULTILINE)[0]

    with control_of(path) as control, Stream(server.connect()) as client:
        assert stats(client, b"settings")["tandem_control"] == str(path)
        assert stats(client, b"settings")["tandem_control_tcp"] == "no"
        assert stats(client, b"tandem")["config_version"] == metric() == "0"
        ask(control, config_set(document(1795897201)) + config_set(b"v", b"other"))
        assert stats(client, b"tandem")["config_version"] == "1795897201"
        assert stats(client, b"tandem")["config_keys"] == "2"
        assert float(metric()) == 1795897201


def test_a_server_that_starts_again_has_no_list(tandem: Start, path: Path) -> None:
    first = tandem("-t", "1", "-o", f"control={path}")
    with control_of(path) as control:
        assert ask(control, config_set(document(9))) == b"STORED\r\n"
    first.close()
    with Stream(tandem("-t", "1", "-o", f"control={path}").connect()) as client:
        assert ask(client, b"config get cluster\r\n") == b"END\r\n"


def test_readers_see_one_list_or_the_other(server: Server, path: Path) -> None:
    """Of versions that a writer sets meanwhile, each reply is whole, and none is older than the one before."""
    lists = {b"%d" % v: config_of(document(v, b" ".join([b"a|192.0.2.1|1"] * (1 + v % 50)))) for v in range(1, 400)}
    done = threading.Event()

    def write() -> None:
        with control_of(path) as control:
            for reply in lists.values():
                value = reply[reply.index(b"\r\n") + 2 : -len(b"\r\nEND\r\n")]
                assert ask(control, config_set(value)) == b"STORED\r\n"
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = [0]
    with Stream(server.connect()) as client:
        while not done.is_set():
            reply = ask(client, b"config get cluster\r\n")
            if reply == b"END\r\n":
                assert seen == [0]
                continue
            version = reply.split(b"\r\n")[1].split(b"\n")[0]
            assert reply == lists[version]
            assert int(version) >= seen[-1]
            seen.append(int(version))
    writer.join()


def test_the_patterns_of_clients_find_the_nodes(server: Server, path: Path) -> None:
    """pymemcache's AWSElastiCacheHashClient, which its releases leave out, and the gem dalli-elasticache: how they take
    a reply apart."""
    with control_of(path) as control, Stream(server.connect()) as client:
        ask(control, config_set(document(1795897201)))
        reply = ask(client, b"config get cluster\r\n")
    # pymemcache: to an end token, then the last line, nodes between single spaces, field 1 of each for its address.
    body, end, rest = reply.partition(b"\n\r\nEND\r\n")
    assert end and not rest
    nodes = [node.split("|") for node in body.splitlines()[-1].decode().split(" ")]
    assert [(node[1], node[2]) for node in nodes] == [("192.0.2.10", "11211"), ("192.0.2.11", "11211")]
    # dalli-elasticache: lines up to the first with END in it, a version line, names and dotted addresses.
    lines = reply.decode().splitlines(keepends=True)
    assert [number for number, line in enumerate(lines) if "END" in line] == [len(lines) - 1]
    text = "".join(lines)
    assert re.findall(r"^(\d+)$", text, re.MULTILINE) == ["1795897201"]
    found = re.findall(r"(([-.a-zA-Z0-9]+)\|(\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b)\|(\d+))", text)
    assert [node[1:] for node in found] == [tuple(node) for node in nodes]
