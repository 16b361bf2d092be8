"""python-binary-memcached: the binary protocol written in Python, with SASL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import bmemcached
import pytest
from bmemcached.exceptions import AuthenticationNotSupported, InvalidCredentials, MemcachedException
from conftest import PASSWORD, USER, wait_until

# It leaves the sockets of failed connections to the garbage collector.
pytestmark = [
    pytest.mark.binary,
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(params=["open", "sasl"])
def client(request: pytest.FixtureRequest, address: str, sasl_address: str) -> Iterator[bmemcached.Client]:
    is_sasl = request.param == "sasl"
    client = bmemcached.Client(sasl_address, USER, PASSWORD) if is_sasl else bmemcached.Client(address)
    assert client.flush_all()
    yield client
    client.disconnect_all()


def test_set_get_delete(client: bmemcached.Client) -> None:
    for value in ("text", b"bytes", 7, {"a": [1, None]}, b"", bytes(range(256)) * 100):
        assert client.set("key", value)
        assert client.get("key") == value
    assert client.delete("key")
    assert client.get("key") is None
    assert client.get("absent", "default") == "default"


def test_add_replace_cas(client: bmemcached.Client) -> None:
    assert not client.replace("key", "1")
    assert client.add("key", "2")
    assert not client.add("key", "3")
    assert client.replace("key", "4")
    value, unique = client.gets("key")
    assert value == "4" and unique
    assert client.cas("key", "5", unique)
    assert not client.cas("key", "6", unique)
    assert client.get("key") == "5"
    assert client.gets("absent") == (None, None)


def test_many(client: bmemcached.Client) -> None:
    values = {f"many{n}": f"value {n}" for n in range(500)}
    assert client.set_multi(values) == []
    assert client.get_multi([*values, "absent"]) == values
    with_cas = client.get_multi(["many1"], get_cas=True)
    assert with_cas["many1"][0] == "value 1" and with_cas["many1"][1]
    assert client.delete_multi(list(values))
    assert client.get_multi(list(values)) == {}


def test_arithmetic(client: bmemcached.Client) -> None:
    assert client.incr("n", 5, default=10) == 10  # made with the default
    assert client.incr("n", 5) == 15
    assert client.decr("n", 20) == 0
    client.set("word", "abc")
    with pytest.raises(MemcachedException):
        client.incr("word", 1)


def test_expiry(client: bmemcached.Client) -> None:
    assert client.set("short", "v", time=1)
    assert client.set("kept", "v", time=100)
    wait_until(lambda: client.get("short") is None, "expired")
    assert client.get("kept") == "v"


def test_large_values(client: bmemcached.Client) -> None:
    value = bytes(range(256)) * 3900
    assert client.set("large", value)
    assert client.get("large") == value
    with pytest.raises(MemcachedException):
        client.set("large", b"x" * 2_000_000, compress_level=0)
    assert client.set("after", "v")
    assert client.get("after") == "v"


def test_bad_key(client: bmemcached.Client) -> None:
    with pytest.raises(MemcachedException):
        client.get("k" * 251)
    wait_until(lambda: client.set("after", "v"), "connected again")


def test_stats(client: bmemcached.Client) -> None:
    client.set("key", "v")
    (general,) = client.stats().values()
    assert int(general["curr_items"]) >= 1
    (settings,) = client.stats("settings").values()
    assert int(settings["maxbytes"]) == 64 << 20


def test_comes_back_after_the_server(own_server: tuple[str, Callable, Callable]) -> None:
    address, start, kill = own_server
    client = bmemcached.Client(address)
    assert client.set("key", "v")
    kill()
    assert not client.set("key", "v")
    start()
    wait_until(lambda: client.set("key", "v") and client.get("key") == "v", "the client works again")


def test_wrong_password(sasl_address: str) -> None:
    with pytest.raises((InvalidCredentials, MemcachedException)):
        bmemcached.Client(sasl_address, USER, "wrong").set("key", "v")


def test_nothing_without_a_password(sasl_address: str) -> None:
    client = bmemcached.Client(sasl_address)
    with pytest.raises((AuthenticationNotSupported, MemcachedException)):
        client.get("key")
