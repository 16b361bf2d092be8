"""Stores of the tests' own: small, closed after each test."""

from collections.abc import Iterator

import pytest
import tandem


@pytest.fixture
def store() -> Iterator[tandem.Store]:
    with tandem.Store(memory="64MiB") as opened:
        yield opened


@pytest.fixture
def ordered() -> Iterator[tandem.Store]:
    with tandem.Store(memory="64MiB", ordered=True) as opened:
        yield opened
