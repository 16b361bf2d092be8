"""docs/python-api.md is what python/api.py makes of the docstrings."""

from __future__ import annotations

import subprocess
import sys

from docs.examples import ROOT


def test_the_page_is_up_to_date() -> None:
    made = subprocess.check_output([sys.executable, str(ROOT / "python/api.py")], text=True)
    page = (ROOT / "docs/python-api.md").read_text()
    assert page == made, "run: python3 python/api.py >docs/python-api.md"
    for name in ("### Store", "- `get_rows(", "### Cache", "- `memoize(", "### Server", "### tandem_client"):
        assert name in page
