"""pylibmc, the Python binding of libmemcached, over the text and the binary protocol."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pylibmc
import pytest
from conftest import PASSWORD, USER, wait_until

PROTOCOLS = [pytest.param(False, id="text"), pytest.param(True, id="binary", marks=pytest.mark.binary)]


@pytest.fixture(params=PROTOCOLS)
def binary(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def client(address: str, binary: bool) -> Iterator[pylibmc.Client]:
    client = pylibmc.Client([address], binary=binary, behaviors={"tcp_nodelay": True, "cas": True})
    assert client.flush_all()
    yield client
    client.disconnect_all()


def test_values_of_every_kind(client: pylibmc.Client) -> None:
    for value in (b"bytes", "text", "Ω", 7, -3, 10**30, 1.5, None, {"a": [1, (2, 3)]}, b"", bytes(range(256))):
        assert client.set("key", value)
        assert client.get("key") == value
        assert type(client.get("key")) is type(value)
    assert client.get("absent") is None
    assert client.get("absent", "default") == "default"


def test_many(client: pylibmc.Client) -> None:
    values = {f"many{n}": f"value {n}" * 5 for n in range(1000)}
    assert client.set_multi(values) == []
    assert client.get_multi([*values, "absent"]) == values
    assert client.get_multi(["1", "2"], key_prefix="many") == {"1": values["many1"], "2": values["many2"]}
    assert client.delete_multi(list(values))
    assert client.get_multi(list(values)) == {}


def stores(call: Callable[..., bool], *arguments: str) -> bool:
    """Over the binary protocol pylibmc raises NotFound where over the text protocol it returns False."""
    try:
        return call(*arguments)
    except pylibmc.NotFound:
        return False


def test_add_replace_append_prepend(client: pylibmc.Client) -> None:
    assert not stores(client.replace, "key", "1")
    assert client.add("key", "2")
    assert not client.add("key", "3")
    assert client.replace("key", "4")
    assert client.append("key", "5")
    assert client.prepend("key", "6")
    assert client.get("key") == "645"
    assert not stores(client.append, "absent", "x")


def test_cas(client: pylibmc.Client) -> None:
    client.set("key", "1")
    value, unique = client.gets("key")
    assert value == "1"
    assert client.cas("key", "2", unique)
    assert not client.cas("key", "3", unique)
    assert client.get("key") == "2"
    with pytest.raises(pylibmc.NotFound):
        client.cas("absent", "3", unique)


def test_arithmetic(client: pylibmc.Client) -> None:
    client.set("n", 10)
    assert client.incr("n") == 11
    assert client.incr("n", 5) == 16
    assert client.decr("n", 3) == 13
    assert client.decr("n", 100) == 0
    for call in (client.incr, client.decr):
        with pytest.raises(pylibmc.NotFound):
            call("absent")
    client.set("a", 1)
    client.set("b", 2)
    client.incr_multi(["a", "b"], delta=10)
    assert client.get_multi(["a", "b"]) == {"a": 11, "b": 12}


def test_touch_and_expiry(client: pylibmc.Client) -> None:
    client.set("short", "v", time=1)
    client.set("kept", "v", time=1)
    assert client.touch("kept", 100)
    assert not client.touch("absent", 100)
    wait_until(lambda: client.get("short") is None, "expired")
    assert client.get("kept") == "v"


def test_delete_and_flush(client: pylibmc.Client) -> None:
    client.set("key", "v")
    assert client.delete("key")
    assert not client.delete("key")
    client.set("key", "v")
    assert client.flush_all()
    assert client.get("key") is None


def test_stats(client: pylibmc.Client) -> None:
    client.set("key", "v")
    ((server, general),) = client.get_stats()
    assert server.startswith(b"127.0.0.1")
    assert int(general["curr_items"]) >= 1
    assert int(general["cmd_set"]) >= 1


def test_large_values(client: pylibmc.Client) -> None:
    for size in (1 << 14, 1 << 17, 1_000_000):
        value = bytes(range(256)) * (size // 256)
        assert client.set("large", value)
        assert client.get("large") == value
    with pytest.raises(pylibmc.TooBig):
        client.set("large", b"x" * 2_000_000)
    client.set("after", "v")
    assert client.get("after") == "v"


def test_compression(client: pylibmc.Client) -> None:
    value = "again and " * 10_000
    assert client.set("long", value, min_compress_len=100)
    assert client.get("long") == value


@pytest.mark.parametrize("key", ["k" * 251, "with blank", "with\nline"])
def test_bad_keys(address: str, client: pylibmc.Client, binary: bool, key: str) -> None:
    if binary and len(key) < 251:
        assert client.set(key, "v")  # the binary protocol's keys are any bytes
        assert client.get(key) == "v"
        return
    with pytest.raises((pylibmc.Error, ValueError)):
        client.set(key, "v")
    after = pylibmc.Client([address], binary=binary)  # libmemcached gives up its connection for a while
    after.set("after", "v")
    assert after.get("after") == "v"
    after.disconnect_all()


@pytest.mark.parametrize("behavior", ["no_block", "tcp_keepalive", "ketama"])
def test_behaviors(address: str, binary: bool, behavior: str) -> None:
    client = pylibmc.Client([address], binary=binary, behaviors={behavior: True})
    for number in range(300):
        client.set(f"b{number}", str(number))
    assert client.get_multi([f"b{n}" for n in range(300)]) == {f"b{n}": str(n) for n in range(300)}
    client.disconnect_all()


def test_pool_shared_by_threads(client: pylibmc.Client) -> None:
    pool = pylibmc.ThreadMappedPool(client)
    client.set("shared", 0)
    errors = []

    def work(thread: int) -> None:
        try:
            with pool.reserve() as own:
                for number in range(200):
                    own.incr("shared")
                    own.set(f"own{thread}", number)
                    assert own.get(f"own{thread}") == number
            pool.relinquish()
        except Exception as error:  # any: it is shown by the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert client.get("shared") == 1600


def test_comes_back_after_the_server(own_server: tuple[str, Callable, Callable], binary: bool) -> None:
    address, start, kill = own_server
    client = pylibmc.Client([address], binary=binary, behaviors={"retry_timeout": 1})
    assert client.set("key", "v")
    kill()
    with pytest.raises(pylibmc.Error):
        client.set("key", "v")
    start()

    def works() -> bool:
        try:
            return client.set("key", "v") and client.get("key") == "v"
        except pylibmc.Error:
            client.disconnect_all()
            return False

    wait_until(works, "the client works again")
    client.disconnect_all()


@pytest.mark.binary
def test_sasl(sasl_address: str) -> None:
    client = pylibmc.Client([sasl_address], binary=True, username=USER, password=PASSWORD)
    assert client.set("key", "v")
    assert client.get("key") == "v"
    client.disconnect_all()


@pytest.mark.binary
@pytest.mark.parametrize(
    "credentials", [{}, {"username": USER, "password": "wrong"}, {"username": "x", "password": "y"}]
)
def test_sasl_refuses(sasl_address: str, credentials: dict[str, str]) -> None:
    client = pylibmc.Client([sasl_address], binary=True, **credentials)
    with pytest.raises(pylibmc.Error):
        client.set("key", "v")
