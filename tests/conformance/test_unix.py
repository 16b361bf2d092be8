"""The corpus over a Unix socket."""

import pytest

from conformance.compare import differing, report
from conformance.conftest import Pair
from conformance.corpus import GROUP_NAMES, groups


@pytest.mark.parametrize("group", GROUP_NAMES)
def test_group(group: str, unix_pair: Pair) -> None:
    cases = list(groups()[group])
    failures = differing(cases, *unix_pair.connects())
    assert not failures, report(failures, len(cases))
