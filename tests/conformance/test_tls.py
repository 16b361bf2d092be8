"""The corpus over TLS: every conversation has memcached's replies, and the words and statistics of TLS are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import start_memcached, start_tandem
from harness.server import Server
from harness.tls import Identity, Tunnel, client_context, make_identity
from harness.wire import Stream

from conformance.compare import differing, report
from conformance.conftest import NO_BACKGROUND
from conformance.corpus import GROUP_NAMES, groups


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return make_identity(tmp_path_factory.mktemp("certificates"), "server")


@pytest.fixture(scope="module")
def tunnels(identity: Identity) -> Iterator[tuple[Tunnel, Tunnel]]:
    """To memcached and to the server under test."""
    with ExitStack() as stack:
        made = []
        for start, end in ((start_memcached, Server.discard), (start_tandem, Server.close)):
            server = start("-t", "2", "-U", "0", *NO_BACKGROUND, *identity.options())
            stack.callback(end, server)
            made.append(stack.enter_context(Tunnel(server, client_context(identity))))
        yield tuple(made)


@pytest.fixture(scope="module")
def plain_memcached() -> Iterator[Server]:
    server = start_memcached("-t", "2", "-U", "0", *NO_BACKGROUND)
    yield server
    server.discard()


@pytest.mark.parametrize("group", GROUP_NAMES)
def test_group(group: str, plain_memcached: Server, tunnels: tuple[Tunnel, Tunnel]) -> None:
    """A part of each group: what stands between client and parser is the same for all of it. The reference is
    memcached without TLS: with it, 1.6.18 leaves long values and lines unanswered now and then."""
    cases = list(groups()[group])
    cases = cases[:: max(1, len(cases) // 100)]
    reference, (_, candidate) = plain_memcached, tunnels
    failures = differing(cases, lambda: Stream(reference.connect()), lambda: Stream(candidate.connect()))
    assert not failures, report(failures, len(cases))


def ask(tunnel: Tunnel, request: bytes) -> bytes:
    with Stream(tunnel.connect()) as stream:
        return stream.exchange(request).data


def stats(tunnel: Tunnel, what: bytes) -> dict[bytes, bytes]:
    lines = ask(tunnel, b"stats" + what + b"\r\n").split(b"\r\n")
    return dict(line.split(b" ", 2)[1:] for line in lines if line.startswith(b"STAT "))


def test_settings_are_memcacheds(tunnels: tuple[Tunnel, Tunnel]) -> None:
    reference, ours = (
        {name: value for name, value in stats(tunnel, b" settings").items() if name.startswith(b"ssl_")}
        for tunnel in tunnels
    )
    assert len(reference) == 11
    assert ours == reference


def test_counters_have_memcacheds_names(tunnels: tuple[Tunnel, Tunnel]) -> None:
    reference, ours = (set(stats(tunnel, b"")) for tunnel in tunnels)
    names = {name for name in reference if b"ssl" in name or b"cert" in name}
    assert names == {b"ssl_handshake_errors", b"time_since_server_cert_refresh"}
    assert names <= ours


def test_refresh_certs_is_answered_alike(identity: Identity, tunnels: tuple[Tunnel, Tunnel]) -> None:
    requests = (b"refresh_certs\r\n", b"refresh_certs x\r\n", b"refresh_certs noreply\r\n")
    for request in requests:
        reference, ours = (ask(tunnel, request) for tunnel in tunnels)
        assert ours == reference
    hidden = Path(f"{identity.certificate}.hidden")
    identity.certificate.rename(hidden)
    try:
        for request in requests:
            reference, ours = (ask(tunnel, request) for tunnel in tunnels)
            assert ours == reference
            assert reference.startswith(b"Error loading the certificate chain: ")
    finally:
        hidden.rename(identity.certificate)


def test_without_tls(tandem, memcached) -> None:
    for request in (b"refresh_certs\r\n", b"refresh_certs noreply\r\n"):
        with Stream(memcached("-U", "0").connect()) as reference, Stream(tandem("-U", "0").connect()) as ours:
            assert ours.exchange(request) == reference.exchange(request)
