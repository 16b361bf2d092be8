"""The fixtures, in sessions of pytest of their own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import os
import pytest

@pytest.mark.parametrize("i", range(6))
def test_a_client_is_cleared(tandem_client, tandem_server, i):
    assert tandem_client.get("key") is None
    assert tandem_client.set("key", str(i)) and tandem_client.get("key") == str(i).encode()
    with open("servers", "a") as file:
        print(os.getpid(), tandem_server.pid, file=file)

def test_the_url_is_of_a_server_without_items(tandem_url, tandem_client, tandem_server):
    assert tandem_url == tandem_server.url and tandem_url.startswith("tcp://127.0.0.1:")
    assert tandem_client.stats()[b"limit_maxbytes"] == 32 << 20

@pytest.mark.parametrize("i", range(2))
def test_a_store_is_new(tandem_store, i):
    assert len(tandem_store) == 0
    tandem_store["key"] = b"value"
"""


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\ntandem_memory = 32MiB\ntandem_options = --no-hot-keys\n")
    return pytester


def servers(session: pytest.Pytester) -> dict[str, set[str]]:
    """The servers of each process."""
    found: dict[str, set[str]] = {}
    for line in (session.path / "servers").read_text().splitlines():
        process, server = line.split()
        found.setdefault(process, set()).add(server)
    return found


def test_fixtures(session: pytest.Pytester) -> None:
    session.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=9)
    ((_, its),) = servers(session).items()
    assert len(its) == 1


def test_each_worker_of_xdist_has_a_server(session: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    session.runpytest_subprocess("-n", "2", "--dist", "each").assert_outcomes(passed=18)
    found = servers(session)
    assert len(found) == 2 and len(set.union(*found.values())) == 2


def test_nothing_starts_unasked(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, threading
        from pathlib import Path
        def test():
            assert threading.active_count() == 1
            assert Path(f"/proc/self/task/{os.getpid()}/children").read_text() == ""
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
