"""Servers that keep their keys in order: with the option `ordered`, and with the preset heterokv. Range reads (mr) by
their documented rules (docs/protocol.md), beside a model, beside writers, and at the limit of memory; answers to all
else are memcached's. Histories over both are in tests/linearizability (plans `ordered` and `tree`).
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from conftest import ROOT, start_tandem
from harness.server import Server
from harness.shares import share_of_tree
from harness.wire import Stream, UdpClient
from integration.conftest import stats
from ordered.conftest import KINDS, LIMIT_MAX, REPLY_BYTES_MAX

# What differs by design: the tree's memory is in the index's, and leaves the items of a small store less.
DIFFERS = "not test_full_store and not test_the_hash_table_begins_as_large_as_it_is_told"


@pytest.fixture
def stream(server: Server) -> Iterator[Stream]:
    with Stream(server.connect()) as stream:
        yield stream


def put(stream: Stream, items: dict[bytes, bytes]) -> None:
    names = list(items)
    for first in range(0, len(names), 500):
        request = b"".join(
            b"ms %s %d b q\r\n%s\r\n" % (base64.b64encode(key), len(items[key]), items[key])
            for key in names[first : first + 500]
        )
        assert stream.exchange(request).data == b""


def parse(reply: bytes) -> tuple[list[tuple[bytes, bytes | None]], int, bytes | None]:
    """Items, the count, and the key to continue behind."""
    items: list[tuple[bytes, bytes | None]] = []
    while True:
        line, _, reply = reply.partition(b"\r\n")
        words = line.split(b" ")
        if words[0] == b"EN":
            assert reply == b""
            assert words[1][:1] == b"n"
            last = key_of(words) if b"m" in words else None
            return items, int(words[1][1:]), last
        value = None
        if words[0] == b"VA":
            size = int(words[1])
            value, reply = reply[:size], reply[size:]
            assert reply.startswith(b"\r\n")
            reply = reply[2:]
        else:
            assert words[0] == b"HD", line
        key = key_of(words)
        assert key is not None
        items.append((key, value))


def key_of(words: list[bytes]) -> bytes | None:
    found = [word[1:] for word in words[1:] if word[:1] == b"k"]
    if not found:
        return None
    return base64.b64decode(found[0]) if b"b" in words else found[0]


def read_all(stream: Stream, request: bytes, flags: bytes = b"") -> list[tuple[bytes, bytes | None]]:
    """All pages. Keys of the request are base64."""
    items: list[tuple[bytes, bytes | None]] = []
    after = b""
    for _ in range(100_000):
        got, count, last = parse(stream.exchange(b"mr %s b%s%s\r\n" % (request, flags, after)).data)
        assert count == len(got)
        items += got
        if last is None:
            return items
        after = b" A" + base64.b64encode(last)
    raise AssertionError("no end")


def b64(key: bytes) -> bytes:
    return base64.b64encode(key)


def test_each_flag(stream: Stream) -> None:
    stream.exchange(b"set b 0 0 1\r\n2\r\nset a 5 0 3\r\none\r\nset c 7 100 0\r\n\r\n")
    cas = {key: stream.exchange(b"mg %s c\r\n" % key).data.split(b" c")[1].strip() for key in (b"a", b"b", b"c")}
    for flags, reply in {
        b"": b"HD ka\r\nHD kb\r\nHD kc\r\nEN n3\r\n",
        b"v": b"VA 3 ka\r\none\r\nVA 1 kb\r\n2\r\nVA 0 kc\r\n\r\nEN n3\r\n",
        b"f s": b"HD ka f5 s3\r\nHD kb f0 s1\r\nHD kc f7 s0\r\nEN n3\r\n",
        b"s f": b"HD ka s3 f5\r\nHD kb s1 f0\r\nHD kc s0 f7\r\nEN n3\r\n",
        b"t": b"HD ka t-1\r\nHD kb t-1\r\nHD kc t100\r\nEN n3\r\n",
        b"c": b"HD ka c%s\r\nHD kb c%s\r\nHD kc c%s\r\nEN n3\r\n" % (cas[b"a"], cas[b"b"], cas[b"c"]),
        b"r": b"HD kc\r\nHD kb\r\nHD ka\r\nEN n3\r\n",
        b"Ec": b"HD ka\r\nHD kb\r\nEN n2\r\n",
        b"Ec r": b"HD kb\r\nHD ka\r\nEN n2\r\n",
        b"Aa": b"HD kb\r\nHD kc\r\nEN n2\r\n",
        b"Ab r": b"HD ka\r\nEN n1\r\n",
        b"L2": b"HD ka\r\nHD kb\r\nEN n2 m kb\r\n",
        b"L2 Ab": b"HD kc\r\nEN n1\r\n",
        b"L1 r": b"HD kc\r\nEN n1 m kc\r\n",
        b"n": b"EN n3\r\n",
        b"n L2 Ox": b"EN n2 m kb Ox\r\n",
        b"O123": b"HD ka\r\nHD kb\r\nHD kc\r\nEN n3 O123\r\n",
        b"P": b"HD ka\r\nEN n1\r\n",
    }.items():
        assert stream.exchange(b"mr a %s\r\n" % flags).data == reply, flags
    assert stream.exchange(b"mr zzz\r\nmr zzz a L1\r\nmr b\r\n").data == (
        b"EN n0\r\nHD ka\r\nEN n1 m ka\r\nHD kb\r\nHD kc\r\nEN n2\r\n"
    )
    assert stream.exchange(b"mr YQ== b EYg==\r\n").data == b"HD kYQ== b\r\nEN n1\r\n"
    packed = (
        struct.pack("<HIIQ", 1, 3, 5, int(cas[b"a"])) + b"aone" + struct.pack("<HIIQ", 1, 1, 0, int(cas[b"b"])) + b"b2"
    )
    assert stream.exchange(b"mr a p v Ec\r\n").data == b"VA %d p\r\n%s\r\nEN n2\r\n" % (len(packed), packed)
    bare = struct.pack("<HIIQ", 1, 0, 5, int(cas[b"a"])) + b"a"
    assert stream.exchange(b"mr a p L1\r\n").data == b"VA %d p\r\n%s\r\nEN n1 m ka\r\n" % (len(bare), bare)
    assert stream.exchange(b"mr zzz p\r\n").data == b"EN n0\r\n"


def test_flags_that_would_have_no_effect_are_refused(stream: Stream) -> None:
    """The number alone shows nothing of an item, a packed one has its own fields, and `a` has no prefix."""
    put(stream, {b"a": b"1"})
    for flags in (b"n v", b"n f", b"s n", b"n t c", b"p n", b"p f", b"t p v", b"p s", b"c p", b"a P", b"P a n"):
        assert stream.exchange(b"mr a %s\r\n" % flags).data == b"CLIENT_ERROR invalid flag\r\n", flags


def test_what_is_refused(stream: Stream) -> None:
    stream.exchange(b"set a 0 0 1\r\n1\r\n")
    bad_format = b"CLIENT_ERROR bad command line format\r\n"
    limit = b"CLIENT_ERROR the limit of a range is a number from 1\r\n"
    for line, reply in {
        b"mr": b"ERROR\r\n",
        b"mr " + b"k" * 251: bad_format,
        b"mr a E" + b"k" * 251: bad_format,
        b"mr a A": bad_format,
        b"mr a E": bad_format,
        b"mr a L": limit,
        b"mr a L0": limit,
        b"mr a L-1": limit,
        b"mr a L1x": limit,
        b"mr a L18446744073709551616": limit,
        b"mr a z": b"CLIENT_ERROR invalid flag\r\n",
        b"mr a vv": b"CLIENT_ERROR invalid flag\r\n",
        b"mr a 1": b"CLIENT_ERROR invalid flag\r\n",
        b"mr a v v": b"CLIENT_ERROR duplicate flag\r\n",
        b"mr YQ== b b": b"CLIENT_ERROR duplicate flag\r\n",
        b"mr YQ== bx": b"CLIENT_ERROR invalid flag\r\n",
        b"mr !! b": b"CLIENT_ERROR error decoding key\r\n",
        b"mr YQ== b E!": b"CLIENT_ERROR error decoding key\r\n",
        b"mr a O" + b"o" * 32: b"CLIENT_ERROR opaque token too long\r\n",
        b"mr a" + b" x" * 18: b"CLIENT_ERROR options flags are too long\r\n",
        b"mr b Ea": b"EN n0\r\n",
        b"mr a Ea": b"EN n0\r\n",
        b"mr a r Ea": b"EN n0\r\n",
        b"mr a Aa": b"EN n0\r\n",
        b"mr b A0": b"EN n0\r\n",
        b"mr a L18446744073709551615": b"HD ka\r\nEN n1\r\n",
        b"mr /w== b P": b"EN n0\r\n",
        b"mr a P a": b"CLIENT_ERROR invalid flag\r\n",
    }.items():
        assert stream.exchange(line + b"\r\n").data == reply, line


def remove_all(stream: Stream, line: bytes) -> tuple[int, int]:
    """Repeats mx until the range has no more. Returns keys removed, and requests."""
    removed, requests, after = 0, 0, b""
    while True:
        reply = stream.exchange(line + after + b"\r\n").data
        items, count, last = parse(reply)
        assert not items, reply
        removed, requests = removed + count, requests + 1
        if last is None:
            return removed, requests
        after = b" A" + (b64(last) if b" b" in line else last)


def test_mx_removes_what_mr_finds(server: Server, stream: Stream) -> None:
    keys = {b"user:%04d" % n: b"v" for n in range(3000)} | {b"a": b"1", b"z": b"1"}
    assert stream.exchange(b"".join(b"ms %s 1 q\r\n%s\r\n" % item for item in keys.items())).data == b""
    before = stats(server, b"tandem")
    assert stream.exchange(b"mx user: P L2\r\n").data == b"EN n2 m kuser:0001\r\n"
    assert stream.exchange(b"mx user: P r L2 Oq1\r\n").data == b"EN n2 m kuser:2998 Oq1\r\n"
    assert stream.exchange(b"mx user:0002 Euser:0004\r\nmr user: P L1\r\n").data == (
        b"EN n2\r\nHD kuser:0004\r\nEN n1 m kuser:0004\r\n"
    )
    assert stream.exchange(b"get user:0000 user:0003 user:0004 user:2999\r\n").data == (
        b"VALUE user:0004 0 1\r\nv\r\nEND\r\n"
    )
    removed, requests = remove_all(stream, b"mx user: P")
    assert removed == 3000 - 6 and requests == 3
    assert stream.exchange(b"mr a a\r\n").data == b"HD ka\r\nHD kz\r\nEN n2\r\n"
    assert stream.exchange(b"mx k a\r\nmx k a\r\nmr k a\r\n").data == b"EN n2\r\nEN n0\r\nEN n0\r\n"
    after = stats(server, b"tandem")
    assert int(after["range_removed"]) - int(before["range_removed"]) == 3002
    assert int(after["range_removes"]) - int(before["range_removes"]) == 8
    assert int(after["range_items"]) - int(before["range_items"]) == 3


def test_mx_is_a_map_with_random_keys(stream: Stream) -> None:
    rng = random.Random(11)
    model: dict[bytes, bytes] = {}
    for _round in range(30):
        fresh = {random_key(rng): b"v" for _ in range(rng.randrange(5, 300))}
        put(stream, fresh)
        model |= fresh
        low, high = sorted((random_key(rng), random_key(rng)))
        line = b"mx %s b E%s L%d" % (b64(low), b64(high), rng.choice((1, 3, 50, 5000)))
        gone = {key for key in model if low <= key < high}
        assert remove_all(stream, line)[0] == len(gone), line
        for key in gone:
            del model[key]
        items, _, last = parse(stream.exchange(b"mr %s b a L1024\r\n" % b64(b"a")).data)
        assert [key for key, _ in items] == sorted(model)[: len(items)] and (
            last is not None or len(items) == len(model)
        )


def test_mx_refuses_what_it_cannot_do(stream: Stream) -> None:
    put(stream, {b"a": b"1"})
    for line, reply in {
        b"mx": b"ERROR\r\n",
        b"mx a v": b"CLIENT_ERROR invalid flag\r\n",
        b"mx a n": b"CLIENT_ERROR invalid flag\r\n",
        b"mx a p": b"CLIENT_ERROR invalid flag\r\n",
        b"mx a P a": b"CLIENT_ERROR invalid flag\r\n",
        b"mx a L0": b"CLIENT_ERROR the limit of a range is a number from 1\r\n",
        b"mx a E": b"CLIENT_ERROR bad command line format\r\n",
        b"mx " + b"k" * 251: b"CLIENT_ERROR bad command line format\r\n",
        b"mx b": b"EN n0\r\n",
        b"mx a Ea": b"EN n0\r\n",
    }.items():
        assert stream.exchange(line + b"\r\nget a\r\n").data == reply + b"VALUE a 0 1\r\n1\r\nEND\r\n", line


def test_mx_beside_writers(server: Server) -> None:
    """What is set again and again may stay; what is not set is gone."""
    stop = threading.Event()

    def write() -> None:
        with Stream(server.connect()) as own:
            while not stop.is_set():
                request = b"".join(b"ms busy:%03d 1 q\r\nx\r\n" % n for n in range(100))
                assert own.exchange(request + b"mn\r\n").data == b"MN\r\n"

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with Stream(server.connect()) as own:
            for _round in range(30):
                put(own, {b"calm:%03d" % n: b"1" for n in range(400)})
                removed, _ = remove_all(own, b"mx k a")
                assert removed >= 400
                assert own.exchange(b"mr calm: P\r\n").data == b"EN n0\r\n"
    finally:
        stop.set()
        writer.join()
    with Stream(server.connect()) as own:
        remove_all(own, b"mx k a")
        assert own.exchange(b"mr k a\r\n").data == b"EN n0\r\n"


def test_without_an_order_it_says_so() -> None:
    server = start_tandem("-o", "preset=0")
    try:
        with Stream(server.connect()) as stream:
            reply = stream.exchange(b"set a 0 0 1\r\n1\r\nmr a\r\nget a\r\n").data
    finally:
        server.close()
    assert reply == (
        b"STORED\r\nCLIENT_ERROR ranges need an ordered index (option ordered)\r\nVALUE a 0 1\r\n1\r\nEND\r\n"
    )


def test_requests_of_one_send_are_answered_in_order(stream: Stream) -> None:
    once = b"set a 0 0 1\r\n1\r\nmr a v\r\ndelete a\r\nmr a\r\nget a\r\n"
    wanted = b"STORED\r\nVA 1 ka\r\n1\r\nEN n1\r\nDELETED\r\nEN n0\r\nEND\r\n"
    assert stream.exchange(once * 200, 30).data == wanted * 200


def random_key(rng: random.Random) -> bytes:
    length = rng.randrange(1, 187) if rng.random() < 0.1 else rng.randrange(1, 4)
    return bytes(rng.choice((0, 255, 32, 97, rng.randrange(256))) for _ in range(length))


def test_it_is_a_sorted_map(stream: Stream) -> None:
    """Random binary keys beside a dict, with deletes and rewritten values in between."""
    rng = random.Random(7)
    model: dict[bytes, bytes] = {}
    for _round in range(12):
        fresh = {random_key(rng): b"%d" % rng.randrange(10**6) for _ in range(rng.randrange(20, 900))}
        put(stream, fresh)
        model |= fresh
        gone = rng.sample(sorted(model), len(model) // rng.choice((2, 3, 20)))
        stream.exchange(b"".join(b"md %s b q\r\n" % b64(key) for key in gone))
        for key in gone:
            del model[key]
        for _ in range(15):
            low, high = random_key(rng), random_key(rng)
            reverse, limit = rng.random() < 0.5, rng.choice((1, 7, 100, 5000))
            flags = b" v L%d" % limit + (b" r" if reverse else b"")
            ends = rng.random() < 0.7
            wanted = sorted(key for key in model if key >= low and (not ends or key < high))
            got = read_all(stream, b64(low), flags + (b" E" + b64(high) if ends else b""))
            assert got == [(key, model[key]) for key in (reversed(wanted) if reverse else wanted)]
            prefix = low[: rng.randrange(1, 3)]
            wanted = sorted(key for key in model if key.startswith(prefix))
            got = read_all(stream, b64(prefix), flags + b" P")
            assert got == [(key, model[key]) for key in (reversed(wanted) if reverse else wanted)]
    assert [key for key, _ in read_all(stream, b"AA==", b" a")] == sorted(model)


def test_keys_that_a_line_cannot_have_come_in_base64(stream: Stream) -> None:
    put(stream, {b"with space": b"1", b"\x00": b"2", b"plain": b"3"})
    stream.exchange(b"set plain 0 0 1\r\n4\r\n")
    assert stream.exchange(b"mr x a\r\n").data == (
        b"HD k%s b\r\nHD kplain\r\nHD k%s b\r\nEN n3\r\n" % (b64(b"\x00"), b64(b"with space"))
    )
    assert stream.exchange(b"mr x a L1\r\n").data.endswith(b"EN n1 m kAA== b\r\n")


def test_replies_are_bounded(stream: Stream) -> None:
    small = {b"s%06d" % n: b"" for n in range(3000)}
    put(stream, small)
    # From the first of them: random keys of earlier tests, flushed since, may lie between it and b"s".
    items, count, last = parse(stream.exchange(b"mr s000000 L100000\r\n").data)
    assert (count, last) == (LIMIT_MAX, b"s%06d" % (LIMIT_MAX - 1)) and len(items) == LIMIT_MAX
    large = {b"t%03d" % n: b"x" * 20_000 for n in range(40)}
    put(stream, large)
    reply = stream.exchange(b"mr t v L1000\r\n").data
    items, count, last = parse(reply)
    assert len(reply) <= REPLY_BYTES_MAX + 100 and count == len(items) == 13 and last == items[-1][0]
    assert read_all(stream, b64(b"t"), b" v L1000") == sorted(large.items())
    assert read_all(stream, b64(b"t"), b" v r L1000") == sorted(large.items(), reverse=True)
    # One that is larger than a reply comes alone.
    put(stream, {b"u1": b"y" * 700_000, b"u2": b"z" * 700_000})
    assert [len(v or b"") for _, v in read_all(stream, b64(b"u"), b" v")] == [700_000] * 2


def test_expired_and_flushed_items_are_left_out(stream: Stream) -> None:
    put(stream, {b"e%04d" % n: b"1" for n in range(1500)})
    stream.exchange(b"".join(b"touch e%04d -1\r\n" % n for n in range(1, 1499)))
    keys = [key for key, _ in read_all(stream, b64(b"e"), b" L1024")]
    assert keys == [b"e0000", b"e1499"]
    stream.exchange(b"flush_all\r\n")
    assert read_all(stream, b64(b"e"), b" L1024") == []
    stream.exchange(b"set e0001 0 0 1\r\n1\r\n")
    assert read_all(stream, b64(b"e"), b" L1024") == [(b"e0001", None)]


def test_the_key_to_continue_behind_may_be_gone(stream: Stream) -> None:
    put(stream, {b"c%03d" % n: b"" for n in range(50)})
    _, _, last = parse(stream.exchange(b"mr c L10\r\n").data)
    stream.exchange(b"delete %s\r\n" % (last or b""))
    items, count, _ = parse(stream.exchange(b"mr c L10 A%s\r\n" % (last or b"")).data)
    assert count == 10 and items[0][0] == b"c010"


@pytest.mark.parametrize("kind", KINDS)
def test_over_udp(kind: str, tandem: Callable[..., Server]) -> None:
    server = tandem("-t", "1", *KINDS[kind])
    with Stream(server.connect()) as stream:
        put(stream, {b"d%03d" % n: b"v" * 50 for n in range(300)})
        wanted = stream.exchange(b"mr d v L1000\r\n").data
    with contextlib.closing(UdpClient(server.address())) as client:
        datagrams = client.exchange(b"mr d v L1000\r\n")
    assert len(datagrams) > 10 and b"".join(datagram.payload for datagram in datagrams) == wanted


def test_a_reply_is_one_moments(server: Server, stream: Stream) -> None:
    """Tokens move from one key to another, far away: set there, then delete here. A reply with neither, or one that has
    half of a pair written by one request after the other in a fixed order, was no snapshot."""
    put(stream, {b"m%c%04d" % (letter, n): b"fill" for letter in b"abcd" for n in range(150)})
    tokens = [(b"ma_token%d" % n, b"md_token%d" % n) for n in range(3)]
    put(stream, {here: b"1" for here, _ in tokens} | {b"mz_ahead": b"0", b"ma_behind": b"0"})
    over = threading.Event()

    def move(here: bytes, there: bytes) -> None:
        with Stream(server.connect()) as mover:
            while not over.is_set():
                batch = b"set %s 0 0 1\r\n1\r\ndelete %s\r\nset %s 0 0 1\r\n1\r\ndelete %s\r\n"
                mover.exchange(batch % (there, here, here, there) * 20)

    def count() -> None:
        n = 0
        with Stream(server.connect()) as counter:
            while not over.is_set():
                batch = b"".join(
                    b"set mz_ahead 0 0 7\r\n%07d\r\nset ma_behind 0 0 7\r\n%07d\r\n" % (i, i) for i in range(n, n + 20)
                )
                n += 20
                counter.exchange(batch)

    threads = [threading.Thread(target=move, args=pair) for pair in tokens] + [threading.Thread(target=count)]
    for thread in threads:
        thread.start()
    whole = 0
    try:
        for turn in range(1500):
            items, _, last = parse(stream.exchange(b"mr m P L1024 v%s\r\n" % (b" r" if turn % 2 else b"")).data)
            if last is not None:  # between so many writers some replies are shorter
                continue
            whole += 1
            seen = dict(items)
            assert all(here in seen or there in seen for here, there in tokens), sorted(seen)
            ahead, behind = int(seen[b"mz_ahead"] or 0), int(seen[b"ma_behind"] or 0)
            assert ahead in (behind, behind + 1), (ahead, behind)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert whole > 0


def test_a_changed_expiry_belongs_to_one_moment(server: Server, stream: Stream) -> None:
    """An item that a touch ended is not in a reply beside one that was set after that."""
    over = threading.Event()
    rng = random.Random(1)

    def write() -> None:
        with Stream(server.connect()) as writer:
            for n in range(1, 10**9):
                if over.is_set():
                    return
                writer.exchange(b"set xa 0 0 9\r\n%09d\r\n" % n)
                time.sleep(rng.random() * 0.001)  # out of step with the reader
                writer.exchange(b"touch xa -1\r\nset xz 0 0 9\r\n%09d\r\n" % n)

    put(stream, {b"xm%04d" % n: b"fill" for n in range(300)})
    writer = threading.Thread(target=write)
    writer.start()
    both = 0
    try:
        for _ in range(1500):
            seen = dict(parse(stream.exchange(b"mr x P v L1024\r\n").data)[0])
            if b"xa" not in seen or b"xz" not in seen:
                continue
            both += 1
            assert int(seen[b"xa"] or 0) > int(seen[b"xz"] or 0), seen
    finally:
        over.set()
        writer.join()
    assert both > 0


def test_long_keys_can_be_continued_behind(stream: Stream) -> None:
    keys = [b"\x01" + bytes([n]) * 249 for n in range(1, 6)]
    for key in keys:  # the binary protocol takes them
        stream.exchange(b"set %s 0 0 0\r\n\r\n" % key.replace(b"\x01", b"A"))
    names = sorted(key.replace(b"\x01", b"A") for key in keys)
    assert [key for key, _ in read_all(stream, b"AA==", b" a L1")] == names
    assert stream.exchange(b"mr %s b\r\n" % b64(names[-1])).data == b"HD k%s b\r\nEN n1\r\n" % b64(names[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_scans_starve_no_one(kind: str, tandem: Callable[..., Server]) -> None:
    """One worker; a client that has sent thousands of scans at once gets its answers in turns with another."""
    server = tandem("-t", "1", *KINDS[kind])
    with Stream(server.connect()) as stream, Stream(server.connect()) as other:
        put(stream, {b"s%05d" % n: b"v" * 200 for n in range(2000)})
        scans = 3000
        stream.begin(b"mr s v L1024\r\n" * scans)
        for _ in range(20):
            assert other.exchange(b"get none\r\n").data == b"END\r\n"
        told = stats(server, b"tandem")
        assert int(told["range_reads"]) < scans, "the others were answered after all of the scans"
        stream.end(120)
        assert int(stats(server, b"tandem")["range_reads"]) == scans


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_has_what_the_store_has_when_memory_is_full(kind: str, tandem: Callable[..., Server]) -> None:
    """Evictions, rewritten values, deletes, and page moves between sizes, from several clients; then both agree."""
    server = tandem("-t", "2", "-m", "16", *KINDS[kind])

    def write(seed: int) -> None:
        rng = random.Random(seed)
        with Stream(server.connect()) as client:
            for _ in range(60):
                lines = []
                for _ in range(200):
                    key = b"k%06d" % rng.randrange(60_000)
                    size = rng.choice((10, 300, 3000))
                    lines.append(b"set %s 0 0 %d noreply\r\n%s\r\n" % (key, size, b"x" * size))
                    if rng.random() < 0.1:
                        lines.append(b"delete k%06d noreply\r\n" % rng.randrange(60_000))
                client.exchange(b"".join(lines), 60)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for writer in writers:
        writer.start()
    with Stream(server.connect()) as stream:
        while any(writer.is_alive() for writer in writers):
            keys = [key for key, _ in read_all(stream, b64(b"k"), b" L1024")]
            assert keys == sorted(set(keys))
        for writer in writers:
            writer.join()
        told = stats(server)
        assert int(told["evictions"]) > 0
        keys = [key for key, _ in read_all(stream, b64(b"k"), b" L1024")]
        assert keys == sorted(set(keys))
        found = sum(stream.exchange(b"mg %s\r\n" % key).data == b"HD\r\n" for key in keys)
        assert len(keys) == found == int(stats(server)["curr_items"])
        assert int(told["limit_maxbytes"]) == 16 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_come_and_go_leave_no_memory_behind(kind: str, tandem: Callable[..., Server]) -> None:
    """Names by the time, as of sessions: each is deleted in the end. The tree merges what is left."""
    server = tandem("-t", "1", "-m", "64", *KINDS[kind])
    with Stream(server.connect()) as stream:
        sizes = []
        for epoch in range(12):
            names = [b"t%08d" % (epoch * 20_000 + n) for n in range(20_000)]
            for first in range(0, len(names), 1000):
                stream.exchange(b"".join(b"set %s 0 0 1 noreply\r\n1\r\n" % k for k in names[first : first + 1000]))
            for first in range(0, len(names), 1000):
                stream.exchange(b"".join(b"delete %s noreply\r\n" % k for k in names[first : first + 1000]))
            sizes.append(int(stats(server)["hash_bytes"]))
        assert stream.exchange(b"mr t a n\r\n").data == b"EN n0\r\n"
    assert sizes[-1] < 2 * sizes[1], sizes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_order_is_there_after_a_restart(
    kind: str, how: str, tandem: Callable[..., Server], tmp_path: object
) -> None:
    file = f"{tmp_path}/items"
    options = ("-t", "2", "-m", "64", "-e", file, *KINDS[kind])
    server = tandem(*options)
    rng = random.Random(3)
    items = {b"r%05d" % rng.randrange(10**5): b"%d" % n for n in range(5000)}
    with Stream(server.connect()) as stream:
        put(stream, items)
    if how == "stop":
        assert server.stop() == 0
    else:
        server.kill()
    server = tandem(*options)
    with Stream(server.connect()) as stream:
        got = read_all(stream, b64(b"r"), b" v L1024")
    assert got == sorted(items.items())


@pytest.mark.parametrize("kind", KINDS)
def test_other_replies_are_memcacheds(kind: str) -> None:
    """A share of the corpus, as the tree decides; histories and the soak are elsewhere."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance", "-k", DIFFERS],
        cwd=ROOT,
        env={**os.environ, "TANDEM_OPTIONS": " ".join(KINDS[kind]), "TANDEM_SHARE": share_of_tree(8)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5000:]
