"""Times to live: seconds from now, in whatever form the caller has them."""

from __future__ import annotations

import math
from datetime import timedelta


def seconds(ttl: float | timedelta | None) -> int | None:
    """Whole seconds from now, rounded up; None: never expires."""
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float, timedelta)):
        raise TypeError(f"ttl must be a number of seconds, a timedelta or None, not {type(ttl).__name__}")
    length = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not 0 < length < math.inf:
        raise ValueError(f"ttl must be more than 0 seconds: {ttl!r}; None never expires")
    return math.ceil(length)
