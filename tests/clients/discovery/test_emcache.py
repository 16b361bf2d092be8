"""emcache follows a list of nodes that changes. $DISCOVERY_SERVER has the control socket $CONTROL, $SERVER is the
second node."""

from __future__ import annotations

import asyncio
import os
import socket
import time

import emcache

DEADLINE_S = 60.0
FIRST, SECOND = os.environ["DISCOVERY_SERVER"], os.environ["SERVER"]


def publish(*addresses: str) -> None:
    """A list of these nodes, with a version above the present one."""
    nodes = " ".join("{0}|{0}|{1}".format(*address.split(":")) for address in addresses)
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(DEADLINE_S)
        control.connect(os.environ["CONTROL"])
        replies = control.makefile("rb")
        control.sendall(b"config get cluster\r\n")
        version = int(time.time())
        if replies.readline().startswith(b"CONFIG"):
            version = max(version, int(replies.readline()) + 1)
            while replies.readline() != b"END\r\n":
                pass
        value = f"{version}\n{nodes}\n".encode()
        control.sendall(b"config set cluster 0 %d\r\n%s\r\n" % (len(value), value))
        assert replies.readline() == b"STORED\r\n"


async def follow() -> None:
    host, port = FIRST.split(":")
    publish(FIRST)
    client = await emcache.create_client(
        [emcache.MemcachedHostAddress(host, int(port))], autodiscovery=True, autodiscovery_poll_interval=0.05
    )

    async def knows(*addresses: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = {
                f"{node.memcached_host_address.address}:{node.memcached_host_address.port}"
                for node in client._cluster.nodes
            }
            if found == set(addresses):
                return
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.01)

    try:
        await knows(FIRST)
        publish(FIRST, SECOND)
        await knows(FIRST, SECOND)
        for number in range(64):
            await client.set(b"emcache%d" % number, b"v")
            item = await client.get(b"emcache%d" % number)
            assert item is not None and item.value == b"v"
        publish(SECOND)
        await knows(SECOND)
    finally:
        publish(FIRST)
        await client.close()


def test_emcache_follows_the_list() -> None:
    asyncio.run(follow())
