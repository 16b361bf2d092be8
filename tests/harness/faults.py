"""A server with allocations, mappings, threads and calls for blocks of a file that fail, with interrupted system calls
and with a wall clock that jumps, by a preloaded library (faults.c)."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
LAYOUT = struct.Struct("=qqqqqQqqqqqqqqqqqq6q")
FAIL_FROM, FAIL_COUNT, FAILED, IO, IO_FAULTS, STATE, WALL_AHEAD_MS = range(7)
BYTES_MIN, MAP_FROM, MAP_COUNT, MAP_FAILED, BLOCKS_ERROR, PUNCH_ERROR, DISK_FAILED = range(7, 14)
LIVE_BYTES, LIVE_BLOCKS, WRITE_ERROR, FSYNC_ERROR = 14, 15, 16, 17
IO_FAULTS_OF = {"receive": 18, "send": 19, "wait": 20, "accept": 21, "receive datagrams": 22, "send datagrams": 23}
NEVER = -(1 << 60)
ALWAYS = 1 << 40  # so many in a row
COUNTED_MAX = 1 << 60
_folder = tempfile.TemporaryDirectory(prefix="tandem-faults")


def all_sleep(pid: int) -> bool:
    """No thread of the process runs, or waits for a processor."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has ended
            if (task / "stat").read_text().rpartition(")")[2].split()[0] != "S":
                return False
    return True


def wait_started(pid: int) -> None:
    """A server accepts connections before all of its threads have begun, and ends when one of them cannot: faults come
    later than that. Waits some time only, as threads may have work all the time."""
    deadline = time.monotonic() + 30
    still = 0
    while still < 3 and time.monotonic() < deadline:
        time.sleep(0.004)
        still = still + 1 if all_sleep(pid) else 0


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
        self.path.write_bytes(LAYOUT.pack(NEVER, 0, 0, 0, 0, seed, 0, 0, NEVER, *[0] * 15))
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
