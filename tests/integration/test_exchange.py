"""Chains of exchanges and takes: clients at the same keys, by the meta and the binary protocol, over each kind of index
and beside devices. All that was handed to a client and what is left is all that was written, each once."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from cli.programs import wait_until
from harness.binary import EXCHANGE_OPCODES, BinaryStream, Packet, answers
from harness.server import Server
from harness.threads import at_once
from harness.wire import Stream
from linearizability.harness import TandemServer

KEYS, ROUNDS, PIPELINED = 4, 60, 40
SERVERS = {
    "cuckoo": ("--gpu", "off", "--preset", "cpu"),
    "ordered": ("--gpu", "off", "--preset", "cpu", "--ordered"),
    "set_associative": ("--gpu", "off", "--preset", "memcachedgpu"),
    "hash_tree": ("--gpu", "off", "--preset", "heterokv"),
    "slab_list": ("--gpu", "off", "--preset", "cpu", "--index", "slab_list"),
    "located": ("--gpu", "sim", "--preset", "mirrored"),
    "values": ("--gpu", "sim", "--preset", "mirrored", "--gpu-values", "16MiB"),
    "on_device": ("--gpu", "sim", "--preset", "mega-kv"),
    "hot": ("--gpu", "sim", "--preset", "kvcg", "--hot-threshold", "5"),
}


def value_of(client: int, number: int) -> bytes:
    """Short ones, and some that are sent from where they lie, or fill pages."""
    size = 2_000_000 if number % 500 == 77 else 30_000 if number % 40 == 7 else number % 3 * 400
    return b"%d.%d." % (client, number) + b"-" * size


@dataclass(frozen=True)
class Form:
    """How a protocol takes and exchanges, and what its replies hand over."""

    connect: Callable[[Server], Stream | BinaryStream]
    take: Callable[[bytes], bytes]
    exchange: Callable[[int, bytes, bytes], bytes]  # client, key, value
    values: Callable[[bytes], Iterator[bytes]]


def meta_values(said: bytes) -> Iterator[bytes]:
    while said:
        line, _, said = said.partition(b"\r\n")
        if line.startswith(b"VA "):
            size = int(line.split()[1])
            yield said[:size]
            said = said[size + 2 :]
        else:
            assert line in (b"NF", b"HD", b"EN"), line


def binary_values(said: bytes) -> Iterator[bytes]:
    for answer in answers(said):
        assert answer.status == 0 and answer.extras and answer.cas, answer
        yield answer.value


META = Form(
    lambda server: Stream(server.connect()),
    lambda key: b"md " + key + b" G q\r\nmg " + key + b"\r\n",
    lambda client, key, value: b"ms %b %d G q\r\n%b\r\n" % (key, len(value), value),
    meta_values,
)
BINARY = Form(
    lambda server: BinaryStream(server.connect()),
    lambda key: Packet(EXCHANGE_OPCODES["takeq"], key).pack(),
    lambda client, key, value: Packet(EXCHANGE_OPCODES["exchangeq"], key, struct.pack(">II", client, 0), value).pack(),
    binary_values,
)


def converse(server: Server, form: Form, client: int, given: list[bytes], got: list[bytes]) -> None:
    chance, number = random.Random(client), 0
    with form.connect(server) as stream:
        for _ in range(ROUNDS):
            asked = b""
            for _ in range(PIPELINED):
                key = b"k%d" % chance.randrange(KEYS)
                if chance.random() < 0.3:
                    asked += form.take(key)
                    continue
                given.append(value_of(client, number))
                number += 1
                asked += form.exchange(client, key, given[-1])
            got += form.values(stream.exchange(asked).data)


@pytest.mark.parametrize("kind", SERVERS)
def test_each_value_is_handed_to_one_client(kind: str) -> None:
    server = TandemServer("--threads", "2", "--memory", "256MiB", "--item-max", "4MiB", *SERVERS[kind])
    try:
        if "sim" in SERVERS[kind]:
            wait_until(lambda: b"serves yes" in said_of(server, b"stats gpu\r\n"), "the device serves")
        given: list[list[bytes]] = [[] for _ in range(4)]
        got: list[list[bytes]] = [[] for _ in range(4)]
        forms = (BINARY, META, BINARY, META)
        at_once(*(partial(converse, server, *each) for each in zip(forms, range(4), given, got, strict=True)))
        left = []
        for key in range(KEYS):
            head, _, value = said_of(server, b"md k%d G\r\n" % key).partition(b"\r\n")
            left += [value[:-2]] if head.startswith(b"VA") else []
        assert b"STAT evictions 0\r\n" in said_of(server, b"stats\r\n"), "what is evicted nobody gets"
    finally:
        server.close()
    handed, written = sorted(itertools.chain(left, *got)), sorted(itertools.chain(*given))
    assert len(handed) == len(written) and handed == written


def said_of(server: Server, asked: bytes) -> bytes:
    with Stream(server.connect()) as stream:
        return stream.exchange(asked).data
