"""Tandem: a key-value store in the process, for bytes and for arrays."""

from collections.abc import MutableMapping

from tandem._core import Store, __version__
from tandem._types import Closed, Error, Forked, Full, Item, Stats, TooLarge, TooManyThreads

MutableMapping.register(Store)

__all__ = [
    "Closed",
    "Error",
    "Forked",
    "Full",
    "Item",
    "Stats",
    "Store",
    "TooLarge",
    "TooManyThreads",
    "__version__",
]
