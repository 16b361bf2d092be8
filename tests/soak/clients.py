"""The load of a soak: `tandem bench load` in turns of sizes that shift, connections that come and go, and one that
reads slowly. All of them check what they get."""

from __future__ import annotations

import itertools
import json
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from conftest import tandem_binary
from harness.server import HOST, PATIENCE_S


@dataclass(frozen=True)
class Load:
    """One `tandem bench load`. Contents follow from a key's number and the sizes, so that each has keys of a length of
    its own: what one of them wrote the rest never ask for."""

    name: str
    gentle_rate: int  # operations a second, of a soak that spares the processors
    options: tuple[str, ...]


# Look-aside traffic for measuring latency, the same all the time. Beyond what the memory holds.
STEADY = Load(
    "steady",
    2000,
    (
        *("--key-size", "16", "--value-size", "64-1024", "--keys", "300000", "--connections", "4", "--pipeline", "4"),
        *("--mix", "get=0.7,set=0.25,remove=0.03,touch=0.02"),
    ),
)
# Beside it, one after the other: each needs other size classes, for which pages have to move.
SHIFTING = [
    Load(
        f"values of {sizes}", rate, (*f"--key-size {key} --value-size {sizes} --keys {keys}".split(), *options.split())
    )
    for rate, key, sizes, keys, options in (
        (4000, 17, "8-200", 800_000, "--protocol meta --pipeline 16 --mix get=0.4,set=0.6"),
        (1000, 18, "1024-6000", 40_000, "--protocol binary --pipeline 8 --mix get=0.5,set=0.45,remove=0.05"),
        (150, 19, "20000-90000", 2_500, "--connections 3 --mix get=0.5,set=0.5"),
        (20, 21, "530000-900000", 200, "--connections 2 --mix get=0.5,set=0.5"),
        (1000, 20, "300-3000", 100_000, "--multiget 20 --pipeline 2 --mix get=0.5,set=0.5 --ttl 1 --theta 0.8"),
    )
]


def run_load(port: int, load: Load, seconds: float, seed: int, gentle: bool = False) -> dict:
    """Its result. Misses are no errors here: memory is short."""
    command = [str(tandem_binary()), "bench", "load", "--connect", f"{HOST}:{port}", "--quiet", "--no-energy"]
    command += ["--no-require-hits", "--timeout", str(PATIENCE_S), "--warmup", "0", "--json", "-"]
    command += ["--seconds", str(seconds), "--seed", str(seed), *load.options]
    command += ["--rate", str(load.gentle_rate)] if gentle else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 2 * PATIENCE_S)
    if not done.stdout:
        return {"errors": {"ended": done.returncode, "first": done.stderr}, "ops": 0}
    return json.loads(done.stdout)["runs"][0]["result"]


def errors_of(load: Load, result: dict) -> list[str]:
    errors = result["errors"]
    return [f"{load.name}: {count} {name}: {errors['first']}" for name, count in errors.items()
            if name != "first" and count]  # fmt: skip


class Background(threading.Thread):
    """Does something again and again until stopped; the first error ends it and is kept."""

    def __init__(self, name: str, port: int, wrong: list[str]) -> None:
        super().__init__(name=name, daemon=True)
        self.port = port
        self.wrong = wrong
        self.rounds = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            for number in itertools.count():
                if self.stopping.is_set():
                    return
                self.once(number)
                self.rounds += 1
        except Exception as error:
            self.wrong.append(f"{self.name}: {error!r}")

    def stop(self) -> None:
        self.stopping.set()
        self.join(2 * PATIENCE_S)

    def connect(self) -> socket.socket:
        return socket.create_connection((HOST, self.port), timeout=PATIENCE_S)

    def once(self, number: int) -> None:
        raise NotImplementedError


def value_of(name: str, number: int, size: int) -> bytes:
    return random.Random(f"{name}{number}").randbytes(size)


def check_values(received: bytes, keys: list[bytes], value: Callable[[bytes], bytes]) -> None:
    """Each get's answer in turn: the value whole, or a miss."""
    at = 0
    for key in keys:
        wanted = value(key)
        hit = b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(wanted), wanted)
        answer = b"END\r\n" if received.startswith(b"END\r\n", at) else hit
        assert received.startswith(answer, at), f"wrong value of {key!r}: {received[at : at + 100]!r}"
        at += len(answer)
    assert at == len(received), received[at:]


class Churner(Background):
    """Connections that live for one request; each third goes without waiting for the answer."""

    def once(self, number: int) -> None:
        key, value = b"churn%d" % (number % 5000), value_of(self.name, number % 5000, 10 + number % 700)
        with self.connect() as connection:
            connection.sendall(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (key, len(value), value, key))
            if number % 3 == 0:
                return
            received = b""
            while not received.endswith(b"END\r\n"):
                data = connection.recv(1 << 16)
                assert data, f"closed after {received!r}"
                received += data
            assert received.startswith(b"STORED\r\n"), received[:100]
            check_values(received[8:], [key], lambda _: value)
        time.sleep(0.01)


class SlowReader(Background):
    """Asks for some MiB at once and reads it in small pieces, so that the server has to keep it."""

    GETS = 12
    BYTES = 250_000

    def once(self, number: int) -> None:
        values = {b"slow%d" % i: value_of(self.name, i, self.BYTES) for i in range(self.GETS)}
        with self.connect() as connection:
            for key, value in values.items():
                connection.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
                assert connection.recv(100) == b"STORED\r\n"
            connection.sendall(b"".join(b"get %s\r\n" % key for key in values) + b"mn\r\n")
            received = bytearray()
            while not received.endswith(b"MN\r\n"):
                data = connection.recv(1 << 16)
                assert data, f"closed after {len(received)} bytes"
                received += data
                if not self.stopping.is_set():
                    time.sleep(0.005)
        check_values(bytes(received[: -len(b"MN\r\n")]), list(values), values.__getitem__)
