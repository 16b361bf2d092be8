"""Chains of exchanges and takes: clients at the same keys, by the meta and the binary protocol, over each kind of index
and beside devices. All that was handed to a client and what is left is all that was written, each once."""

from __future__ import annotations

import itertools
import random
import struct
import threading

import pytest
from cli.programs import wait_until
from harness.binary import EXCHANGE_OPCODES, BinaryStream, Packet, answers
from harness.server import Server
from harness.wire import Stream
from linearizability.harness import TandemServer

KEYS, ROUNDS, PIPELINED = 4, 60, 40
SERVERS = {
    "cuckoo": ("--gpu", "off", "--preset", "cpu"),
    "ordered": ("--gpu", "off", "--preset", "cpu", "--ordered"),
    "set_associative": ("--gpu", "off", "--preset", "memcachedgpu"),
    "hash_tree": ("--gpu", "off", "--preset", "heterokv"),
    "located": ("--gpu", "sim", "--preset", "mirrored"),
    "values": ("--gpu", "sim", "--preset", "mirrored", "--gpu-values", "16MiB"),
    "on_device": ("--gpu", "sim", "--preset", "mega-kv"),
}


def value_of(client: int, number: int) -> bytes:
    """Short ones, and some that are sent from where they lie, or fill pages."""
    size = 2_000_000 if number % 500 == 77 else 30_000 if number % 40 == 7 else number % 3 * 400
    return b"%d.%d." % (client, number) + b"-" * size


def meta(server: Server, client: int, given: list[bytes], got: list[bytes]) -> None:
    chance, number = random.Random(client), 0
    with Stream(server.connect()) as stream:
        for _ in range(ROUNDS):
            asked = b""
            for _ in range(PIPELINED):
                key = b"k%d" % chance.randrange(KEYS)
                if chance.random() < 0.3:
                    asked += b"md " + key + b" G q\r\nmg " + key + b"\r\n"
                    continue
                given.append(value_of(client, number))
                number += 1
                asked += b"ms %b %d G q\r\n%b\r\n" % (key, len(given[-1]), given[-1])
            said = stream.exchange(asked).data
            while said:
                line, _, said = said.partition(b"\r\n")
                if line.startswith(b"VA "):
                    size = int(line.split()[1])
                    got.append(said[:size])
                    said = said[size + 2 :]
                else:
                    assert line in (b"NF", b"HD", b"EN"), line


def binary(server: Server, client: int, given: list[bytes], got: list[bytes]) -> None:
    chance, number = random.Random(client), 0
    with BinaryStream(server.connect()) as stream:
        for _ in range(ROUNDS):
            asked = b""
            for _ in range(PIPELINED):
                key = b"k%d" % chance.randrange(KEYS)
                if chance.random() < 0.3:
                    asked += Packet(EXCHANGE_OPCODES["takeq"], key).pack()
                    continue
                given.append(value_of(client, number))
                number += 1
                asked += Packet(EXCHANGE_OPCODES["exchangeq"], key, struct.pack(">II", client, 0), given[-1]).pack()
            for answer in answers(stream.exchange(asked).data):
                assert answer.status == 0 and answer.extras and answer.cas, answer
                got.append(answer.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_each_value_is_handed_to_one_client(kind: str) -> None:
    server = TandemServer("--threads", "2", "--memory", "256MiB", "--item-max", "4MiB", *SERVERS[kind])
    try:
        if "sim" in SERVERS[kind]:
            wait_until(lambda: b"serves yes" in said_of(server, b"stats gpu\r\n"), "the device serves")
        given: list[list[bytes]] = [[] for _ in range(4)]
        got: list[list[bytes]] = [[] for _ in range(4)]
        failures: list[BaseException] = []

        def run(client: int) -> None:
            try:
                (meta if client % 2 else binary)(server, client, given[client], got[client])
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(client,)) for client in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]
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
