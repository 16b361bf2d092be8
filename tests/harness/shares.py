"""Shares of long tests: one runs for each tree of sources, always the same one; as the sources change all run in turn
(conftest.py). TANDEM_SHARES=1: all of them."""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def turn_of_tree() -> int:
    """A number that the files of the repository decide."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "--cached"], cwd=ROOT)
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.split(b"\0"))):
        path = ROOT / os.fsdecode(name)
        if path.is_file():
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return int.from_bytes(digest.digest()[:8], "big")


def share_of_tree(shares: int) -> str:
    """For TANDEM_SHARE."""
    return f"{turn_of_tree()}/{os.environ.get('TANDEM_SHARES', shares)}"
