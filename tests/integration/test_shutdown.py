"""INT and TERM end the server at once and cleanly, whatever its clients are doing."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import start_tandem
from harness.server import HOST, PATIENCE_S, Server
from harness.wire import Stream

from integration.conftest import ask
from integration.test_connections import Flood

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("how", SIGNALS)
def test_exit_code_and_port(how: signal.Signals, tandem: Callable[..., Server]) -> None:
    server = tandem()
    ask(server, b"set a 0 0 1\r\n1\r\n")
    assert server.stop(how) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, server.port), timeout=5)


@pytest.mark.beyond_memcached("it leaves its socket file behind")
@pytest.mark.parametrize("how", SIGNALS)
def test_socket_file_is_removed(how: signal.Signals, tandem: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = tandem(unix_path=path)
    assert path.is_socket()
    assert server.stop(how) == 0
    assert not path.exists()


@pytest.mark.parametrize("how", SIGNALS)
def test_with_clients_in_every_state(how: signal.Signals, tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "2")
    ask(server, b"set big 0 0 900000\r\n" + b"b" * 900_000 + b"\r\nset flood 0 0 1\r\n1\r\n")
    idle = [server.connect() for _ in range(50)]
    half_command, half_value, deaf = (Stream(server.connect()) for _ in range(3))
    half_command.send(b"get bi")
    half_value.send(b"set big 0 0 800000\r\n" + b"h" * 400_000)
    deaf.send(b"get big\r\n" * 500)
    floods = [Flood(server, b"get flood\r\n" * 10_000) for _ in range(2)]
    try:
        assert server.stop(how) == 0
    finally:
        for flood in floods:
            flood.stop()
        for connection in (*idle, half_command, half_value, deaf):
            connection.close()


@pytest.mark.parametrize("how", SIGNALS)
def test_at_any_moment_of_the_start(how: signal.Signals) -> None:
    """Before the process holds signals back one ends it as the system does; later it ends itself. It always ends."""
    codes = set()
    turn = 0
    # On a busy machine it takes longer until it ends itself.
    while turn < 40 or (0 not in codes and turn < 80):
        server = start_tandem(wait=False)
        try:
            time.sleep(turn * 0.001 if turn < 40 else (turn - 39) * 0.05)
            server.process.send_signal(how)
            codes.add(server.process.wait(PATIENCE_S))
        finally:
            server.kill()
            server.log.close()
        turn += 1
    assert codes <= {0, -how}, codes
    assert 0 in codes


def test_clients_see_the_end(tandem: Callable[..., Server]) -> None:
    server = tandem()
    with server.connect() as connection:
        assert server.stop() == 0
        connection.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""


def test_port_can_be_taken_again_at_once(tandem: Callable[..., Server]) -> None:
    first = tandem()
    with first.connect() as connection:
        connection.sendall(b"mn\r\n")
        assert connection.recv(100) == b"MN\r\n"
        assert first.stop() == 0
    second = tandem("-p", str(first.port), "-l", HOST, ports=False, wait=False)
    second.port = first.port
    second.wait_ready()
    assert ask(second, b"get a\r\n") == b"END\r\n"


def test_start_and_stop_many_times(tandem: Callable[..., Server]) -> None:
    """Stopping while starting, too."""
    for _ in range(5):
        assert tandem("-t", "4").stop(signal.SIGTERM) == 0
