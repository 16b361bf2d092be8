"""Tandem: a key-value store in the process, for bytes and for arrays."""

from collections.abc import MutableMapping

from tandem._core import Store, __version__
from tandem._types import Closed, Error, Forked, Full, Item, Stats, TooLarge, TooManyThreads
from tandem.cache import Cache
from tandem.server import Server, ServerError

MutableMapping.register(Store)

__all__ = [
    "Cache",
    "Closed",
    "Error",
    "Forked",
    "Full",
    "Item",
    "Server",
    "ServerError",
    "Stats",
    "Store",
    "TooLarge",
    "TooManyThreads",
    "__version__",
]
