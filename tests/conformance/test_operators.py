"""What operators' tools see: connections, why they were closed, and what a store near its limit keeps, beside
memcached's."""

from __future__ import annotations

import random
import re
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import start_memcached, start_tandem
from harness.server import PATIENCE_S, Server
from harness.wire import Stream, read_until

Start = Callable[..., Server]


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes."""
    received = bytearray()
    while data := connection.recv(1 << 16):
        received += data
    return bytes(received)


def statistics(server: Server, group: bytes = b"") -> dict[str, str]:
    with server.connect(PATIENCE_S) as connection:
        connection.sendall(b"stats " + group + b"\r\n")
        lines = read_until(connection, b"END\r\n", PATIENCE_S).decode().splitlines()
    return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT"))


class Watcher:
    """A client that watches, and one that asks for statistics meanwhile. No earlier one is left."""

    def __init__(self, server: Server, stream: bytes) -> None:
        self.asker = Stream(server.connect())
        deadline = time.monotonic() + PATIENCE_S
        while len(self.clients()) > 1:
            assert time.monotonic() < deadline, "a client that has gone is still there"
            time.sleep(0.01)
        self.socket = server.connect(PATIENCE_S)
        self.socket.sendall(b"watch " + stream + b"\r\n")
        assert read_until(self.socket, b"\r\n", PATIENCE_S) == b"OK\r\n"

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.asker.close()

    def clients(self) -> list[bytes]:
        """The states of all of them."""
        lines = self.asker.exchange(b"stats conns\r\n").data.splitlines()
        served = [line.split()[1].split(b":")[0] for line in lines if b":listen_addr " in line]
        return [line for line in lines if b":state " in line and line.split()[1].split(b":")[0] in served]

    def lines_until(self, last: bytes) -> list[bytes]:
        text = b""
        while last not in text:
            text += read_until(self.socket, b"\n", PATIENCE_S)
        return text.splitlines()


# --- what is added to stays


class Grower:
    """Stores some keys, and adds to them again and again while other values pass through."""

    def __init__(self, server: Server) -> None:
        self.stream = Stream(server.connect())
        self.random = random.Random(1)
        self.bytes_of: dict[int, int] = {}
        self.answers: Counter[bytes] = Counter()

    def store(self, key: int) -> None:
        size = self.bytes_of[key] = self.random.randrange(300_000, 700_000)
        assert self.stream.exchange(b"set k%d 0 0 %d\r\n%s\r\n" % (key, size, b"x" * size)).data == b"STORED\r\n"

    def add(self, key: int) -> None:
        size = self.random.randrange(100, 900)
        if self.bytes_of[key] + size > 1_000_000:
            self.store(key)
        verb = self.random.choice((b"append", b"prepend"))
        answer = self.stream.exchange(b"%s k%d 0 0 %d\r\n%s\r\n" % (verb, key, size, b"y" * size)).data
        self.answers[answer] += 1
        self.bytes_of[key] += size


def test_what_is_added_to_near_the_limit_stays(memcached: Start, tandem: Start) -> None:
    """Values of several hundred KB that are only ever appended and prepended to are in use: other items go first."""
    keys, rounds = range(4), 1500
    for server in (memcached("-t", "1"), tandem("-t", "1")):
        grower = Grower(server)
        for key in range(200):
            grower.store(key)
        for key in keys:
            grower.store(key)
            grower.add(key)  # from now on it is in use
        for number in range(len(keys), rounds):
            grower.add(keys[number % len(keys)])
            if number % 5 == 0:
                grower.stream.exchange(b"set f%d 0 0 400000\r\n%s\r\n" % (number, b"z" * 400_000))
        grower.stream.close()
        assert grower.answers == {b"STORED\r\n": rounds}, server.command[0]
        assert int(statistics(server)["evictions"]) > 300


# --- watch connevents

BINARY_QUIT = b"\x80\x07" + bytes(22)
# What a client sends, and how it then goes: it waits for the server to close, closes its side, or resets.
CLOSINGS = {
    "quit": (b"quit\r\n", "waits"),
    "end of input": (b"", "closes"),
    "end of input within a line": (b"get a", "closes"),
    "end of input within a value": (b"set a 0 0 10\r\nabc", "closes"),
    "end of input within a large value": (b"set a 0 0 500000\r\nabc", "closes"),
    "a web client": (b"POST /x HTTP/1.1\r\n", "waits"),
    "a line without an end": (b"x" * 3000, "waits"),
    "a meta line without an end": (b"mg " + b"k" * 3000, "waits"),
    "spaces before a long get": (b" " * 101 + b"get " + b"k" * 3000, "waits"),
    "answers before a web client": (b"mn\r\nmn\r\nPUT / HTTP/1.1\r\n", "waits"),
    "answers before quit": (b"mn\r\nmn\r\nquit\r\n", "waits"),
    "refused lines": (b"bogus\r\nset a 0 0 -1\r\n", "closes"),
    "binary: quit": (BINARY_QUIT, "waits"),
    "binary: quiet quit": (b"\x80\x17" + bytes(22), "waits"),
    "binary: no magic byte": (b"\x80\x0a" + bytes(22) + b"zz" + bytes(30), "waits"),
    "binary: long key": (b"\x80\x00\x01\x2c" + bytes(6) + b"\x01\x2c" + bytes(12) + b"x" * 300, "waits"),
    "reset": (b"mn\r\n", "resets"),
    "reset within a value": (b"set a 0 0 10\r\nabc", "resets"),
}
OWN = re.compile(rb"ts=\d+\.\d+ gid=\d+ |(?<=rport=)[1-9]\d*|(?<=cfd=)\d+")
# memcached asks the kernel for it, which may not know it any more when the client has reset the connection.
ADDRESS = re.compile(rb"rip=\S+ rport=0? ")


def lines_of_a_closing(server: Server, watcher: Watcher, sent: bytes, how: str) -> list[bytes]:
    """The watcher's lines about one client, without what is the server's own."""
    with server.connect(PATIENCE_S) as client:
        client.sendall(sent)
        if how == "resets":
            if sent.endswith(b"mn\r\n"):
                read_until(client, b"MN\r\n", PATIENCE_S)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "closes":
            client.shutdown(socket.SHUT_WR)
            read_all(client)
        else:
            read_all(client)
    return sorted(OWN.sub(b"", line) for line in watcher.lines_until(b"conn_close"))


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_why_connections_are_closed(kind: str, memcached: Start, tandem: Start, tmp_path: Path) -> None:
    found: list[dict[str, list[bytes]]] = []
    for start, name in ((memcached, "reference"), (tandem, "candidate")):
        server = start("-t", "1", unix_path=tmp_path / name if kind == "unix" else None)
        with Watcher(server, b"connevents") as watcher:
            found.append({name: lines_of_a_closing(server, watcher, *closing) for name, closing in CLOSINGS.items()})
    for name, (_, how) in CLOSINGS.items():
        if how == "resets":
            assert kind == "unix" or all(b"rip=127.0.0.1 rport= " in line for line in found[1][name]), found[1][name]
            for lines in found:
                lines[name] = [ADDRESS.sub(b"", line) for line in lines[name]]
    different = {name: (found[0][name], found[1][name]) for name in CLOSINGS if found[0][name] != found[1][name]}
    assert not different
    assert sum(b"reason=error" in line for lines in found[0].values() for line in lines) >= 7


def closings_told_at_a_shutdown(start: Start) -> list[bytes]:
    """The lines about the client that says shutdown, as another client that watches connections reads them."""
    server = start("-t", "2", "-A")
    with Watcher(server, b"connevents") as watcher, server.connect(PATIENCE_S) as client:
        client.sendall(b"shutdown\r\n")
        lines = [line for line in read_all(watcher.socket).splitlines() if b"conn_close" in line]
        port = client.getsockname()[1]
    assert server.process.wait(PATIENCE_S) == 0
    server.log.close()
    return [OWN.sub(b"", line) for line in lines if b"rport=%d " % port in line]


def test_who_asks_for_the_shutdown_is_told_to_watchers() -> None:
    # memcached's thread that writes to watchers may stop before it has read the line: 2 of 100 times, seen.
    references = (closings_told_at_a_shutdown(start_memcached) for _ in range(10))
    reference = next(filter(None, references), None)
    assert reference == [b"type=conn_close rip=127.0.0.1 rport= transport=tcp reason=shutdown cfd="]
    assert closings_told_at_a_shutdown(start_tandem) == reference


def test_a_watcher_that_reads_late_is_told_what_it_missed_and_goes_on(tandem: Start) -> None:
    """A full buffer loses lines, never the watcher: after it has read, what is new comes at once."""
    server = tandem("-t", "2", "-o", "watcher_logbuf_size=32,worker_logbuf_size=32")
    with server.connect(PATIENCE_S) as watcher, Stream(server.connect()) as stream:
        watcher.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        watcher.sendall(b"watch fetchers\r\n")
        assert read_until(watcher, b"\r\n", PATIENCE_S) == b"OK\r\n"
        for late in range(3):
            before = int(statistics(server)["log_watcher_skipped"]) + int(statistics(server)["log_worker_dropped"])
            deadline = time.monotonic() + PATIENCE_S
            while (
                int(statistics(server)["log_watcher_skipped"]) + int(statistics(server)["log_worker_dropped"]) <= before
            ):
                assert time.monotonic() < deadline
                stream.exchange(b"get k\r\n" * 2000)
            text, last = b"", b"key=late%d " % late
            watcher.settimeout(1)
            while last not in text:
                assert time.monotonic() < deadline
                stream.exchange(b"get late%d\r\n" % late)
                try:
                    text = text[-200:] + watcher.recv(1 << 20)
                except TimeoutError:
                    continue


# --- stats conns

BINARY_SET = b"\x80\x01\x00\x01\x08" + bytes(3) + b"\x00\x00\x00\x20" + bytes(12) + bytes(8) + b"kvv"
STATES = {
    "nothing sent": b"",
    "a command": b"mn\r\n",
    "half a line": b"get a",
    "half a value": b"set a 0 0 10\r\nabc",
    "half a meta value": b"ms a 10\r\nabc",
    "half a large value": b"set a 0 0 600000\r\nabc",
    "half a value that is too large": b"set a 0 0 60000000\r\nabc",
    "a value that follows a half one": b"set a 0 0 3\r\nab",
    "half a binary header": b"\x80\x00\x00",
    "half a binary value": BINARY_SET,
    "a watcher": b"watch\r\n",
}
OWN_ADDRESS = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=unix:)\S+")


def told_connections(server: Server) -> list[tuple[tuple[str, str], ...]]:
    """By descriptor, without it, but for the listening sockets and those of UDP."""
    told: dict[str, list[tuple[str, str]]] = {}
    for name, value in statistics(server, b"conns").items():
        number, what = name.split(":")
        text = value if what != "secs_since_last_cmd" else "N"
        told.setdefault(number, []).append((what, OWN_ADDRESS.sub("", text)))
    return [tuple(lines) for lines in told.values()]


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_states_of_connections(kind: str, memcached: Start, tandem: Start, tmp_path: Path) -> None:
    found = []
    for start, name in ((memcached, "reference"), (tandem, "candidate")):
        server = start("-t", "1", unix_path=tmp_path / name if kind == "unix" else None)
        clients = [server.connect(PATIENCE_S) for _ in STATES]
        reader = server.connect(PATIENCE_S)
        with Stream(server.connect()) as stream:
            stream.exchange(b"set v 0 0 900000\r\n%s\r\n" % (b"v" * 900_000))
        for client, sent in zip(clients, STATES.values(), strict=True):
            client.sendall(sent)
        clients[list(STATES).index("a value that follows a half one")].sendall(b"c\r\nget a")
        reader.sendall(b"get v\r\n" * 60)
        # Until the servers have seen all that, and the clients that came before have gone.
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = told_connections(server)
            states = Counter(dict(lines)["state"] for lines in told)
            settled = states["conn_mwrite"] == 1 and states["conn_nread"] == 4 and states["conn_parse_cmd"] == 1
            if settled and sum(states.values()) - states["conn_listening"] == len(STATES) + 2 + (kind == "tcp"):
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        found.append(told)
        for client in (*clients, reader):
            client.close()
    assert sorted(found[0]) == sorted(found[1])
    assert {"conn_new_cmd", "conn_swallow", "conn_watch"} <= {dict(lines)["state"] for lines in found[0]}


# --- switches

SWITCHES = ["", "no_lru_maintainer", "no_lru_crawler", "no_slab_reassign", "no_maxconns_fast", "no_modern", "modern"]


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_same_names_appear_and_disappear(switch: str, memcached: Start, tandem: Start) -> None:
    """Of the statistics that the candidate has at all: those of a part that is off are not there."""
    options = ("-o", switch) if switch else ()
    ours, theirs = (set(statistics(start("-t", "1", *options))) for start in (memcached, tandem))
    all_of_theirs = set(statistics(tandem("-t", "1")))
    assert {name for name in all_of_theirs if name in ours} == theirs
    assert len(theirs) >= 70


LINES = [
    "slabs reassign 1 2", "slabs reassign 1 1", "slabs reassign 0 1", "slabs reassign -1 1", "slabs reassign x 1",
    "slabs reassign 99 1", "slabs reassign 1 99", "slabs reassign 1", "slabs automove 0", "slabs automove 1",
    "slabs automove 2", "slabs automove 3", "slabs automove x", "slabs automove ratio 0.5", "slabs automove ratio x",
    "lru mode flat", "lru mode segmented", "lru mode other", "lru mode", "lru temp_ttl 10", "lru temp_ttl -1",
    "lru temp_ttl x", "lru temp_ttl", "lru tune 10 25 0.1 2.0", "lru tune 50 50 0.1 2", "lru other 1",
    "lru mode flat noreply", "lru mode segmented noreply",
    "lru_crawler crawl hash", "lru_crawler crawl 0", "lru_crawler crawl x", "lru_crawler crawl ,",
    "lru_crawler crawl", "lru_crawler sleep 100", "lru_crawler sleep 1000001", "lru_crawler sleep x",
    "lru_crawler tocrawl 5", "lru_crawler tocrawl x", "lru_crawler other", "lru_crawler other 1",
    "cache_memlimit 7", "cache_memlimit 65", "cache_memlimit x", "cache_memlimit 0", "cache_memlimit 1000000001",
    "cache_memlimit", "cache_memlimit 64",
]  # fmt: skip


def answer(stream: Stream, line: str) -> bytes:
    """memcached's crawler goes by itself now and then, and is busy then."""
    deadline = time.monotonic() + PATIENCE_S
    while (said := stream.exchange(line.encode() + b"\r\n").data).startswith(b"BUSY"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return said


@pytest.mark.parametrize("switch", SWITCHES)
def test_operators_commands_are_answered_as_by_memcached(switch: str, memcached: Start, tandem: Start) -> None:
    options = ("-o", switch) if switch else ()
    said = []
    for start in (memcached, tandem):
        with Stream(start("-t", "1", *options).connect()) as stream:
            stream.exchange(b"set a 0 0 1\r\n1\r\n")
            said.append({f"{number} {line}": answer(stream, line) for number, line in enumerate(LINES)})
    assert said[0] == said[1]


def test_reassigning_without_evictions(memcached: Start, tandem: Start) -> None:
    """With -M it is answered as ever; the candidate moves a page if all items have room elsewhere in their class."""
    for server in (memcached("-t", "1", "-M", memory_mib=32), tandem("-t", "1", "-M", memory_mib=32)):
        with Stream(server.connect()) as stream:
            assert statistics(server, b"settings")["slab_reassign"] == "yes"
            assert stream.exchange(b"slabs automove 0\r\n").data == b"OK\r\n"
            for number in range(300):
                stream.exchange(b"set k%d 0 0 20000\r\n%s\r\n" % (number, b"v" * 20_000))
            stream.exchange(b"set small 0 0 10\r\n0123456789\r\n")
            for number in range(0, 300, 2):
                stream.exchange(b"delete k%d\r\n" % number)
            pages = {
                int(name.split(":")[0]): int(value)
                for name, value in statistics(server, b"slabs").items()
                if name.endswith(":total_pages")
            }
            source, target = max(pages, key=lambda c: pages[c]), min(pages)
            assert stream.exchange(b"slabs reassign %d %d\r\n" % (source, target)).data == b"OK\r\n"
            deadline = time.monotonic() + PATIENCE_S
            while (now := statistics(server))["slabs_moved"] == "0" or now["slab_reassign_running"] != "0":
                assert time.monotonic() < deadline
            left = sum(stream.exchange(b"get k%d\r\n" % n).data.startswith(b"VALUE") for n in range(1, 300, 2))
            assert left == 150, "each item of the page has found room"
            assert (now["evictions"], now["slab_reassign_evictions_nomem"]) == ("0", "0")
            assert int(now["slab_reassign_rescues"]) > 0
            after = statistics(server, b"slabs")
            assert int(after[f"{source}:total_pages"]) == pages[source] - 1
            assert int(after[f"{target}:total_pages"]) == pages[target] + 1


# --- read buffers


def test_input_past_its_memory_limit_closes_the_connection(memcached: Start, tandem: Start) -> None:
    """Without a word, for an error, and counted: those with half a request that finds no buffer."""
    half_line = b"get " + b"k " * 995  # memcached keeps it in a buffer of 16 KiB, the candidate in one of its size
    count = 600
    options = ("-t", "1", "-o", "read_buf_mem_limit=1")
    for server in (memcached(*options), tandem(*options)):
        assert statistics(server, b"settings")["read_buf_mem_limit"] == "1048576"
        with Watcher(server, b"connevents") as watcher:
            clients = []
            for _ in range(count):
                clients.append(server.connect(PATIENCE_S))
                clients[-1].sendall(half_line)
            closed = 0
            watcher.lines_until(b"reason=error")
            for client in clients:
                client.settimeout(0.002)
                try:
                    assert client.recv(100) == b""
                    closed += 1
                except ConnectionResetError:
                    closed += 1
                except TimeoutError:
                    pass
            assert 10 < closed < count - 10
            for client in clients:
                client.close()
        deadline = time.monotonic() + PATIENCE_S
        while int((now := statistics(server))["curr_connections"]) > 2:
            assert time.monotonic() < deadline
        assert int(now["read_buf_oom"]) >= closed
        assert int(now["read_buf_count"]) > 0 and int(now["read_buf_bytes"]) > 0


# --- warm restart, and the hash table


@pytest.mark.parametrize("damage", ["empty", "random", "cut short", "as it was"])
def test_a_memory_file_of_memcacheds_with_its_metadata(damage: str, tandem: Start, tmp_path: Path) -> None:
    """Whatever the metadata says the store begins empty, and the metadata goes, so that no server takes memory now
    another's for what they describe. (memcached ends with a core dump over empty ones, or lines that are none.)"""
    memory, metadata = tmp_path / "memory", tmp_path / "memory.meta"
    first = start_memcached("-e", str(memory))
    with Stream(first.connect()) as stream:
        stream.exchange(b"set a 0 0 1\r\n1\r\n")
    first.process.send_signal(signal.SIGUSR1)
    first.process.wait(PATIENCE_S)
    first.log.close()
    assert metadata.exists()
    whole = metadata.read_bytes()
    damaged = {"empty": b"", "random": random.Random(1).randbytes(200), "cut short": whole[: len(whole) // 2]}
    metadata.write_bytes(damaged.get(damage, whole))
    server = tandem("-e", str(memory))
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"get a\r\nset b 0 0 1\r\n2\r\nget b\r\n").data == (
            b"END\r\nSTORED\r\nVALUE b 0 1\r\n2\r\nEND\r\n"
        )
    assert statistics(server)["restart"] == "none"
    assert not metadata.exists()
    assert "starting empty" in server.output()


@pytest.mark.parametrize("power", [14, 17, 20])
def test_the_hash_table_begins_as_large_as_it_is_told(power: int, memcached: Start, tandem: Start) -> None:
    ours, theirs = (statistics(start("-t", "1", "-o", f"hashpower={power}")) for start in (memcached, tandem))
    for name in ("hash_power_level", "hash_bytes", "hash_is_expanding"):
        assert ours[name] == theirs[name], name
    assert theirs["hash_power_level"] == str(power)
