"""A server whose allocations, mappings, threads and calls for blocks of a file fail, whose system calls are interrupted
and whose wall clock jumps, by a library that is preloaded (faults.c)."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
LAYOUT = struct.Struct("=qqqqqQqqqqqqqqqqqq")
FAIL_FROM, FAIL_COUNT, FAILED, IO, IO_FAULTS, STATE, WALL_AHEAD_S = range(7)
BYTES_MIN, MAP_FROM, MAP_COUNT, MAP_FAILED, BLOCKS_ERROR, PUNCH_ERROR, DISK_FAILED = range(7, 14)
LIVE_BYTES, LIVE_BLOCKS, WRITE_ERROR, FSYNC_ERROR = 14, 15, 16, 17
NEVER = -(1 << 60)
ALWAYS = 1 << 40  # so many in a row
COUNTED_MAX = 1 << 60
_folder = tempfile.TemporaryDirectory(prefix="tandem-faults")


@cache
def build() -> Path:
    library = Path(_folder.name) / "faults.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


class Faults:
    """What the preloaded library is told, and what it counted."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.library = build()
        self.path = folder / "faults"
        self.path.write_bytes(LAYOUT.pack(NEVER, 0, 0, 0, 0, seed, 0, 0, NEVER, *[0] * 9))
        with self.path.open("r+b") as file:
            self._words = mmap.mmap(file.fileno(), LAYOUT.size)

    def set(self, word: int, value: int) -> None:
        struct.pack_into("=q", self._words, 8 * word, value)

    def get(self, word: int) -> int:
        return struct.unpack_from("=q", self._words, 8 * word)[0]

    def fail(self, after: int, count: int = 1) -> None:
        """Fails `count` allocations after `after` more."""
        self.set(FAIL_FROM, NEVER)
        self.set(FAILED, 0)
        self.set(FAIL_COUNT, count)
        self.set(FAIL_FROM, after)

    def begin_counting(self) -> None:
        """Until the next fail(): counted() says how many allocations there were."""
        self.fail(COUNTED_MAX, 0)

    def counted(self) -> int:
        return COUNTED_MAX - self.get(FAIL_FROM)

    def fail_mappings(self, after: int, count: int = 1) -> None:
        """Fails `count` mappings (and changes of some, and starts of threads) after `after` more."""
        self.set(MAP_FROM, NEVER)
        self.set(MAP_FAILED, 0)
        self.set(MAP_COUNT, count)
        self.set(MAP_FROM, after)

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "FAULTS": str(self.path)}

    @contextmanager
    def preloaded(self) -> Iterator[None]:
        """Children started meanwhile have the library."""
        before = dict(os.environ)
        os.environ.update(self.environment())
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
