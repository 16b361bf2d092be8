"""A stock Python client does all that it can."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from harness.server import HOST, Server
from harness.threads import at_once
from pymemcache import HashClient, PooledClient
from pymemcache.client.base import Client
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError, MemcacheServerError


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with closing(Client((HOST, server.port), timeout=10, connect_timeout=10, no_delay=True)) as client:
        yield client


def test_set_get_delete(client: Client) -> None:
    assert client.set("key", b"value", noreply=False)
    assert client.get("key") == b"value"
    assert client.delete("key", noreply=False)
    assert client.get("key") is None
    assert client.get("key", b"default") == b"default"
    assert not client.delete("key", noreply=False)


def test_every_way_to_store(client: Client) -> None:
    assert not client.replace("key", b"1", noreply=False)
    assert client.add("key", b"2", noreply=False)
    assert not client.add("key", b"3", noreply=False)
    assert client.replace("key", b"4", noreply=False)
    assert client.append("key", b"5", noreply=False)
    assert client.prepend("key", b"6", noreply=False)
    assert client.get("key") == b"645"
    assert not client.append("absent", b"x", noreply=False)


def test_cas(client: Client) -> None:
    client.set("key", b"1", noreply=False)
    value, unique = client.gets("key")
    assert value == b"1"
    assert client.cas("key", b"2", unique, noreply=False) is True
    assert client.cas("key", b"3", unique, noreply=False) is False
    assert client.cas("absent", b"3", unique, noreply=False) is None
    assert client.get("key") == b"2"
    assert client.gets_many(["key", "absent"]).keys() == {"key"}


def test_arithmetic(client: Client) -> None:
    client.set("n", b"10", noreply=False)
    assert client.incr("n", 5, noreply=False) == 15
    assert client.decr("n", 20, noreply=False) == 0
    assert client.incr("absent", 1, noreply=False) is None
    client.set("word", b"abc", noreply=False)
    with pytest.raises(MemcacheClientError):
        client.incr("word", 1, noreply=False)


def test_many(client: Client) -> None:
    values = {f"many{n}": f"value {n}".encode() * 10 for n in range(1000)}
    assert client.set_many(values, noreply=False) == []
    assert client.get_many(values) == values
    assert client.get_many([*values, "absent"]) == values
    client.delete_many(values, noreply=False)
    assert client.get_many(values) == {}


def test_noreply(client: Client) -> None:
    for number in range(500):
        client.set(f"quiet{number}", b"%d" % number, noreply=True)
    client.incr("quiet7", 1, noreply=True)
    client.delete("quiet8", noreply=True)
    assert client.get("quiet499") == b"499"
    assert client.get("quiet7") == b"8"
    assert client.get("quiet8") is None


def test_touch_and_raw_commands(client: Client) -> None:
    client.set("key", b"v", expire=100, noreply=False)
    assert client.touch("key", 200, noreply=False)
    assert not client.touch("absent", 200, noreply=False)
    assert client.raw_command("gat 300 key", "END\r\n") == b"VALUE key 0 1\r\nv\r\n"
    assert client.raw_command("gat 300 absent", "END\r\n") == b""
    assert client.raw_command("mg key t", "\r\n") in (b"HD t300", b"HD t299")


def test_flags_and_serializers(server: Server) -> None:
    class Json:
        def serialize(self, key: str, value: object) -> tuple[bytes, int]:
            return json.dumps(value).encode(), 4242

        def deserialize(self, key: str, value: bytes, flags: int) -> object:
            assert flags == 4242
            return json.loads(value)

    with closing(Client((HOST, server.port), timeout=10, serde=Json())) as client:
        client.set("object", {"a": [1, 2, {"b": None}]}, noreply=False)
        assert client.get("object") == {"a": [1, 2, {"b": None}]}


def test_values_of_any_bytes(client: Client) -> None:
    for value in (b"", b"\r\n", b"END\r\n", bytes(range(256)) * 40, b"\0" * 100_000, b"x" * 1_000_000):
        assert client.set("binary", value, noreply=False)
        assert client.get("binary") == value


def test_errors(client: Client) -> None:
    with pytest.raises(MemcacheIllegalInputError):
        client.get("k" * 251)
    with pytest.raises(MemcacheServerError, match="too large"):
        client.set("large", b"x" * 2_000_000, noreply=False)
    assert client.get("large") is None


def test_server_commands(client: Client) -> None:
    assert client.version()
    assert client.stats()[b"curr_items"] >= 0
    assert client.stats("settings")[b"maxbytes"] == 64 << 20
    client.set("key", b"v", noreply=False)
    assert client.flush_all(noreply=False)
    assert client.get("key") is None
    assert client.raw_command(b"mn", b"MN\r\n") == b""


def test_unicode_keys(server: Server) -> None:
    with closing(Client((HOST, server.port), timeout=10, allow_unicode_keys=True)) as client:
        client.set("ключ-鍵-🔑", b"v", noreply=False)
        assert client.get("ключ-鍵-🔑") == b"v"


def test_other_kinds_of_client(server: Server) -> None:
    address = (HOST, server.port)
    for client in (
        PooledClient(address, max_pool_size=4, timeout=10),
        HashClient([address], use_pooling=True, timeout=10),
        RetryingClient(Client(address, timeout=10), attempts=2),
    ):
        assert client.set("kind", b"v", noreply=False)
        assert client.get("kind") == b"v"
        assert client.get_many(["kind"]) == {"kind": b"v"}
        client.close()


def test_pool_shared_by_threads(server: Server) -> None:
    pool = PooledClient((HOST, server.port), max_pool_size=8, timeout=10)
    pool.set("shared", b"0", noreply=False)

    def work(thread: int) -> None:
        for number in range(200):
            pool.incr("shared", 1, noreply=False)
            pool.set(f"own{thread}", b"%d" % number, noreply=False)
            assert pool.get(f"own{thread}") == b"%d" % number

    at_once(*(partial(work, n) for n in range(8)))
    assert pool.get("shared") == b"1600"
    pool.close()


def test_unix_socket(tandem: Callable[..., Server], tmp_path: Path) -> None:
    path = tmp_path / "socket"
    tandem(unix_path=path)
    with closing(Client(f"unix:{path}", timeout=10)) as client:
        client.set("key", b"v", noreply=False)
        assert client.get("key") == b"v"
