"""Dumps, watch, slabs reassign and cache_memlimit, beside memcached where it answers the same; and all of them at once
while clients write."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable

import pytest
from harness.server import PATIENCE_S, Server
from harness.wire import Stream, read_until

Start = Callable[..., Server]


def dump(server: Server, command: bytes, end: bytes = b"END\r\n") -> bytes:
    with server.connect(PATIENCE_S) as connection:
        connection.sendall(command + b"\r\n")
        return read_until(connection, end, PATIENCE_S)


def statistics(server: Server, group: bytes = b"") -> dict[str, str]:
    with Stream(server.connect()) as stream:
        lines = stream.exchange(b"stats " + group + b"\r\n").data.decode().splitlines()
    return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT"))


ODD_KEYS = [b"plain", b"a-b.c_d~e", b"per%cent", b"colon:slash/", b"\x01\x7f\xff", b"(*)!'", b"x" * 250, b"\xff" * 250]


def fill(server: Server) -> None:
    with Stream(server.connect()) as stream:
        for number, key in enumerate(ODD_KEYS):
            stream.exchange(b"set %s 0 %d 3\r\nabc\r\n" % (key, 1000 if number % 2 else 0))
        stream.exchange(b"ms Ymlu/w== 2 b\r\nhi\r\nget plain\r\n")
        stream.exchange(b"set over 0 -1 1\r\nx\r\n")


def test_metadump_is_memcacheds(memcached: Start, tandem: Start) -> None:
    """The same lines up to what is the server's own: times, CAS, class and size."""
    own = re.compile(rb"(?<= )(la|cas|cls|size)=\d+|(?<= exp=)\d+")
    found = []
    for server in (memcached(), tandem()):
        fill(server)
        text = dump(server, b"lru_crawler metadump all")
        assert text.endswith(b"\nEND\r\n")
        found.append(sorted(own.sub(rb"\1=N", line) for line in text[:-5].splitlines()))
    assert found[0] == found[1]
    assert len(found[1]) == len(ODD_KEYS) + 1


def test_metadump_of_classes(tandem: Start) -> None:
    server = tandem()
    with Stream(server.connect()) as stream:
        for size in (1, 100, 1000, 10000):
            stream.exchange(b"set k%d 0 0 %d\r\n%s\r\n" % (size, size, b"x" * size))
    everything = dump(server, b"lru_crawler metadump all").splitlines()[:-1]
    classes = {re.search(rb"cls=(\d+)", line)[1] for line in everything}
    assert len(classes) == 4
    for number in classes:
        lines = dump(server, b"lru_crawler metadump " + number).splitlines()[:-1]
        assert lines == [line for line in everything if b"cls=%s " % number in line]
    assert dump(server, b"lru_crawler metadump " + b",".join(classes)).splitlines()[:-1] == everything


def test_cachedump_is_memcacheds(memcached: Start, tandem: Start) -> None:
    found = []
    for server in (memcached(), tandem()):
        with Stream(server.connect()) as stream:
            for number in range(20):
                stream.exchange(b"set k%02d 0 0 5\r\nhello\r\n" % number)
            deadline = time.monotonic() + PATIENCE_S
            while (text := stream.exchange(b"stats cachedump 1 0\r\n").data).count(b"ITEM") < 20:
                assert time.monotonic() < deadline  # memcached shows what its LRU has cooled down
            assert stream.exchange(b"stats cachedump 1 7\r\n").data.count(b"ITEM") == 7
            assert stream.exchange(b"stats cachedump 40 0\r\n").data == b"END\r\n"
        found.append(sorted(text.splitlines()))
    assert found[0] == found[1]


WATCHED_COMMANDS = [
    b"set a 5 0 3\r\nabc\r\n", b"get a\r\n", b"get b a\r\n", b"gets a\r\n", b"gat 100 a\r\n", b"gat 100 zz\r\n",
    b"touch a 50\r\n", b"touch q 5\r\n", b"mg a v\r\n", b"mg zz v\r\n", b"mg vivid N30 v\r\n", b"mg a T90\r\n",
    b"add a 0 0 1\r\nx\r\n", b"add n 0 50 1\r\nx\r\n", b"replace zz 0 0 1\r\nx\r\n", b"replace n 0 0 1\r\ny\r\n",
    b"append n 0 0 1\r\ny\r\n", b"append zz 0 0 1\r\ny\r\n", b"prepend n 0 0 1\r\ny\r\n", b"cas n 0 0 1 1\r\nz\r\n",
    b"cas zzz 0 0 1 1\r\nz\r\n", b"ms m1 2\r\nhi\r\n", b"ms m2 2 T30\r\nhi\r\n", b"ms dGVz/w== 2 b\r\nhi\r\n",
    b"ms m1 2 MA\r\nhi\r\n", b"ms m1 2 ME\r\nhi\r\n", b"ms m1 2 C1\r\nhi\r\n", b"ms zzz 2 MR\r\nhi\r\n",
    b"ms m1 2 I C1\r\nhi\r\n", b"set num 0 0 1\r\n5\r\n", b"incr num 1\r\n", b"incr num 100\r\n", b"decr num 1\r\n",
    b"incr zz 1\r\n", b"ma num\r\n", b"ma auto N0 J5\r\n", b"delete num\r\n", b"delete num\r\n", b"md m1\r\n",
    b"md m2 I\r\n", b"md zz\r\n", b"get m2\r\n", b"me a\r\n", b"set k\x01\xff%z~._-() 0 0 1\r\n1\r\n",
]  # fmt: skip


def test_watch_lines_are_memcacheds(memcached: Start, tandem: Start) -> None:
    """Fetches and mutations, line by line, up to time, number and descriptor."""
    own = re.compile(rb"ts=\d+\.\d+ gid=\d+ |(?<=cfd=)\d+|(?<=clsid=)[1-9]\d*")
    found = []
    for server in (memcached("-t", "1"), tandem("-t", "1")):
        with server.connect(PATIENCE_S) as watcher, Stream(server.connect()) as stream:
            watcher.sendall(b"watch fetchers mutations\r\n")
            assert read_until(watcher, b"\r\n", PATIENCE_S) == b"OK\r\n"
            for command in WATCHED_COMMANDS:
                stream.socket.sendall(command)
                assert stream.socket.recv(1 << 16)  # each in a pass of its own, with its events in order
            stream.socket.sendall(b"get the_end\r\n")
            text = b""
            while b"the_end" not in text:
                text += read_until(watcher, b"\n", PATIENCE_S)
        lines = [own.sub(b"", line) for line in text.splitlines()]
        found.append([line for line in lines if b"the_end" not in line])
    assert len(found[0]) > len(WATCHED_COMMANDS)
    assert found[1] == found[0]


def test_watch_connections_are_memcacheds(memcached: Start, tandem: Start) -> None:
    own = re.compile(rb"ts=\d+\.\d+ gid=\d+ |(?<=rport=)\d+|(?<=cfd=)\d+")
    found = []
    for server in (memcached("-t", "1"), tandem("-t", "1")):
        with server.connect(PATIENCE_S) as watcher:
            watcher.sendall(b"watch connevents\r\n")
            # The earlier check that the server had started may close only now: its line may come with the OK.
            answer = read_until(watcher, b"\n", PATIENCE_S)
            assert answer.startswith(b"OK\r\n"), answer
            ports = set()
            for last in (b"", b"quit\r\n"):
                with server.connect() as other:
                    ports.add(b"rport=%d " % other.getsockname()[1])
                    other.sendall(b"mn\r\n")
                    assert read_until(other, b"\r\n", PATIENCE_S) == b"MN\r\n"
                    other.sendall(last)
            lines = []
            while sum(b"conn_close" in line for line in lines) < 2:
                received = read_until(watcher, b"\n", PATIENCE_S).splitlines()
                lines += [line for line in received if any(port in line for port in ports)]
        found.append(sorted(own.sub(b"", line) for line in lines))
    assert found[0] == found[1]
    assert len(found[0]) == 4


def test_watch_deletions_and_evictions(tandem: Start) -> None:
    server = tandem("-t", "2", memory_mib=8)
    with server.connect(PATIENCE_S) as watcher, Stream(server.connect()) as stream:
        watcher.sendall(b"watch deletions evictions\r\n")
        assert read_until(watcher, b"\r\n", PATIENCE_S) == b"OK\r\n"
        stream.exchange(b"set a 0 0 3\r\nabc\r\ndelete a\r\ndelete a\r\nset b 0 0 1\r\nx\r\nmd b\r\n")
        text = b""
        while text.count(b"\n") < 2:
            text += read_until(watcher, b"\n", PATIENCE_S)
        assert re.search(rb"type=deleted key=a cmd=delete clsid=1 cfd=\d+ size=3\n", text)
        assert re.search(rb"type=deleted key=b cmd=md clsid=1 cfd=\d+ size=1\n", text)
        for number in range(200):
            stream.exchange(
                b"".join(b"set e%d.%d 0 0 900 noreply\r\n%s\r\n" % (number, i, b"v" * 900) for i in range(64))
            )
        line = read_until(watcher, b"\n", PATIENCE_S).splitlines()[0]
        assert re.search(rb"type=eviction key=e\d+\.\d+ fetch=no ttl=-1 la=\d+ clsid=\d+ size=900", line), line


def test_twenty_may_watch(memcached: Start, tandem: Start) -> None:
    for server in (memcached(), tandem()):
        watchers = [server.connect(PATIENCE_S) for _ in range(21)]
        for watcher in watchers[:20]:
            watcher.sendall(b"watch\r\n")
            assert read_until(watcher, b"\r\n", PATIENCE_S) == b"OK\r\n"
        watchers[20].sendall(b"watch\r\n")
        assert read_until(watchers[20], b"\r\n", PATIENCE_S) == b"WATCHER_TOO_MANY log watcher limit reached\r\n"
        for watcher in watchers:
            watcher.close()


def test_reassign_moves_a_page(tandem: Start) -> None:
    server = tandem("-t", "2", memory_mib=32)
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"slabs automove 0\r\n").data == b"OK\r\n"
        for number in range(100):
            stream.exchange(
                b"".join(b"set k%d.%d 0 0 60 noreply\r\n%s\r\n" % (number, i, b"v" * 60) for i in range(500))
            )
        stream.exchange(b"set big 0 0 5000\r\n%s\r\n" % (b"b" * 5000))
        pages = {
            name.split(":")[0]: int(value)
            for name, value in statistics(server, b"slabs").items()
            if name.endswith(":total_pages")
        }
        source, target = max(pages, key=pages.get), max(pages, key=int)
        assert pages[source] > 2
        before = int(statistics(server)["slabs_moved"])
        assert stream.exchange(b"slabs reassign %s %s\r\n" % (source.encode(), target.encode())).data == b"OK\r\n"
        deadline = time.monotonic() + PATIENCE_S
        while int(statistics(server)["slabs_moved"]) == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        after = statistics(server, b"slabs")
        assert int(after[f"{source}:total_pages"]) == pages[source] - 1
        assert int(after[f"{target}:total_pages"]) == pages[target] + 1
        assert statistics(server, b"settings")["slab_automove"] == "0"


@pytest.mark.parametrize("item_bytes", [500, 3_000_000])
def test_cache_memlimit(tandem: Start, item_bytes: int) -> None:
    """Grows at once; shrinks by giving pages, or large items, back."""
    server = tandem("-t", "2", "-I", "4m", memory_mib=32)
    value = b"v" * item_bytes

    def store(mebibytes: int) -> None:
        with Stream(server.connect()) as stream:
            per_request = max(1, (1 << 18) // item_bytes)
            for first in range(0, (mebibytes << 20) // item_bytes, per_request):
                keys = range(first, first + per_request)
                stream.exchange(b"".join(b"set %d 0 0 %d noreply\r\n%s\r\n" % (k, item_bytes, value) for k in keys))

    def held() -> int:
        return int(statistics(server)["bytes"])

    store(60)
    assert held() < 32 << 20
    with Stream(server.connect()) as stream:
        assert stream.exchange(b"cache_memlimit 128\r\n").data == b"OK\r\n"
        assert statistics(server)["limit_maxbytes"] == str(128 << 20)
        store(60)
        assert held() > 50 << 20
        resident = server.resident_bytes()
        assert stream.exchange(b"cache_memlimit 16\r\n").data == b"OK\r\n"
        deadline = time.monotonic() + PATIENCE_S
        while held() > 16 << 20 or server.resident_bytes() > resident - (30 << 20):
            assert time.monotonic() < deadline, f"{held()} bytes, {server.resident_bytes()} resident, was {resident}"
            time.sleep(0.02)
        assert stream.exchange(b"set after 0 0 5\r\nhello\r\nget after\r\n").data.endswith(b"hello\r\nEND\r\n")
        assert stream.exchange(b"cache_memlimit 999999999\r\n").data.startswith(b"MEMLIMIT_ADJUST_FAILED out of bounds")


@pytest.mark.parametrize("command", [b"shutdown", b"shutdown graceful"])
def test_shutdown(tandem: Start, command: bytes) -> None:
    server = tandem("-A")
    with server.connect(PATIENCE_S) as connection:
        connection.sendall(command + b"\r\n")
        assert connection.recv(100) == b""
    assert server.process.wait(PATIENCE_S) == 0


def test_detail_from_the_start(memcached: Start, tandem: Start) -> None:
    found = []
    for server in (memcached("-D", "/"), tandem("-D", "/")):
        with Stream(server.connect()) as stream:
            stream.exchange(
                b"set a/b 0 0 1\r\n1\r\nget a/b a/c x:y\r\ngat 0 a/b\r\ndelete a/z\r\nmg a/b v\r\nincr a/b 1\r\n"
            )
            stream.exchange(b"append a/b 0 0 1\r\n1\r\nset b/ 0 0 1\r\n1\r\n")
            text = stream.exchange(b"stats detail dump\r\n").data
        found.append(sorted(text.splitlines()))
        settings = statistics(server, b"settings")
        assert settings["stat_key_prefix"] == "/" and settings["detail_enabled"] == "yes"
    assert found[0] == found[1]


def test_everything_at_once(tandem: Start) -> None:
    """Writers of values that tell what they are, beside dumpers and watchers that read, do not read or go away, pages
    that move and a limit that changes: no wrong value, no client stuck, memory bounded."""
    server = tandem("-t", "2", "-o", "watcher_logbuf_size=64", memory_mib=32)
    stop = threading.Event()
    failures: list[str] = []

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                while not stop.is_set():
                    work()
            except Exception as error:
                failures.append(f"{work.__name__}: {error!r}")

        return run

    rounds = [0, 0]

    streams = [Stream(server.connect(PATIENCE_S)) for _ in rounds]

    def writer(number: int) -> Callable[[], None]:
        stream = streams[number]
        written: dict[int, int] = {}

        def write() -> None:
            rounds[number] += 1
            keys = [(rounds[number] * 37 + i * 101) % 3000 for i in range(50)]
            requests = b""
            for key in keys:
                size = (key * 7919 + rounds[number]) % 2000 + 1
                value = (b"%d.%d." % (key, rounds[number]) * (size // 4 + 1))[:size]
                requests += b"set w%d.%d 0 0 %d noreply\r\n%s\r\n" % (number, key, size, value)
                written[key] = rounds[number]
            requests += b"get " + b" ".join(b"w%d.%d" % (number, key) for key in keys) + b"\r\n"
            reply = stream.exchange(requests, PATIENCE_S).data
            at = 0
            while reply[at:] != b"END\r\n":
                line_end = reply.index(b"\r\n", at)
                word, name, _, size = reply[at:line_end].split()
                assert word == b"VALUE", reply[at : at + 100]
                key = int(name.split(b".")[1])
                value = reply[line_end + 2 : line_end + 2 + int(size)]
                whole = (b"%d.%d." % (key, written[key]) * (int(size) // 4 + 1))[: int(size)]
                assert value == whole, f"{name}: {value[:40]!r}, not {whole[:40]!r}"
                at = line_end + 4 + int(size)

        write.__name__ = f"writer {number}"
        return write

    def dumps() -> None:
        assert dump(server, b"lru_crawler metadump all").endswith(b"END\r\n")

    def goes_away() -> None:
        with server.connect(PATIENCE_S) as dumper, server.connect(PATIENCE_S) as watcher:
            dumper.sendall(b"stats cachedump 5 0\r\n")
            watcher.sendall(b"watch fetchers mutations evictions connevents sysevents\r\n")
            watcher.recv(100)

    def administers() -> None:
        # A piece of `stats sizes` a pass: busy passes of a busy machine take long.
        with Stream(server.connect(PATIENCE_S)) as stream:
            stream.exchange(
                b"slabs reassign -1 3\r\nslabs automove 2\r\nstats items\r\nstats sizes\r\nstats conns\r\n", PATIENCE_S
            )
            stream.exchange(
                b"cache_memlimit 24\r\nstats detail on\r\nstats detail dump\r\nslabs reassign 10 0\r\n", PATIENCE_S
            )
            stream.exchange(
                b"cache_memlimit 40\r\nstats detail off\r\nstats slabs\r\nstats sizes_enable\r\n", PATIENCE_S
            )
            time.sleep(0.02)

    idle = [server.connect(PATIENCE_S) for _ in range(4)]  # they ask and never read
    for connection, request in zip(idle, (b"watch mutations\r\n", b"watch fetchers\r\n", b"watch\r\n",
                                          b"stats cachedump 3 0\r\n" * 500), strict=True):  # fmt: skip
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request)
    work = [writer(0), writer(1), dumps, goes_away, administers]
    threads = [threading.Thread(target=guarded(each)) for each in work]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 2 * PATIENCE_S
    while min(rounds) < 150 and not failures and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failures
    assert min(rounds) >= 150, "the writers were held up"
    assert server.resident_bytes() < 160 << 20
    for connection in [*idle, *streams]:
        connection.close()
    server.check_alive()
