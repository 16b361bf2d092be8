"""Shares of long tests: one runs each day, so that all run in turn (conftest.py). TANDEM_SHARES=1: all of them."""

import datetime
import os


def share_of_today(shares: int) -> str:
    """For TANDEM_SHARE."""
    return f"{datetime.datetime.now(datetime.UTC).toordinal()}/{os.environ.get('TANDEM_SHARES', shares)}"
