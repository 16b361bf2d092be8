#!/usr/bin/env python3
"""Runs the stock clients' suites against Tandem and, as a control, against memcached: a line for each, the end of its
output where it failed, and the number of tests at the end. `scripts/setup clients` installs what it needs."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
BUILD = ROOT / "build/clients"
sys.path.insert(0, str(FOLDER.parent))

from harness.server import Server, ServerError  # noqa: E402 (found by the line above)

USER, PASSWORD = "tester", "secret"
SUITE_TIMEOUT_S = 400
SERVERS = {
    "tandem": [os.environ.get("TANDEM_BIN", str(ROOT / "build/bin/tandem")), "memcached"],
    "memcached": [os.environ.get("MEMCACHED_BIN", "memcached")],
}


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


@dataclass
class Run:
    """One suite on one server: what is called, where, and how its tests are counted."""

    command: list[str]
    folder: Path
    count: Callable[[str], Counts]
    needs: list[str] = field(default_factory=list)  # programs


def count_xml(*paths: Path) -> Counts:
    """JUnit files, as pytest and Surefire write them."""
    total = Counts()
    for path in paths:
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            total += Counts(tests - failed - skipped, failed, skipped)
    return total


def count_go(output: str) -> Counts:
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    actions = [event["Action"] for event in events if event.get("Test")]
    return Counts(actions.count("pass"), actions.count("fail"), actions.count("skip"))


def count_tap(output: str) -> Counts:
    def number(name: str) -> int:
        match = re.search(rf"^# {name} (\d+)$", output, re.MULTILINE)
        return int(match[1]) if match else 0

    return Counts(number("pass"), number("fail") + number("cancelled"), number("skipped"))


def count_capable(output: str) -> Counts:
    return Counts(output.count("[pass]"), output.count("[FAIL]"))


def python_run(server: str, text_only: bool) -> Run:
    report = BUILD / f"python-{server}.xml"
    report.unlink(missing_ok=True)
    command = [str(BUILD / "python/bin/python"), "-m", "pytest", "-q", f"--junitxml={report}"]
    return Run([*command, *(["-m", "not binary"] if text_only else [])], FOLDER / "python", lambda _: count_xml(report))


def discovery_python_run(server: str, text_only: bool) -> Run | None:
    """Of this and the two suites below memcached has no part: it has no `config`."""
    report = BUILD / "discovery.xml"
    report.unlink(missing_ok=True)
    command = [str(BUILD / "python/bin/python"), "-m", "pytest", "-q", f"--junitxml={report}"]
    return Run(command, FOLDER / "discovery", lambda _: count_xml(report)) if server == "tandem" else None


def discovery_node_run(server: str, text_only: bool) -> Run | None:
    command = ["node", "--test", "--test-reporter=tap"]
    return Run(command, FOLDER / "discovery", count_tap, ["node"]) if server == "tandem" else None


def discovery_java_run(server: str, text_only: bool) -> Run | None:
    return maven_run(FOLDER / "discovery/java", BUILD / "discovery-java", []) if server == "tandem" else None


def go_run(server: str, text_only: bool) -> Run:
    return Run(["go", "test", "-json", "-count=1", "./..."], FOLDER / "go", count_go, ["go"])


def java_run(server: str, text_only: bool) -> Run:
    return maven_run(FOLDER / "java", BUILD / f"java-{server}", ["-DexcludedGroups=binary"] if text_only else [])


def resolved_pom(folder: Path) -> Path:
    """A copy of the folder's pom.xml, of the last run that had all it needs."""
    return BUILD / f"pom-{folder.relative_to(FOLDER).as_posix().replace('/', '-')}.xml"


def maven_run(folder: Path, target: Path, options: list[str]) -> Run:
    shutil.rmtree(target / "surefire-reports", ignore_errors=True)
    command = ["mvn", "-B", "-q", f"-Dbuild.folder={target}", *options, "test"]
    resolved = resolved_pom(folder)
    if resolved.exists() and resolved.read_bytes() == (folder / "pom.xml").read_bytes():
        command.append("--offline")
    return Run(
        command,
        folder,
        lambda _: count_xml(*target.glob("surefire-reports/*.xml")),
        ["mvn", "javac"],
    )


def node_run(server: str, text_only: bool) -> Run | None:
    command = ["node", "--test", "--test-reporter=tap"]
    return None if text_only else Run(command, FOLDER / "node", count_tap, ["node"])


def capable_run(protocol: str) -> Callable[[str, bool], Run | None]:
    def run(server: str, text_only: bool) -> Run | None:
        if text_only and protocol == "-b":
            return None
        name = next((name for name in ("memccapable", "memcapable") if shutil.which(name)), "memccapable")
        command = ["bash", "-c", f'exec {name} {protocol} -h "${{SERVER%:*}}" -p "${{SERVER#*:}}"']
        return Run(command, FOLDER, count_capable, [name])

    return run


# Name of the suite, and what makes its run; None where the suite is the binary protocol's alone and that is left out.
SUITES: dict[str, Callable[[str, bool], Run | None]] = {
    "python": python_run,
    "go": go_run,
    "node": node_run,
    "memcapable-text": capable_run("-a"),
    "memcapable-binary": capable_run("-b"),
    "java": java_run,
    "discovery-python": discovery_python_run,
    "discovery-node": discovery_node_run,
    "discovery-java": discovery_java_run,
}

printing = threading.Lock()


def say(text: str) -> None:
    with printing:
        print(text, flush=True)


def run_suite(name: str, server: str, run: Run, environment: dict[str, str]) -> Counts:
    began = time.monotonic()
    log = BUILD / f"{name}-{server}.log"
    log.unlink(missing_ok=True)
    missing = [program for program in run.needs if shutil.which(program) is None]
    output, status = f"missing: {' '.join(missing)}; run scripts/setup clients", 1
    if not missing:
        with log.open("wb") as out:
            try:
                status = subprocess.run(
                    run.command,
                    cwd=run.folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=SUITE_TIMEOUT_S,
                ).returncode
            except subprocess.TimeoutExpired:
                out.write(f"\nstill running after {SUITE_TIMEOUT_S} s\n".encode())
        output = log.read_text(errors="replace")
    try:
        counts = run.count(output)
    except (OSError, ValueError, ElementTree.ParseError) as error:
        output += f"\nno result: {error}"
        counts = Counts()
    if counts.failed == 0 and (status != 0 or counts.passed == 0):
        counts += Counts(failed=1)  # it did not come to its end, or tested nothing
    tests = counts.passed + counts.failed
    verdict = "FAIL" if counts.failed or counts.skipped else "ok"
    say(f"{verdict:4} {server:9} {name:17} {tests:4} tests {time.monotonic() - began:6.1f} s")
    if counts.failed:
        say("\n".join(output.splitlines()[-60:]))
        if log.exists():
            say(f"---- all of it: {log.relative_to(ROOT)}")
    if counts.skipped:
        say(f"{counts.skipped} skipped, which counts as failed")
        counts = Counts(counts.passed, counts.failed + counts.skipped)
    return counts


@contextmanager
def running(server: str, text_only: bool) -> Iterator[dict[str, str]]:
    """A server, and another that wants a password; the environment for suites that talk to them."""
    servers = [Server(SERVERS[server], "-U", "0")]
    environment = os.environ | {
        "SERVER": f"127.0.0.1:{servers[0].port}",
        "SERVER_COMMAND": " ".join([*SERVERS[server], "-l", "127.0.0.1", "-u", "root"]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NODE_PATH": str(BUILD / "node/node_modules"),
    }
    try:
        if server == "tandem":
            control = BUILD / "control.sock"
            discovery = Server(SERVERS[server], "-U", "0", "-o", f"control={control}")
            servers.append(discovery)
            environment |= {"DISCOVERY_SERVER": f"127.0.0.1:{discovery.port}", "CONTROL": str(control)}
        if not text_only:
            servers.append(Server(SERVERS[server], "-S", "-U", "0"))
            environment["SASL_SERVER"] = f"127.0.0.1:{servers[-1].port}"
        yield environment
    finally:
        for one in servers:
            one.discard() if server == "memcached" else one.close()


def test_server(server: str, suites: list[str], text_only: bool) -> Counts:
    total = Counts()
    try:
        with running(server, text_only) as environment:
            for name in suites:
                run = SUITES[name](server, text_only)
                if run is not None:
                    total += run_suite(name, server, run, environment)
    except ServerError as error:
        say(f"FAIL {server:9} {error}")
        total += Counts(failed=1)
    return total


def set_up_passwords() -> None:
    """USER's password, as memcached's SASL library and as Tandem reads it, and where pylibmc's copy of that library
    finds the system's plugins."""
    folder = BUILD / "sasl"
    folder.mkdir(exist_ok=True)
    database = folder / "sasldb2"
    database.unlink(missing_ok=True)
    (folder / "memcached.conf").write_text(
        f"mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: {database}\n"
    )
    make = ["saslpasswd2", "-p", "-c", "-a", "memcached", "-f", str(database), USER]
    subprocess.run(make, input=PASSWORD.encode(), check=True)
    passwords = folder / "passwords"
    passwords.write_text(f"{USER}:{PASSWORD}\n")
    passwords.chmod(0o600)
    os.environ["SASL_CONF_PATH"] = str(folder)
    os.environ["MEMCACHED_SASL_PWDB"] = str(passwords)
    plugins = next(iter(Path("/usr/lib").glob("*/sasl2")), None)
    if plugins is not None:
        os.environ["SASL_PATH"] = str(plugins)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=SERVERS, nargs="+", default=list(SERVERS))
    parser.add_argument("--only", choices=SUITES, nargs="+", default=list(SUITES), metavar="SUITE")
    parser.add_argument("--text-only", action="store_true", help="leave out what needs the binary protocol")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if not options.text_only:
        set_up_passwords()
    # Much of a suite is waiting for items to expire: both servers' at a time.
    with ThreadPoolExecutor() as pool:
        work = [pool.submit(test_server, server, options.only, options.text_only) for server in options.server]
        total = sum((one.result() for one in work), Counts())
    for suite, folder in {"java": FOLDER / "java", "discovery-java": FOLDER / "discovery/java"}.items():
        if not total.failed and suite in options.only:
            shutil.copy(folder / "pom.xml", resolved_pom(folder))
    print(f"{total.passed} passed, {total.failed} failed")
    return bool(total.failed) or not total.passed


if __name__ == "__main__":
    sys.exit(main())
