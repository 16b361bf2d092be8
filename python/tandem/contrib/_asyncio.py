"""A pipelined asyncio connection to a memcached server, for backends of frameworks that await.

All tasks of an event loop share one connection to a server: each sends its commands at once and waits for its replies
alone, which come in the order of the commands. The meta commands make every reply one of known length.
"""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

Address = str | tuple[str, int]


class Reply(NamedTuple):
    """A meta command's: `code` is HD, VA, EN, NF, NS, ...; `flags` are those that were asked for."""

    code: bytes
    flags: list[bytes]
    value: bytes | None


class Connection:
    """To one server, of one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._failed: Exception | None = None
        self._task = asyncio.get_running_loop().create_task(self._receive())

    @classmethod
    async def open(cls, address: Address, tls: ssl.SSLContext | None) -> Connection:
        if isinstance(address, str):
            return cls(*await asyncio.open_unix_connection(address))
        return cls(*await asyncio.open_connection(*address, ssl=tls))

    @property
    def usable(self) -> bool:
        return self._failed is None and not self._task.done()

    async def send(self, commands: Sequence[bytes]) -> list[Reply]:
        """The reply to each command, in order. An error that the server answers is raised."""
        if self._failed is not None:
            raise self._failed
        loop = asyncio.get_running_loop()
        replies: list[asyncio.Future[Reply]] = [loop.create_future() for _ in commands]
        self._waiting.extend(replies)
        self._writer.write(b"".join(commands))
        await self._writer.drain()
        # All of them even if one is an error, so that none is left without a reader.
        results = await asyncio.gather(*replies, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if isinstance(result, Reply)]

    async def _receive(self) -> None:
        failed: Exception = ConnectionError("the server closed the connection")
        try:
            while line := await self._reader.readline():
                reply = await self._reply(line)
                waiter = self._waiting.popleft()
                if waiter.done():  # its task was cancelled
                    continue
                if isinstance(reply, Exception):
                    waiter.set_exception(reply)
                else:
                    waiter.set_result(reply)
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            failed = ConnectionError(f"the connection failed: {error!r}")
        finally:
            self._failed = failed
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_exception(failed)
            self._waiting.clear()
            self._writer.close()

    async def _reply(self, line: bytes) -> Reply | Exception:
        words = line.split()
        code = words[0]
        if code in (b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR"):
            return ServerRefused(line.decode(errors="replace").strip())
        if code != b"VA":
            return Reply(code, words[1:], None)
        value = await self._reader.readexactly(int(words[1]) + 2)
        return Reply(code, words[2:], value[:-2])


class ServerRefused(Exception):
    """What the server has answered in place of a result."""


_Opening = dict[Address, "asyncio.Future[Connection]"]
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opening] = weakref.WeakKeyDictionary()


async def connection(address: Address, tls: ssl.SSLContext | None = None) -> Connection:
    """The running loop's connection to the server; a new one where the last has failed."""
    loop = asyncio.get_running_loop()
    known = _loops.setdefault(loop, {})
    opening = known.get(address)
    if opening is None or (opening.done() and not _serves(opening)):
        opening = known[address] = loop.create_task(Connection.open(address, tls))
    # A task that gives up must not end the opening that other tasks wait for.
    return await asyncio.shield(opening)


def _serves(opened: asyncio.Future[Any]) -> bool:
    return not opened.cancelled() and opened.exception() is None and opened.result().usable
