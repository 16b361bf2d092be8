"""`tandem-member` beside real servers and real etcds (docs/fleet.md): nodes that join, leave, hang and die; members and
etcds that die; lists of a file. All times but the lease's are a tenth of the usual ones. Three etcds, one of which is
killed, need a minute: TANDEM_FLEET=1, or `make soak-fleet`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import tandem_binary
from harness.server import HOST, PATIENCE_S, Server, begin_child, free_port, wait_until
from harness.wire import Stream

PACE = ["--ttl", "2", "--pace", "10"]


def member_binary() -> Path:
    path = tandem_binary().with_name("tandem-member")
    assert path.exists(), f"no {path}: run `make build` where libcurl is"
    return path


def member(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [member_binary(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


class Etcd:
    """One of the etcds of a registry."""

    def __init__(self, folder: Path, number: int = 0, peers: list[int] | None = None) -> None:
        self.port = free_port()
        self.peers = peers or [free_port()]
        self.folder, self.number = folder, number
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        program = shutil.which("etcd")
        assert program, "etcd is needed: Debian's package etcd-server"
        peer = f"http://{HOST}:{self.peers[self.number]}"
        cluster = ",".join(f"e{i}=http://{HOST}:{port}" for i, port in enumerate(self.peers))
        command = [program, "--name", f"e{self.number}", "--data-dir", self.folder / f"e{self.number}"]
        command += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster]
        with (self.folder / f"e{self.number}.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=begin_child)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Node:
    """A server with its member."""

    def __init__(self, folder: Path, name: str, registry: str) -> None:
        self.name, self.control, self.folder = name, folder / name, folder
        self.port = free_port()
        self.registry = registry
        self.server: subprocess.Popen[bytes] | None = None
        self.member: subprocess.Popen[bytes] | None = None

    def start_server(self) -> None:
        command = [tandem_binary(), "serve", "--port", str(self.port), "--control", self.control]
        command += ["--memory", "64MiB", "--threads", "1", "--gpu", "off"]
        self.server = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=begin_child)

    def start_member(self, *more: object) -> None:
        command = [member_binary(), "run", "--registry", self.registry, "--cluster", "f", *PACE]
        command += ["--server", f"{HOST}:{self.port}", "--control", self.control]
        command += ["--advertise", self.name, "--advertise-ip", HOST, "--drain", "70", *map(str, more)]
        with self.log.open("ab") as log:
            self.member = subprocess.Popen(command, stderr=log, preexec_fn=begin_child)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def kill(self, what: str) -> None:
        process = getattr(self, what)
        if process is not None:
            process.kill()
            process.wait()
            setattr(self, what, None)

    def document(self) -> str:
        """The list that clients get; empty while there is none, or no server."""
        reply = self.ask(b"config get cluster\r\n")
        return reply.split("\r\n")[1] if reply.startswith("CONFIG") else ""

    def ask(self, request: bytes) -> str:
        try:
            with Stream(Server.connect(self)) as client:  # type: ignore[arg-type]
                return client.exchange(request).data.decode()
        except OSError:
            return ""

    unix_path = None

    def address(self, host: str = HOST) -> tuple[str, int]:
        return host, self.port

    def listed(self) -> list[str]:
        return re.findall(r"([^ \n|]+)\|", re.sub(r"\|[^|]*\|", "|", self.document()))

    def version(self) -> int:
        return int(self.document().partition("\n")[0] or 0)


Fleet = Callable[..., list[Node]]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    etcd = Etcd(tmp_path)
    etcd.start()
    yield etcd
    etcd.kill()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Fleet]:
    """Starts nodes with members, and waits until all have the list of all; in the order of the list."""
    with ExitStack() as stack:

        def start(count: int, registry: str) -> list[Node]:
            made = [Node(tmp_path, f"{chr(97 + i)}.test", registry) for i in range(count)]
            for node in made:
                for what in ("member", "server"):
                    stack.callback(node.kill, what)
                node.start_server()
                node.start_member()
            names = {node.name for node in made}
            wait_until(lambda: all(set(node.listed()) == names for node in made), "the first list")
            return sorted(made, key=lambda node: made[0].listed().index(node.name))

        yield start


def have(nodes: list[Node], listed: list[Node]) -> None:
    """Waits until the servers of these nodes have one list, of those."""
    names = [node.name for node in listed]
    wait_until(
        lambda: (
            [node.listed() for node in nodes] == [names] * len(nodes) and len({node.version() for node in nodes}) == 1
        ),
        f"the list {names}",
    )


def test_a_life(etcd: Etcd, nodes: Fleet) -> None:
    a, b, c = fleet = nodes(3, f"etcd:{etcd.url}")
    first = a.version()
    item = b"get AmazonElastiCache:cluster\r\n"  # of clients of before `config`
    wait_until(lambda: a.ask(item).split("\r\n")[1:2] == [a.document()], "the list as an item")

    b.kill("server")
    have([a, c], [a, c])
    b.start_server()
    have(fleet, fleet)  # in its place

    os.kill(c.server.pid, signal.SIGSTOP)
    have([a, b], [a, b])
    os.kill(c.server.pid, signal.SIGCONT)
    have(fleet, fleet)
    assert a.version() >= first + 4

    # A member that is killed and started again changes nothing.
    before = a.document()
    b.kill("member")
    b.start_member()
    status = ["status", "--control", b.control, "--json"]
    wait_until(lambda: '"registered":true' in member(*status).stdout, "the name is free again")
    assert a.document() == before

    # Nor does an etcd that is killed.
    etcd.kill()
    wait_until(lambda: member(*status).returncode == 1, "the member says that etcd is away")
    a.kill("server")
    a.start_server()
    wait_until(lambda: a.document() == before, "a server that starts meanwhile has the list")
    etcd.start()
    wait_until(lambda: member(*status).returncode == 0, "etcd is back")
    have(fleet, fleet)

    # A member that dies with its machine.
    c.kill("member")
    c.kill("server")
    have([a, b], [a, b])
    # One that leaves: its server has the list without it before it ends.
    b.member.terminate()
    have([a, b], [a])
    assert b.member.wait(PATIENCE_S) == 0
    assert "this node is leaving" in b.log.read_text()


def test_operators(etcd: Etcd, nodes: Fleet, tmp_path: Path) -> None:
    a, b, c = fleet = nodes(3, f"etcd:{etcd.url}")
    wait_until(lambda: member("status", "--control", a.control).returncode == 0, "the member says that all is well")
    done = member("status", "--control", a.control)
    assert re.search(r"^in_list +yes$", done.stdout, re.MULTILINE), done
    assert member("drain", "--control", b.control).returncode == 0
    have(fleet, [a, c])
    wait_until(
        lambda: member("status", "--control", b.control).returncode == 1, "the member says that it is not listed"
    )
    assert b.member.poll() is None
    assert member("drain", "--undo", "--control", b.control).returncode == 0
    have(fleet, fleet)

    # Two of one name: the second waits.
    rival = Node(tmp_path, a.name, a.registry)
    rival.control = tmp_path / "rival"
    rival.start_server()
    rival.start_member("--advertise-port", a.port)
    try:
        wait_until(lambda: f"another member has the name {a.name}" in a.log.read_text(), "the second says so")
        assert len(a.listed()) == 3
    finally:
        rival.kill("member")
        rival.kill("server")

    # More than a third at once is held, until somebody says that it is meant.
    for node in (b, c):
        node.kill("member")
        node.kill("server")
    wait_until(lambda: len(json.loads(member("status", "--control", a.control, "--json").stdout)["held"]) == 1, "held")
    registry = ["--registry", a.registry, "--cluster", "f"]
    shown = member("publish", *registry)
    assert shown.returncode == 0 and re.fullmatch(rf"\d+\n{a.name}\|{HOST}\|{a.port}\n", shown.stdout), shown
    assert len(a.listed()) == 2
    assert member("publish", "--force", *registry).returncode == 0
    have([a], [a])


def test_a_list_of_a_file(nodes: Fleet, tmp_path: Path) -> None:
    file, metrics = tmp_path / "list", tmp_path / "tandem.prom"
    file.write_text(f"7\nold.test|{HOST}|1\n")
    node = Node(tmp_path, "a.test", f"file:{file}")
    node.start_server()
    node.start_member("--metrics-file", metrics)
    try:
        wait_until(lambda: node.listed() == ["old.test"], "the file's list")
        file.write_text(f"8\nnew.test|{HOST}|1\n")
        wait_until(lambda: node.listed() == ["new.test"], "the file's new list")
        file.write_text("9\n")  # half written
        wait_until(lambda: "no list of two lines" in node.log.read_text(), "the mistake is told")
        assert node.listed() == ["new.test"]
        node.kill("server")
        node.start_server()
        wait_until(lambda: node.listed() == ["new.test"], "a server that was restarted has the list")
        assert "tandem_member_version 8\n" in metrics.read_text()
        node.member.terminate()
        assert node.member.wait(PATIENCE_S) == 0
    finally:
        node.kill("member")
        node.kill("server")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 64, "a command is missing"),
        (["walk"], 64, "unknown command walk"),
        (["run"], 64, "--registry is required"),
        (["run", "--registry", "zk:x"], 64, "expected etcd:URL or file:PATH"),
        (["run", "--registry", "etcd:http://x"], 64, "--cluster: a name"),
        (["run", "--registry", "etcd:x:1", "--cluster", "f"], 64, "does not begin with http"),
        (["run", "--registry", "etcd:http://x", "--cluster", "f"], 64, "the name by which clients know this node"),
        (
            ["run", "--registry", "etcd:http://x", "--cluster", "f", "--advertise", "A", "--advertise-ip", HOST],
            64,
            '"A"',
        ),
        (["run", "--registry", "etcd:http://x", "--cluster", "f", "--etcd-password-file", "/nil"], 66, "/nil"),
        (["run", "--registry", "file:x", "--ttl", "0"], 64, "--ttl"),
        (["status", "--control", "/nil"], 69, "/nil: No such file"),
        (["publish", "--registry", "file:x"], 64, "by writing it"),
        (["publish", "--registry", "etcd:http://127.0.0.1:1", "--cluster", "f"], 69, "127.0.0.1:1"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str) -> None:
    done = member(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.startswith("tandem-member: ") and message in done.stderr


def test_a_mistake_in_the_file_of_options(tmp_path: Path) -> None:
    file = tmp_path / "member.toml"
    file.write_text('registry = "file:x"\ncontrl = "y"\n')
    done = member("run", "--config", file)
    assert done.returncode == 64 and "contrl" in done.stderr, done


@pytest.mark.skipif(not os.environ.get("TANDEM_FLEET"), reason="a minute: make soak-fleet")
def test_three_etcds_of_which_one_is_killed(nodes: Fleet, tmp_path: Path) -> None:
    peers = [free_port() for _ in range(3)]
    etcds = [Etcd(tmp_path, number, peers) for number in range(3)]
    try:
        for etcd in etcds:
            etcd.start()
        a, b, c = fleet = nodes(3, "etcd:" + ",".join(etcd.url for etcd in etcds))
        before = a.document()
        status = ["status", "--control", a.control]
        for etcd in etcds:
            etcd.kill()
            # All members go to the others, and keep their leases or get new ones.
            for _ in range(60):
                wait_until(lambda: member(*status).returncode == 0, "two of three etcds answer")
            assert a.document() == before
            etcd.start()
        os.kill(etcds[0].process.pid, signal.SIGSTOP)
        b.kill("server")
        have([a, c], [a, c])
        os.kill(etcds[0].process.pid, signal.SIGCONT)
        b.start_server()
        have(fleet, fleet)
    finally:
        for etcd in etcds:
            etcd.kill()
