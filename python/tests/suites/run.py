#!/usr/bin/env python3
"""Runs other projects' tests over the wheel that this Python has: Django's of its memcached backends, over Django's own
backend and over ours; cachelib's over ours; pymemcache's over the wheel's server.

Their sdists are fetched from the package index at the versions and hashes of sdists.txt, into the folder that is given,
and the same versions must be installed. `--only NAME ...` runs some: django, cachelib, pymemcache.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import tandem

HERE = Path(__file__).resolve().parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]


def fetch(folder: Path) -> dict[str, Path]:
    """The unpacked sdists by name."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {name: version(name) for name in ("django", "cachelib", "pymemcache")}
    trees = {name: folder / f"{name}-{number}" for name, number in wanted.items()}
    if not all((tree / ".complete").exists() for tree in trees.values()):
        archives = folder / "archives"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        pip += ["--no-binary", ":all:", "--require-hashes", "-r", str(HERE / "sdists.txt"), "-d", str(archives)]
        subprocess.run(pip, check=True)
    for name, tree in trees.items():
        if (tree / ".complete").exists():
            continue
        archive = folder / "archives" / f"{tree.name}.tar.gz"
        if not archive.exists():
            raise SystemExit(f"{archive.name}: sdists.txt has another version of {name} than is installed")
        shutil.rmtree(tree, ignore_errors=True)
        with tarfile.open(archive) as packed:  # its hash has been checked
            if hasattr(tarfile, "data_filter"):
                packed.extractall(folder, filter="data")
            else:
                packed.extractall(folder)
        (tree / ".complete").touch()
    return trees


def address(server: tandem.Server) -> str:
    host, port = server.address
    return f"{host}:{port}"


def django(tree: Path) -> int:
    """One server for Django's backend, two for ours, with keys spread over them."""
    command = [sys.executable, "runtests.py", "--settings=django_settings", "--parallel=1", "--verbosity=1"]
    with tandem.Server(threads=1) as one, tandem.Server(threads=1) as two:
        code = 0
        for servers, labels in (
            ((one,), ["cache.tests.PyMemcacheCacheTests"]),
            # Django's app of these tests, which a label of its own brings in, has their models.
            ((one, two), ["cache.tests.DummyCacheTests", "tandem_backends"]),
        ):
            given = {"TANDEM_SERVERS": " ".join(map(address, servers)), "PYTHONPATH": str(HERE)}
            done = subprocess.run(
                [*command, *labels], cwd=tree / "tests", env=os.environ | given, stderr=subprocess.PIPE, text=True
            )
            print(done.stderr, file=sys.stderr)
            ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
            if done.returncode or ran is None or int(ran[1]) < 50:  # none found is no success
                code = 1
        return code


def cachelib(tree: Path) -> int:
    name = "test_cachelib_suite.py"
    shutil.copy(HERE / name, tree / "tests" / name)
    with tandem.Server(threads=1) as server:
        return subprocess.call(
            [*PYTEST, "-W", "error", name], cwd=tree / "tests", env=os.environ | {"TANDEM_URL": server.url}
        )


def pymemcache(tree: Path) -> int:
    with tandem.Server(threads=1) as server:
        host, port = server.address
        at = ["--server", str(host), "--port", str(port)]
        return subprocess.call([*PYTEST, *at, "pymemcache/test/test_integration.py"], cwd=tree)


SUITES = {"pymemcache": pymemcache, "cachelib": cachelib, "django": django}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the sdists are kept")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=list(SUITES))
    options = parser.parse_args()
    trees = fetch(options.folder.resolve())
    failed = [name for name in options.only if SUITES[name](trees[name]) != 0]
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(options.only)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
