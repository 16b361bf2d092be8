"""Shares of long tests: one runs each day, so that all run in turn (conftest.py; in full: `make test-device`)."""

import datetime


def share_of_today(shares: int) -> str:
    """For TANDEM_SHARE."""
    return f"{datetime.datetime.now(datetime.UTC).toordinal()}/{shares}"
