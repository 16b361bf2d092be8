"""Fixtures of both suites: where the servers are, and servers that are watched and stopped.

No test is skipped because a program is missing: it fails and says what to do. What needs rights that the user
has not, or a build of another kind, is left out; `make test` says which and why.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from harness.server import Server

ROOT = Path(__file__).resolve().parent.parent
REFERENCE_VERSION = "1.6.18"


@cache
def tandem_binary() -> Path:
    """The server under test: $TANDEM_BIN, or what `make build` leaves."""
    path = Path(os.environ.get("TANDEM_BIN", ROOT / "build/bin/tandem"))
    path = path if path.is_absolute() else Path.cwd() / path
    if not os.access(path, os.X_OK):
        pytest.fail(f"no server to test at {path}: run `make build` or set TANDEM_BIN", pytrace=False)
    return path


@cache
def memcached_binary() -> Path:
    """The reference: $MEMCACHED_BIN or the memcached on the path, of the version that the replies are compared with."""
    found = shutil.which(os.environ.get("MEMCACHED_BIN", "memcached"))
    if found is None:
        pytest.fail(
            f"memcached {REFERENCE_VERSION} is needed as the reference: install it or set MEMCACHED_BIN", pytrace=False
        )
    version = subprocess.run([found, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    if version != f"memcached {REFERENCE_VERSION}":
        pytest.fail(
            f"the reference is memcached {REFERENCE_VERSION}, but {found} is {version}: set MEMCACHED_BIN",
            pytrace=False,
        )
    return Path(found)


def start_tandem(*options: str, **keywords: object) -> Server:
    """With $TANDEM_OPTIONS before the test's own: a suite can be run again with another plan."""
    general = shlex.split(os.environ.get("TANDEM_OPTIONS", ""))
    return Server([str(tandem_binary()), "memcached", *general], *options, **keywords)


def start_memcached(*options: str, **keywords: object) -> Server:
    return Server([str(memcached_binary())], *options, **keywords)


@pytest.fixture
def tandem() -> Iterator[Callable[..., Server]]:
    """Starts servers under test; when the test ends each must still run, and stop cleanly."""
    with ExitStack() as stack:

        def start(*options: str, **keywords: object) -> Server:
            server = start_tandem(*options, **keywords)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def memcached() -> Iterator[Callable[..., Server]]:
    """Starts reference servers."""
    with ExitStack() as stack:

        def start(*options: str, **keywords: object) -> Server:
            server = start_memcached(*options, **keywords)
            stack.callback(server.discard)
            return server

        yield start


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server-is-memcached",
        action="store_true",
        help="the server under test is memcached itself: tests marked beyond_memcached must fail",
    )
    parser.addoption("--case", default="", help="run only the corpus cases whose name matches this regular expression")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # TANDEM_SHARE=1/3: those tests of three shares, which stay in theirs whatever other tests there are.
    if share := os.environ.get("TANDEM_SHARE"):
        number, shares = (int(part) for part in share.split("/"))
        others = [item for item in items if zlib.crc32(item.nodeid.encode()) % shares != number % shares]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    if not config.getoption("--server-is-memcached"):
        return
    for item in items:
        mark = item.get_closest_marker("beyond_memcached")
        if mark:
            item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))


@pytest.fixture(scope="session")
def case_filter(pytestconfig: pytest.Config) -> re.Pattern[str]:
    return re.compile(pytestconfig.getoption("--case"))


def pytest_report_header() -> str:
    return f"server under test: {os.environ.get('TANDEM_BIN', 'build/bin/tandem')}"
