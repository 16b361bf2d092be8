"""A reference and a server under test with the same options, on TCP, UDP and a Unix socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import start_memcached, start_tandem
from harness.server import Server
from harness.wire import Stream

from conformance.compare import Connect


@dataclass
class Pair:
    reference: Server
    candidate: Server

    def connects(self) -> tuple[Connect, Connect]:
        return lambda: Stream(self.reference.connect()), lambda: Stream(self.candidate.connect())

    def leave_small_cas_ids(self) -> None:
        """So that the small ones that the corpus guesses are no item's."""
        for server in (self.reference, self.candidate):
            with Stream(server.connect()) as stream:
                stream.exchange(b"set first 0 0 1 noreply\r\n1\r\n" * 200 + b"delete first\r\n")

    def forget_everything(self) -> None:
        """Runs after runs of the same cases start from the same state."""
        for server in (self.reference, self.candidate):
            with Stream(server.connect()) as stream:
                assert stream.exchange(b"flush_all\r\n").data == b"OK\r\n"


# memcached's background threads hold items for moments; a decr at such a moment leaves other padding. Names after -o
# that a server does not know are to be ignored.
NO_BACKGROUND = ("-o", "no_lru_crawler,no_lru_maintainer")


def start_pair(stack: ExitStack, *options: str, unix_folder: Path | None = None) -> Pair:
    paths = [unix_folder / name if unix_folder else None for name in ("reference", "candidate")]
    reference = start_memcached(*options, unix_path=paths[0])
    stack.callback(reference.discard)
    candidate = start_tandem(*options, unix_path=paths[1])
    stack.callback(candidate.close)
    pair = Pair(reference, candidate)
    pair.leave_small_cas_ids()
    return pair


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield start_pair(stack, "-t", "2", *NO_BACKGROUND)


@pytest.fixture
def pair(servers: Pair) -> Iterator[Pair]:
    servers.forget_everything()
    yield servers
    servers.reference.check_alive()
    servers.candidate.check_alive()


@pytest.fixture(scope="module")
def unix_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield start_pair(stack, "-t", "2", *NO_BACKGROUND, unix_folder=tmp_path_factory.mktemp("sockets"))


@pytest.fixture
def unix_pair(unix_servers: Pair) -> Iterator[Pair]:
    unix_servers.forget_everything()
    yield unix_servers
    unix_servers.reference.check_alive()
    unix_servers.candidate.check_alive()
