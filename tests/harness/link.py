"""Two machines and a cable between them that harms what it carries: network namespaces, a pair of veth devices, and a
kernel that loses, doubles, delays and reorders packets. The namespaces have no names: each goes with its last socket,
process and descriptor, however a test ended."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from harness.wire import Datagram

CLONE_NEWNET = 0x40000000
SO_RCVBUFFORCE = 33
SIOCETHTOOL = 0x8946
ETHTOOL_SET = {"checksums": 0x17, "segments": 0x1F, "merging": 0x2C}  # ETHTOOL_STXCSUM, _STSO, _SGRO
SERVER, CLIENT = "192.0.2.1", "192.0.2.2"
DEVICE = "cable"

# For kernels without netem. Packets are lost by their receiver, as a sender is told of what its own rules drop. Delayed
# ones are put into a class of traffic so slow that later ones overtake them.
SENT = """
table ip harm {
  counter doubled {}
  counter delayed {}
  chain sent {
    type filter hook postrouting priority 0;
    oifname != DEVICE accept
    meta l4proto {tcp, udp} numgen random mod 100 < DOUBLED counter name doubled dup to PEER device DEVICE
    meta l4proto {tcp, udp} numgen random mod 100 < DELAYED counter name delayed meta priority set 1:2
  }
}
"""
RECEIVED = """
table netdev harm {
  counter lost {}
  chain received {
    type filter hook ingress device DEVICE priority 0;
    meta l4proto {tcp, udp} numgen random mod 100 < LOST counter name lost drop
  }
}
"""
SLOW = "htb rate 20mbit burst 1 cburst 1 overhead 1000"  # a packet takes a millisecond, whatever its size
JITTER = "delay 2ms 2ms"


class Impossible(Exception):
    """This user or kernel has no such network; the message says what is missing."""


def _call(function: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), function)


class Machine:
    """A network namespace: an end of the cable, and a loopback device."""

    def __init__(self, address: str, number: int) -> None:
        self.address = address
        self.mac = f"02:00:00:00:00:{number:02x}"
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _call("unshare", CLONE_NEWNET)
            self.namespace = open("/proc/thread-self/ns/net")  # noqa: SIM115 (the machine is there as long as it is open)
            _call("setns", before, CLONE_NEWNET)
        except OSError as error:
            raise Impossible(f"no network namespaces: {error}") from error
        finally:
            os.close(before)

    def close(self) -> None:
        self.namespace.close()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets and processes that this thread makes meanwhile are this machine's, and stay so."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _call("setns", self.namespace.fileno(), CLONE_NEWNET)
        try:
            yield
        finally:
            _call("setns", before, CLONE_NEWNET)
            os.close(before)

    def run(self, command: str, given: str = "") -> str:
        """What the command prints. OSError if it fails."""
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        with self.inside():
            done = subprocess.run(
                ["/usr/bin/env", f"PATH={path}", *command.split()], input=given, capture_output=True, text=True
            )
        if done.returncode == 127:
            raise AssertionError(f"{done.stderr.strip()}: `scripts/setup test` installs it")
        if done.returncode != 0:
            raise OSError(f"{command}: {done.stderr.strip()}")
        return done.stdout

    def offload(self, **settings: bool) -> None:
        """What the end of the cable does for its sender (checksums, segments) and its receiver (merging). A veth device
        that does checksums leaves them out, as it knows that no wire carries its packets."""
        with self.inside(), socket.socket(type=socket.SOCK_DGRAM) as any_socket:
            for name, value in settings.items():
                setting = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_SET[name], value))
                request = struct.pack("16sP", DEVICE.encode(), ctypes.addressof(setting))
                fcntl.ioctl(any_socket, SIOCETHTOOL, request.ljust(40, b"\0"))

    def set(self, **settings: int) -> None:
        """Of net.ipv4."""
        with self.inside():
            for name, value in settings.items():
                Path("/proc/sys/net/ipv4", name).write_text(str(value))

    def tcp(self, name: str) -> int:
        """A counter of /proc/net/snmp or netstat."""
        lines = []
        with self.inside():
            for file in ("snmp", "netstat"):
                lines += Path("/proc/thread-self/net", file).read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            if names.startswith("Tcp"):
                found = dict(zip(names.split(), values.split(), strict=True))
                if name in found:
                    return int(found[name])
        raise AssertionError(f"no {name}")


class Tap:
    """Memcached's datagrams that arrive at a machine."""

    def __init__(self, machine: Machine) -> None:
        with machine.inside():
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
        self.socket.bind((machine.address, 0))
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        except PermissionError:  # root of a user's namespace only
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self.datagrams: list[Datagram] = []  # that were read, in order of arrival

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = self.socket.recv(65536, socket.MSG_DONTWAIT)
                headers = 4 * (packet[0] & 15) + 8  # of IP and UDP
                self.datagrams.append(Datagram.parse(packet[headers:]))


class Link:
    """A server's machine, a client's, and the cable. Of a hundred packets each way it loses `lost`, and so on."""

    def __init__(self, *, lost: int = 0, doubled: int = 0, delayed: int = 0) -> None:
        self.by_netem = False
        self.server = Machine(SERVER, 1)
        self.client = Machine(CLIENT, 2)
        self.ways = ((self.server, self.client), (self.client, self.server))
        try:
            self._join()
            if lost or doubled or delayed:
                for sender, receiver in self.ways:
                    self._harm(sender, receiver, LOST=lost, DOUBLED=doubled, DELAYED=delayed)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
        self.client.close()

    def _join(self) -> None:
        # Each packet by itself, not trains of them that would share their fate.
        device = f"name {DEVICE} gso_max_segs 1 address"
        other_end = f"/proc/{os.getpid()}/fd/{self.client.namespace.fileno()}"
        try:
            self.server.run(
                f"ip link add {device} {self.server.mac} type veth peer {device} {self.client.mac} netns {other_end}"
            )
        except OSError as error:
            raise Impossible(f"no veth devices: {error}") from error
        for machine, _ in self.ways:
            machine.run("ip link set lo up")
            machine.run(f"ip address add {machine.address}/24 dev {DEVICE}")
        self.up()

    def up(self) -> None:
        for machine, _ in self.ways:
            machine.run(f"ip link set {DEVICE} up")
        for machine, peer in self.ways:
            # Known, and not asked for over a cable that loses questions.
            machine.run(f"ip neighbour replace {peer.address} lladdr {peer.mac} dev {DEVICE}")
            # What is lost is sent again soon, as between machines that are near.
            machine.run(f"ip route replace {peer.address} dev {DEVICE} rto_min 10ms quickack 1")

    def down(self) -> None:
        self.client.run(f"ip link set {DEVICE} down")

    def __str__(self) -> str:
        return f"{'netem' if self.by_netem else 'nftables'}: {self.harm()}"

    def least_harm(self) -> int:
        """Of any kind and way."""
        return min(count for way in self.harm().values() for count in way.values())

    def harm(self) -> dict[str, dict[str, int]]:
        """How many packets the kernel has lost, doubled and delayed, each way. netem counts only those lost."""
        harm: dict[str, dict[str, int]] = {}
        for (sender, receiver), way in zip(self.ways, ("to the client", "to the server"), strict=True):
            harm[way] = {}
            if self.by_netem:
                (queue,) = json.loads(sender.run(f"tc -s -j qdisc show dev {DEVICE} root"))
                harm[way]["lost"] = queue["drops"]
                continue
            for machine, family in ((sender, "ip"), (receiver, "netdev")):
                for line in json.loads(machine.run(f"nft -j list counters table {family} harm"))["nftables"]:
                    if "counter" in line:
                        harm[way][line["counter"]["name"]] = line["counter"]["packets"]
        return harm

    def _harm(self, sender: Machine, receiver: Machine, **percent: int) -> None:
        netem = f"netem limit 100000 loss {percent['LOST']}% duplicate {percent['DOUBLED']}% {JITTER}"
        try:
            sender.run(f"tc qdisc add dev {DEVICE} root {netem}")
            self.by_netem = True
            return
        except OSError as error:
            no_netem = error
        try:
            sender.run(f"tc qdisc add dev {DEVICE} root handle 1: htb")
            sender.run(f"tc class add dev {DEVICE} parent 1: classid 1:2 {SLOW}")
            for machine, rules in ((sender, SENT), (receiver, RECEIVED)):
                for name, value in dict(DEVICE=DEVICE, PEER=receiver.address, **percent).items():
                    rules = rules.replace(name, str(value))
                machine.run("nft -f -", rules)
        except OSError as error:
            raise Impossible(f"neither netem ({no_netem}) nor rules that drop and delay packets ({error})") from error
