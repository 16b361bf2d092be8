"""Memory that cannot be had, at the allocations of each kind of conversation with a server of each kind: the process
lives, the connection is answered rightly or ended, the rest are served, what was stored is there, and nothing is kept.

TANDEM_FAULTS (default 1) multiplies how many allocations fail: `make soak-faults` has 20 times as many.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import start_tandem, tandem_binary
from harness import conversations as say
from harness.conversations import Conversation, Ended, Place, Talk
from harness.faults import FAIL_FROM, FAILED, LIVE_BLOCKS, LIVE_BYTES, NEVER, Faults, all_sleep
from harness.server import HOST, PATIENCE_S, TIME_FACTOR, Server, free_port
from harness.tls import Identity, client_context, make_identity

MULTIPLE = int(os.environ.get("TANDEM_FAULTS", "1"))
# Of where allocations fail: the same each time in `make test`.
SEED = int(os.environ.get("TANDEM_FAULTS_SEED", "1" if MULTIPLE == 1 else str(random.randrange(10_000))))
TURNS, ATTEMPTS = 5, 24
WARM_UPS = 12  # without faults: each worker has served each kind of conversation
RESIDENT_SLACK_BYTES = 1 << 20  # pages that the allocator, or a device in software, touches only now
EX_OK, EX_USAGE, EX_OSERR = 0, 64, 71

pytestmark = pytest.mark.skipif(TIME_FACTOR > 1, reason="a sanitizer's allocator cannot be replaced")

KEPT = {b"kept%d" % i: b"value %d " % i * (1 + 37 * i) for i in range(60)}
Run = Callable[[], None]
_folder = tempfile.TemporaryDirectory(prefix="tandem-allocations")


@dataclass
class Level:
    """What a server holds when it serves no client."""

    blocks: int
    bytes: int
    resident: int
    files: int


def what_grows(levels: list[Level]) -> list[str]:
    """Of levels after the same turns again and again: what was more after each of them than before. Some of what a
    server makes when it is needed comes late, but not in every turn."""
    grows = []
    for name in asdict(levels[0]):
        course = [getattr(level, name) for level in levels]
        steps = [after - before for before, after in pairwise(course)]
        if min(steps) > (RESIDENT_SLACK_BYTES if name == "resident" else 0):
            grows.append(f"{name} {course}")
    return grows


@dataclass
class Subject:
    """A server that runs out of memory, how it is reached, and what is asked of it."""

    server: Server
    faults: Faults
    plain: Place
    runs: dict[str, Run] = field(default_factory=dict)

    def add(self, place: Place, *conversations: Conversation) -> None:
        for one in conversations:
            self.runs[one.__name__] = partial(one, place)

    def store_kept(self) -> None:
        with self.plain.talk() as t:
            for key, value in KEPT.items():
                t.say(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), b"STORED\r\n")

    def check_kept(self, quiet: Talk) -> None:
        want = b"".join(b"VALUE %s 0 %d\r\n%s\r\n" % (k, len(v), v) for k, v in KEPT.items())
        quiet.say(b"get " + b" ".join(KEPT) + b"\r\n", want + b"END\r\n")

    def allocations(self, run: Run) -> int:
        """How many there are in such a conversation, in which none fails."""
        self.faults.begin_counting()
        run()
        count = self.faults.counted()
        self.faults.set(FAIL_FROM, NEVER)
        return count

    def fail(self, run: Run, after: int, in_a_row: int) -> int:
        """Has allocations of a conversation fail; returns how many did."""
        self.faults.fail(after, in_a_row)
        with contextlib.suppress(Ended):
            run()
        self.faults.set(FAIL_FROM, NEVER)
        self.server.check_alive()
        return self.faults.get(FAILED)

    def fail_each(self, run: Run, quiet: Talk, most: int, drawn: random.Random) -> int:
        """One or five allocations, at `most` places of the conversation; returns how many failed."""
        count = self.allocations(run)
        places = range(count) if count <= most else sorted(drawn.sample(range(count), most))
        failed = 0
        for place in places:
            for in_a_row in (1, 5):
                failed += self.fail(run, place, in_a_row)
                self.check_kept(quiet)
        return failed

    def level(self, quiet: Talk) -> Level:
        """When all connections but that one have gone."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = quiet.ask(b"stats\r\n", say.STAT_LINES)
            if b"STAT curr_connections 1\r\n" in told:
                break
            assert time.monotonic() < deadline, told
            time.sleep(0.002)
        files = len(os.listdir(f"/proc/{self.server.pid}/fd"))
        return Level(self.faults.get(LIVE_BLOCKS), self.faults.get(LIVE_BYTES), self.server.resident_bytes(), files)

    def settle(self) -> None:
        """Waits until no thread allocates, or is about to."""
        deadline = time.monotonic() + PATIENCE_S
        still = 0
        while still < 3 and time.monotonic() < deadline:
            is_still = self.allocations(partial(time.sleep, 0.004)) == 0 and all_sleep(self.server.pid)
            still = still + 1 if is_still else 0


@contextlib.contextmanager
def started(tmp_path: Path, *options: str, **keywords: object) -> Iterator[tuple[Server, Faults]]:
    faults = Faults(tmp_path)
    with faults.preloaded():
        server = start_tandem(*options, **keywords)
    try:
        yield server, faults
        server.close()
    finally:
        server.kill()
        server.log.close()


@cache
def server_identity() -> Identity:
    return make_identity(Path(_folder.name), "server")


@contextlib.contextmanager
def tcp_server(tmp_path: Path) -> Iterator[Subject]:
    with started(tmp_path, "-t", "1") as (server, faults):
        place = Place(server.connect)
        subject = Subject(server, faults, place)
        subject.add(place, say.text, say.statistics, say.metadump, say.watch, say.crawler, say.binary)
        subject.runs["udp"] = partial(say.udp, (HOST, server.port))
        yield subject


@contextlib.contextmanager
def local_server(tmp_path: Path) -> Iterator[Subject]:
    """Several workers; sockets that are full soon."""
    with started(tmp_path, "-t", "3", "-I", "4m", unix_path=tmp_path / "socket") as (server, faults):
        place = Place(server.connect)
        subject = Subject(server, faults, place)
        together = [partial(one, place) for one in (say.text, say.statistics, say.binary, say.large)]
        subject.runs["together"] = partial(say.side_by_side, together)
        subject.add(place, say.large, say.unread, say.watch)
        yield subject


@contextlib.contextmanager
def tls_server(tmp_path: Path) -> Iterator[Subject]:
    identity = server_identity()
    context = client_context(identity)
    port = free_port()
    options = ["-U", "0", "-t", "1", "-I", "4m", "-l", f"notls:{HOST}:{port}", *identity.options()]
    with started(tmp_path, *options) as (server, faults):
        encrypted = Place(lambda: context.wrap_socket(server.connect(), server_hostname=HOST))
        subject = Subject(server, faults, Place(lambda: socket.create_connection((HOST, port), 10)))
        subject.add(encrypted, say.text, say.large, say.binary, say.watch, say.refresh_certs)
        yield subject


@contextlib.contextmanager
def password_server(tmp_path: Path) -> Iterator[Subject]:
    passwords = tmp_path / "passwords"
    passwords.write_text("user:pass\nother:word\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMCACHED_SASL_PWDB", str(passwords))
        with started(tmp_path, "-U", "0", "-t", "1", "-S", "-Y", str(passwords)) as (server, faults):
            place = Place(server.connect, say.authenticate_text)
            subject = Subject(server, faults, place)
            subject.add(place, say.text, say.wrong_passwords)
            subject.add(Place(server.connect, say.authenticate_binary), say.binary)
            subject.runs["reload"] = partial(reload_passwords, server, place)
            yield subject


def reload_passwords(server: Server, place: Place) -> None:
    """Whether they can be read or not, they stay what they are."""
    server.process.send_signal(signal.SIGHUP)
    say.text(place)


@contextlib.contextmanager
def metrics_server(tmp_path: Path) -> Iterator[Subject]:
    port = free_port()
    with started(tmp_path, "-U", "0", "-t", "1", "-o", f"metrics={HOST}:{port}") as (server, faults):
        subject = Subject(server, faults, Place(server.connect))
        for path in ("/metrics", "/api/status", "/"):
            subject.runs[path] = partial(say.http_get, port, path)
        yield subject


def device_server(*options: str) -> Callable[[Path], contextlib.AbstractContextManager[Subject]]:
    @contextlib.contextmanager
    def start(tmp_path: Path) -> Iterator[Subject]:
        with started(tmp_path, "-U", "0", "-t", "2", "-o", ",".join(("gpu=sim", *options))) as (server, faults):
            place = Place(server.connect)
            subject = Subject(server, faults, place)
            subject.add(place, say.text, say.many_keys)
            yield subject

    return start


SUBJECTS = {
    "tcp": tcp_server,
    "unix": local_server,
    "tls": tls_server,
    "passwords": password_server,
    "metrics": metrics_server,
    "mirrored": device_server("preset=2"),
    "values": device_server("preset=2", "gpu_values=8MiB"),
    "device": device_server("preset=3"),
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", SUBJECTS)
def test_each_allocation_may_fail_and_nothing_is_kept(kind: str, tmp_path: Path) -> None:
    """Each turn fails the same ones: what a failure leaves behind is left again in each, however many there are. What a
    worker makes at its busiest time may come late, with several workers in the fortieth turn: then the turns are taken
    once more. What is left in each turn grows in all of them."""
    with SUBJECTS[kind](tmp_path) as subject:
        subject.store_kept()
        with subject.plain.talk() as quiet:
            for run in list(subject.runs.values()) * WARM_UPS:
                run()
            failed = 0

            def turn() -> Level:
                nonlocal failed
                drawn = random.Random(SEED)
                for run in subject.runs.values():
                    failed += subject.fail_each(run, quiet, 2 * MULTIPLE, drawn)
                for run in subject.runs.values():
                    run()
                return subject.level(quiet)

            turn()
            for _ in range(ATTEMPTS):
                levels = [turn() for _ in range(TURNS)]
                grows = what_grows(levels)
                if not grows:
                    break
    print(f"{kind}: {failed} allocations failed (TANDEM_FAULTS_SEED={SEED}); {levels[-1]}")
    assert failed >= 30
    assert grows == []


def test_what_grows_is_seen() -> None:
    """A leak of one small block in each turn, of a file, of pages; not what comes and goes, or came once."""
    flat = Level(300, 3_000_000, 40 << 20, 12)
    assert what_grows([flat] * 5) == []
    late = Level(320, 3_040_000, 41 << 20, 13)
    once = [flat, late, late, Level(330, 3_050_000, 42 << 20, 13), flat]
    assert what_grows(once) == []
    leak = [Level(300 + i, 3_000_000 + 24 * i, 40 << 20, 12) for i in range(5)]
    assert [text.split()[0] for text in what_grows(leak)] == ["blocks", "bytes"]
    assert what_grows([Level(300, 3_000_000, 40 << 20, 12 + i) for i in range(5)])[0].startswith("files")
    assert what_grows([Level(300, 3_000_000, (40 + 5 * i) << 20, 12) for i in range(5)])[0].startswith("resident")


# What a server makes when it is needed for the first time: threads, what OpenSSL keeps, places in a device's log.
FIRST = [("tcp", "watch", 3), ("mirrored", "text", 3), ("device", "text", 1), ("tls", "text", 3)]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "conversation", "most"), FIRST)
def test_what_is_made_once_is_made_later_if_its_allocation_failed(
    kind: str, conversation: str, most: int, tmp_path: Path
) -> None:
    def after(place: int, in_a_row: int) -> tuple[int, int]:
        """How many failed of a fresh server's first conversation, and how many allocations it had if none did."""
        folder = tmp_path / f"{place}-{in_a_row}"
        folder.mkdir()
        with SUBJECTS[kind](folder) as subject:
            subject.settle()
            run = subject.runs[conversation]
            if in_a_row == 0:
                return 0, subject.allocations(run)
            failed = subject.fail(run, place, in_a_row)
            for _ in range(2):
                run()  # and is not refused
            return failed, 0

    _, count = after(0, 0)
    most *= MULTIPLE
    # The first one is there in each conversation; on a busy machine what a server makes late is counted, too.
    places = range(count) if count <= most else [0, *sorted(random.Random(count).sample(range(1, count), most - 1))]
    failed = sum(after(place, in_a_row)[0] for place in places for in_a_row in (1, 5))
    print(f"{kind} {conversation}: {failed} of {count} allocations failed")
    assert failed > 0


def test_a_failed_allocation_in_each_scrape_does_not_use_up_the_reserve(tmp_path: Path) -> None:
    """Only the monitor does anything: workers, which get the reserve back after their passes, sleep."""
    with metrics_server(tmp_path) as subject:
        subject.settle()
        for path in subject.runs.values():
            path()
        failed = 0
        for turn in range(24):
            failed += subject.fail(subject.runs["/metrics"], 20 + turn, 1)
            if turn == 12:
                time.sleep(0.6)  # the maintenance thread's turn
        assert failed >= 20
        for path in subject.runs.values():
            path()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["tls", "metrics", "gpu", "restart"])
def test_each_allocation_of_the_start_may_fail(kind: str, tmp_path: Path) -> None:
    """With what the plain start (test_faults.py) has not: it serves, or says why not; it never ends by a signal."""
    faults = Faults(tmp_path)
    identity = server_identity()
    options = {
        "tls": [
            "--tls-cert",
            str(identity.certificate),
            "--tls-key",
            str(identity.key),
            "--tls-ca",
            str(identity.certificate),
        ],
        "metrics": ["--metrics", f"{HOST}:{free_port()}"],
        "gpu": ["--gpu", "sim", "--preset", "mega-kv", "--gpus", "2"],
        "restart": ["--memory-file", str(tmp_path / "memory")],
    }[kind]
    command = [
        str(tandem_binary()),
        "serve",
        "--port",
        str(free_port()),
        "--memory",
        "32MiB",
        "--threads",
        "2",
        *options,
    ]

    def start(after: int, in_a_row: int) -> int:
        faults.fail(after, in_a_row)
        process = subprocess.Popen(
            command, env={**os.environ, **faults.environment()}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        said = b""
        while line := process.stderr.readline():
            said += line
            if b"serving on" in line:
                process.terminate()
                break
        said += process.communicate(timeout=60 * TIME_FACTOR)[1]
        failed = faults.get(FAILED)
        if b"serving on" in said:
            assert process.returncode == EX_OK, (after, process.returncode, said)
        else:
            assert process.returncode in (EX_USAGE, EX_OSERR) and said, (after, process.returncode, said)
        return failed

    start(say_many := 1 << 40, 0)
    count = say_many - faults.get(FAIL_FROM)
    most = 2 * MULTIPLE
    places = range(count) if count <= most else sorted(random.Random(count).sample(range(count), most))
    failed = sum(start(place, in_a_row) for place in places for in_a_row in (1, 5))
    print(f"{kind}: {failed} of {count} allocations failed")
    assert failed > 0
