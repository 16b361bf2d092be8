"""Every case of the corpus, one step at a time, over TCP: the replies must be memcached's, byte for byte."""

import re
from contextlib import ExitStack

import pytest

from conformance.compare import differing, report
from conformance.conftest import NO_BACKGROUND, Pair, start_pair
from conformance.corpus import GROUP_NAMES, all_cases, groups
from conformance.corpus.simple import build_large_counters


@pytest.mark.parametrize("group", GROUP_NAMES)
def test_group(group: str, pair: Pair, case_filter: re.Pattern[str]) -> None:
    cases = [case for case in groups()[group] if case_filter.search(case.name)]
    failures = differing(cases, *pair.connects())
    assert not failures, report(failures, len(cases))


def test_large_counters() -> None:
    with ExitStack() as stack:
        connects = start_pair(stack, *NO_BACKGROUND).connects()
        cases = list(build_large_counters())
        failures = differing(cases, *connects)
    assert not failures, report(failures, len(cases))


@pytest.mark.parametrize("group", ["storage", "arithmetic", "mg", "recache", "ms", "md", "ma", "me", "random"])
def test_group_without_cas(group: str) -> None:
    """With -C. There flush_all goes by the second, so new servers are taken and no case that flushes."""
    cases = [case for case in groups()[group] if not any(b"flush_all" in step for step in case.steps)]
    cases = cases[:: max(1, len(cases) // 250)]
    with ExitStack() as stack:
        connects = start_pair(stack, "-C", *NO_BACKGROUND).connects()
        failures = differing(cases, *connects)
    assert not failures, report(failures, len(cases))


def test_corpus_is_large() -> None:
    """Guards against a generator that quietly yields little."""
    cases = all_cases()
    assert len(cases) > 15000
    assert len({case.name for case in cases}) == len(cases)
    assert sum(case.closes for case in cases) > 20
    assert sum(case.ends_open for case in cases) > 20
    assert sum(case.uses_cas_values for case in cases) > 500
