"""cachelib's own suites over tandem.contrib.cachelib. `run.py` puts this file beside them (cachelib's tests/)."""

import os

import pytest
import tandem
from clear import ClearTests
from common import CommonTests
from has import HasTests
from tandem.contrib.cachelib import TandemCache


@pytest.fixture(scope="module")
def store():
    with tandem.Store(memory="64MiB") as store:
        yield store


@pytest.fixture(
    autouse=True, params=[("store", None), ("store", "prefix:"), ("server", None), ("server", "prefix:")], ids=str
)
def cache_factory(request, store):
    where, key_prefix = request.param
    source = store if where == "store" else os.environ["TANDEM_URL"]

    made = []

    def factory(self, **options):
        cache = TandemCache(source, key_prefix=key_prefix, on_error="raise", **options)
        cache.clear()
        made.append(cache)
        return cache

    request.cls.cache_factory = factory
    yield
    for cache in made:
        cache.close()


class TestTandemCache(CommonTests, HasTests, ClearTests):
    pass
