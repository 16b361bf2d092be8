"""UDP by AF_XDP sockets (docs/xdp.md), over veth between two network namespaces.

Answers are those of a socket, byte for byte, bad frames harm nothing, all that is not the port's UDP over IPv4 reaches
the kernel, and the interface is free again however the server ends. `cable` is a veth device, which runs the program
itself; `upper` a device on top of it that leaves that to the kernel (generic mode). Needs root, and a kernel with
AF_XDP; elsewhere these tests are skipped.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from conformance.corpus import GROUP_NAMES, groups
from conformance.test_udp import eligible, frames, run_case
from conftest import tandem_binary
from harness.link import CLIENT, DEVICE, SERVER, Impossible, Link
from harness.server import PATIENCE_S, Server, ServerError, wait_until
from harness.wire import Stream, UdpClient

from integration.conftest import stats

PACKET_BYTES = 1400  # of a request
UPPER, UPPER_ADDRESS, UPPER_MAC = "upper", "192.0.2.3", "02:00:00:00:00:03"
SERVER_V6, CLIENT_V6 = "2001:db8::1", "2001:db8::2"
# What the server says where this user, kernel or build has no AF_XDP.
LACKS = ("not permitted: CAP_", "has no AF_XDP", "has no BPF", "built without AF_XDP")
# A server that has ended, of this test or the one before, has its queues until the kernel has waited for their readers.
QUEUE_TAKEN = "another program has an AF_XDP socket there"
MODES = {DEVICE: "native", UPPER: "generic"}
ADDRESSES = {DEVICE: SERVER, UPPER: UPPER_ADDRESS}
MACS = {DEVICE: "02:00:00:00:00:01", UPPER: UPPER_MAC}


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    try:
        made = Link()
    except Impossible as impossible:
        pytest.skip(str(impossible))
    with made:
        # Else packets would have no checksums, as none is needed between devices of one kernel.
        made.client.offload(checksums=False)
        made.server.run(f"ip -6 address add {SERVER_V6}/64 dev {DEVICE} nodad")
        made.client.run(f"ip -6 address add {CLIENT_V6}/64 dev {DEVICE} nodad")
        with contextlib.suppress(OSError):  # a kernel without macvlan: `serve` skips
            made.server.run(f"ip link add link {DEVICE} {UPPER} address {UPPER_MAC} type macvlan mode bridge")
            made.server.run(f"ip address add {UPPER_ADDRESS}/32 dev {UPPER}")
            made.server.run(f"ip link set {UPPER} up")
            made.client.run(f"ip neighbour replace {UPPER_ADDRESS} lladdr {UPPER_MAC} dev {DEVICE}")
        yield made


@dataclass
class Subject:
    server: Server
    interface: str
    link: Link

    @property
    def address(self) -> tuple[str, int]:
        return ADDRESSES[self.interface], self.server.port

    def client(self) -> UdpClient:
        with self.link.client.inside():
            return UdpClient(self.address)

    def stream(self) -> Stream:
        with self.link.client.inside():
            return Stream(socket.create_connection(self.address, 5.0))

    def stats(self) -> dict[str, str]:
        with self.link.server.inside():
            return stats(self.server, b"tandem")

    def count(self, *names: str) -> list[int]:
        now = self.stats()
        return [int(now[name]) for name in names]


Serve = Callable[..., Subject]


@pytest.fixture
def serve(link: Link, tandem: Callable[..., Server]) -> Serve:
    def start(interface: str, *options: str, xdp: bool = True, run_as: str | None = None) -> Subject:
        if interface == UPPER and UPPER not in link.server.run("ip -brief link"):
            pytest.skip("the kernel has no macvlan devices, which leave the program to it")
        given = ("-o", f"xdp={interface}") if xdp else ()
        deadline = time.monotonic() + PATIENCE_S
        server = None
        while server is None:
            try:
                with link.server.inside():
                    server = tandem("-t", "2", "-l", ADDRESSES[interface], *given, *options, run_as=run_as)
            except ServerError as error:
                if why := next((line for line in str(error).splitlines() if any(lack in line for lack in LACKS)), None):
                    pytest.skip(why)
                if QUEUE_TAKEN not in str(error) or time.monotonic() > deadline:
                    raise
        subject = Subject(server, interface, link)
        if xdp:
            assert subject.stats()["xdp_mode"] == MODES[interface]
        return subject

    return start


@pytest.fixture(params=list(MODES))
def subject(request: pytest.FixtureRequest, serve: Serve) -> Subject:
    return serve(request.param)


def answer(client: UdpClient, request: bytes) -> bytes:
    return b"".join(datagram.payload for datagram in client.exchange(request))


# --- frames, written here


def rfc_1071(data: bytes) -> int:
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(
    subject: Subject,
    source_port: int,
    payload: bytes,
    *,
    to_mac: str | None = None,
    to: str | None = None,
    tag: bytes = b"",
    ether_type: int = 0x0800,
    options: bytes = b"",
    fragment: int = 0,
    ip_bytes: int = 0,
    udp_bytes: int = 0,
    ip_xor: int = 0,
    udp_xor: int = 0,
    cut: int = 0,
    padding: int = 0,
) -> bytes:
    addresses = socket.inet_aton(CLIENT) + socket.inet_aton(to or subject.address[0])
    length = udp_bytes or 8 + len(payload)
    udp = struct.pack(">HHHH", source_port, subject.address[1], length, 0) + payload
    total = rfc_1071(addresses + struct.pack(">HH", 17, len(udp)) + udp) or 0xFFFF
    udp = udp[:6] + struct.pack(">H", total ^ udp_xor) + udp[8:]
    first = 0x45 + len(options) // 4
    ip = struct.pack(">BBHHHBBH", first, 0, ip_bytes or 20 + len(options) + len(udp), 1, fragment, 64, 17, 0)
    ip += addresses + options
    ip = ip[:10] + struct.pack(">H", rfc_1071(ip) ^ ip_xor) + ip[12:]
    macs = bytes.fromhex((to_mac or MACS[subject.interface]).replace(":", "") + "020000000002")
    whole = macs + tag + struct.pack(">H", ether_type) + ip + udp
    return whole[: len(whole) - cut] + b"\0" * padding


@contextlib.contextmanager
def raw(subject: Subject) -> Iterator[Callable[[bytes], None]]:
    with (
        subject.link.client.inside(),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
    ):
        sender.bind((DEVICE, 0))
        yield sender.send


REQUEST = struct.pack(">HHHH", 77, 0, 1, 0) + b"mn\r\n"
ANSWER = struct.pack(">HHHH", 77, 0, 1, 0) + b"MN\r\n"
# What becomes of a frame: answered by the AF_XDP socket or by the kernel's, or dropped.
XDP, KERNEL, DROPPED = "xdp", "kernel", "dropped"
FRAMES: dict[str, tuple[str, dict[str, object]]] = {
    "good": (XDP, {}),
    "longer than its packet": (XDP, {"padding": 30}),
    "IPv4's sum wrong": ("xdp_wrong_sums", {"ip_xor": 1}),
    "UDP's sum wrong": ("xdp_wrong_sums", {"udp_xor": 1}),
    "cut": ("xdp_wrong_frames", {"cut": 2}),
    "IPv4's length beyond the frame": ("xdp_wrong_frames", {"ip_bytes": 600}),
    "IPv4's length less than UDP's header": ("xdp_wrong_frames", {"ip_bytes": 25}),
    "UDP's length beyond the packet": ("xdp_wrong_frames", {"udp_bytes": 100}),
    "UDP's length less than its header": ("xdp_wrong_frames", {"udp_bytes": 7}),
    "no payload": ("udp_requests_dropped", {"payload": b""}),
    "IP options": (KERNEL, {"options": b"\1\1\1\1"}),
    "a fragment": (DROPPED, {"fragment": 0x2000}),
    "a VLAN": (DROPPED, {"tag": b"\x81\0\0\5"}),
    "another Ethernet type": (DROPPED, {"ether_type": 0x1234}),
    "IPv6 by its type, and not inside": (DROPPED, {"ether_type": 0x86DD}),
    "to another machine's MAC": (DROPPED, {"to_mac": "02:00:00:00:00:77"}),
    "to another machine's address": (DROPPED, {"to": "192.0.2.77"}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str, subject: Subject) -> None:
    fate, changes = FRAMES[name]
    if name == "a VLAN" and subject.interface == UPPER:
        fate = XDP  # the device below has taken the tag off: docs/xdp.md
    counters = ["xdp_frames", "xdp_wrong_frames", "xdp_wrong_sums", "udp_requests", "udp_requests_dropped"]
    with subject.client() as client, raw(subject) as send:
        before = subject.count(*counters)
        port = client.socket.getsockname()[1]
        send(frame(subject, port, **{"payload": REQUEST, **changes}))
        if fate in (XDP, KERNEL):
            client.socket.settimeout(5.0)
            assert client.socket.recv(2000) == ANSWER
        # Another request is answered in any case, and nothing else.
        assert answer(client, b"get none\r\n") == b"END\r\n"
        grown = dict(zip(counters, (b - a for a, b in zip(before, subject.count(*counters), strict=True)), strict=True))
        wanted = dict.fromkeys(counters, 0) | {"xdp_frames": 2, "udp_requests": 2}  # the exchange's
        if fate not in (KERNEL, DROPPED):
            wanted["xdp_frames"] += 1
        if fate in (XDP, KERNEL, "udp_requests_dropped"):
            wanted["udp_requests"] += 1
        if fate in wanted:
            wanted[fate] += 1
        assert grown == wanted


@pytest.mark.parametrize("interface", MODES)
@pytest.mark.parametrize("group", GROUP_NAMES)
def test_answers_are_a_sockets(group: str, interface: str, serve: Serve) -> None:
    """The corpus: the same payloads and frames as from a server of the same kind by a socket."""
    # In one packet each: what comes in fragments, and so by the kernel, may be answered out of turn.
    cases = [case for case in groups()[group] if eligible(case) and max(map(len, case.steps)) <= PACKET_BYTES]
    cases = cases[:: max(1, len(cases) // 12)]
    by_socket = serve(interface, "-t", "1", xdp=False)
    by_xdp = serve(interface, "-t", "1")
    asked = sum(len(case.steps) for case in cases)
    with by_socket.client() as reference, by_xdp.client() as candidate:
        wrong = [(case.name, found) for case in cases if (found := run_case(case, reference, candidate))]
    assert not wrong
    assert by_xdp.count("xdp_frames")[0] >= 2 * asked - len(cases)


@pytest.mark.parametrize("size", [1, 1360, 1367, 1368, 1369, 1392, 2760, 14000, 200000, 900000])
def test_long_replies(size: int, serve: Serve) -> None:
    value = bytes(i % 251 for i in range(size))
    by_socket, by_xdp = serve(DEVICE, xdp=False), serve(DEVICE)
    answers = []
    for subject in (by_socket, by_xdp):
        with subject.stream() as stream, subject.client() as client:
            assert stream.exchange(b"set big 7 0 %d\r\n%s\r\n" % (size, value)).data == b"STORED\r\n"
            answers.append([client.exchange(request) for request in (b"get big\r\n", b"mg big v k\r\n")])
    for ours, theirs in zip(*answers, strict=True):
        assert frames(ours) == frames(theirs)
        assert b"".join(d.payload for d in ours) == b"".join(d.payload for d in theirs)
    assert b"".join(d.payload for d in answers[1][0]) == b"VALUE big 7 %d\r\n%s\r\nEND\r\n" % (size, value)


@pytest.mark.parametrize("options", [(), ("-o", "gpu=sim,preset=2,gpu_values=16MiB"), ("-o", "drop_privileges")])
def test_many_clients(options: tuple[str, ...], serve: Serve) -> None:
    subject = serve(DEVICE, *options)
    clients = [subject.client() for _ in range(16)]
    wrong: list[str] = []

    def talk(number: int, client: UdpClient) -> None:
        for i in range(150):
            value = b"%d-%d" % (number, i)
            for request, wanted in (
                (b"set k%d 0 0 %d\r\n%s\r\n" % (number, len(value), value), b"STORED\r\n"),
                (b"get k%d\r\n" % number, b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (number, len(value), value)),
            ):
                if (got := answer(client, request)) != wanted:
                    wrong.append(f"{request!r}: {got!r}")

    threads = [threading.Thread(target=talk, args=each) for each in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    assert not wrong
    requests = 16 * 150 * 2 * 2
    assert subject.count("xdp_frames", "udp_requests", "udp_replies_dropped") == [requests, requests, 0]


def test_all_else_is_the_kernels(serve: Serve) -> None:
    """TCP to the same port, UDP to another one, over IPv6 and in fragments, and requests from the machine itself."""
    subject = serve(DEVICE, "-l", SERVER_V6)
    port = subject.server.port
    with subject.stream() as stream, subject.client() as client:
        assert stream.exchange(b"set a 0 0 1\r\nx\r\n").data == b"STORED\r\n"
        large = b"y" * 20000
        client.send(b"set b 0 0 20000\r\n%s\r\n" % large)
        stored = client.receive(5.0)
        assert stored is not None and stored.payload == b"STORED\r\n"
        assert answer(client, b"get b\r\n") == b"VALUE b 0 20000\r\n%s\r\nEND\r\n" % large
        (before,) = subject.count("xdp_frames")
        assert before == 2  # get b and the mn behind it; the set came in fragments
        with subject.link.client.inside(), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as v6:
            v6.settimeout(5.0)
            v6.connect((SERVER_V6, port))
            v6.send(REQUEST)
            assert v6.recv(100) == ANSWER
        with subject.link.server.inside(), UdpClient(("127.0.0.1", port)) as local:
            assert answer(local, b"get a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"
        with subject.link.server.inside(), socket.socket(type=socket.SOCK_DGRAM) as other:
            other.settimeout(5.0)
            other.bind((SERVER, 0))
            with subject.link.client.inside(), socket.socket(type=socket.SOCK_DGRAM) as asker:
                asker.sendto(b"hello", other.getsockname())
            assert other.recv(100) == b"hello"
        assert subject.count("xdp_frames") == [before]


def test_metrics(link: Link, serve: Serve) -> None:
    port = 9150
    subject = serve(DEVICE, "-o", f"metrics={ADDRESSES[DEVICE]}:{port}")
    with subject.client() as client, raw(subject) as send:
        send(frame(subject, 4321, REQUEST, udp_xor=1))
        assert answer(client, b"get none\r\n") == b"END\r\n"
    with (
        link.server.inside(),
        urllib.request.urlopen(f"http://{ADDRESSES[DEVICE]}:{port}/metrics", timeout=20) as reply,
    ):
        lines = reply.read().decode().splitlines()
    for line in (
        "tandem_udp_datagrams_total 2",
        'tandem_udp_dropped_total{what="request"} 0',
        "tandem_xdp_frames_total 3",
        'tandem_xdp_wrong_frames_total{reason="headers"} 0',
        'tandem_xdp_wrong_frames_total{reason="checksum"} 1',
    ):
        assert line in lines, line
    info = next(line for line in lines if line.startswith("tandem_xdp_info{"))
    assert f'interface="{DEVICE}"' in info and f'mode="{MODES[DEVICE]}"' in info


def is_attached(link: Link) -> bool:
    return "prog/xdp" in link.server.run(f"ip link show {DEVICE}")


def test_the_interface_is_free_again(link: Link, serve: Serve) -> None:
    """After a stop and after a kill; the next server takes it."""
    for how in ("stop", "kill", "stop"):
        subject = serve(DEVICE)
        assert is_attached(link)
        with subject.client() as client:
            assert answer(client, b"mn\r\n") == b"MN\r\n"
        assert subject.count("xdp_frames") == [2]
        if how == "stop":
            assert subject.server.stop() == 0
        else:
            subject.server.kill()
        wait_until(lambda: not is_attached(link), "the interface is free")


def test_the_daemon_without_its_rights(link: Link, serve: Serve) -> None:
    """The interface is taken by root; the server is another user's, in another process than was started."""
    subject = serve(DEVICE, run_as="nobody")
    with subject.client() as client:
        assert answer(client, b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
    assert subject.count("xdp_frames") == [2]


def refusal(link: Link, *options: str, before: tuple[str, ...] = ()) -> str:
    command = [*before, str(tandem_binary()), "memcached", "-u", "root", "-U", "11999", "-p", "11999", *options]
    with link.server.inside():
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 71, done
    return done.stderr


def test_what_it_cannot_use(link: Link, serve: Serve) -> None:
    assert "there is no interface nosuch" in refusal(link, "-l", SERVER, "-o", "xdp=nosuch")
    assert "lo is no Ethernet interface" in refusal(link, "-l", SERVER, "-o", "xdp=lo")
    assert "no IPv4 address that the option listen names" in refusal(link, "-l", "127.0.0.1", "-o", f"xdp={DEVICE}")
    rights = ("setpriv", "--bounding-set", "-net_admin,-net_raw,-bpf,-sys_admin")
    assert "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF" in refusal(link, "-l", SERVER, "-o", f"xdp={DEVICE}", before=rights)
    serve(DEVICE)
    assert "another XDP program is attached" in refusal(link, "-l", SERVER, "-o", f"xdp={DEVICE}")


def test_packets_without_checksums(link: Link, serve: Serve) -> None:
    """From a veth device that leaves them out: dropped and counted, as no wire brings such packets."""
    subject = serve(DEVICE)
    link.client.offload(checksums=True)
    try:
        with subject.client() as client:
            client.send(b"mn\r\n")
            assert client.receive(0.3) is None
    finally:
        link.client.offload(checksums=False)
    assert subject.count("xdp_frames", "xdp_wrong_sums") == [1, 1]
    with subject.client() as client:
        assert answer(client, b"mn\r\n") == b"MN\r\n"
