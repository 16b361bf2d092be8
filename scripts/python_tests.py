#!/usr/bin/env python3
"""Runs pytest, and those of its tests that failed again alone, twice (results.py).

usage: python_tests.py RESULTS.xml PYTEST_ARGUMENT..."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from results import Failure, failures, run_again


def names_in_results(node: str) -> str:
    """As pytest writes the name of one of its tests to a JUnit file."""
    address, bracket, parameters = node.partition("[")
    path, *names = address.split("::")
    parts = [path.removesuffix(".py").replace("/", "."), *names]
    return ".".join(parts) + bracket + parameters


def where(node: str) -> str:
    """pytest names tests from the folder of its settings on."""
    path, separator, rest = node.partition("::")
    found = next(
        (folder / path for folder in (Path(), Path("tests"), Path("python")) if (folder / path).exists()), Path(path)
    )
    return f"{found}{separator}{rest}"


def main() -> int:
    results, arguments = Path(sys.argv[1]), sys.argv[2:]
    cache = results.with_suffix(".cache").resolve()  # several run side by side
    shutil.rmtree(cache, ignore_errors=True)
    pytest = [sys.executable, "-m", "pytest"]
    first = [*pytest, "-o", f"cache_dir={cache}", f"--junitxml={results}", *arguments]
    status = subprocess.run(first, check=False).returncode
    noted = cache / "v/cache/lastfailed"
    if status != 1 or not noted.is_file() or not results.is_file():
        return status
    nodes = {names_in_results(node): node for node in json.loads(noted.read_text())}
    failed = failures(results)
    if unknown := [failure.name for failure in failed if failure.name not in nodes]:
        print(f"not run again: {', '.join(unknown)}")
        return status

    def passes(failure: Failure) -> bool:
        print(f"again: {failure.name}", flush=True)
        again = [*pytest, "-q", "-p", "no:cacheprovider", where(nodes[failure.name])]
        return subprocess.run(again, check=False).returncode == 0

    return int(bool(run_again(failed, passes))) if failed else status


if __name__ == "__main__":
    sys.exit(main())
