"""What `make bundle` leaves runs where there is nothing: no libraries, no users, no names."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ROOT
from harness.server import HOST, free_port

BUNDLES = ROOT / "build/bundle"
DEADLINE_S = 120
SIZE_MOST = 60 << 20  # of the archive


def archive() -> Path:
    found = list(BUNDLES.glob("tandem-bundle-*.tar.gz"))
    if len(found) != 1:
        pytest.fail(f"{len(found)} archives in {BUNDLES}: run `make bundle`", pytrace=False)
    return found[0]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive, as on another machine."""
    folder = tmp_path_factory.mktemp("elsewhere")
    subprocess.run(["tar", "-xzf", archive(), "-C", folder], check=True, timeout=DEADLINE_S)
    (inside,) = folder.iterdir()
    return inside


def call(*command: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=DEADLINE_S, check=False, **keywords
    )


def system_libraries(program: Path) -> list[Path]:
    """What a program of a bundle for GPUs needs of the machine, below its root: the C library. Else nothing."""
    if "-cuda" not in program.parent.parent.name:
        return []
    paths = re.findall(r"(?:=> |^\s+)/(\S+) \(", call("ldd", program).stdout, re.MULTILINE)
    names = {path.rsplit("/", 1)[1] for path in paths}
    assert names <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, names
    assert "libc.so.6" in names
    return [Path(path) for path in paths]


@pytest.fixture
def nowhere(bundle: Path, tmp_path: Path) -> list[str]:
    """A command prefix that runs a program in a root that holds the bundle's programs and nothing else."""
    if os.geteuid() != 0:
        pytest.fail("needs root, for a root folder of its own", pytrace=False)
    root = tmp_path / "root"
    (root / "tmp").mkdir(parents=True)
    for library in system_libraries(bundle / "bin/tandem"):
        (root / library).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path("/") / library, root / library)
    shutil.copytree(bundle / "bin", root / "bin")
    shutil.copytree(bundle / "tests", root / "tests")
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert chroot is not None
    return ["env", "-i", chroot, str(root)]


def test_archive_is_small_and_complete(bundle: Path) -> None:
    assert archive().stat().st_size < SIZE_MOST
    for name in ("run", "README.txt", "bench-format.md", "bin/tandem", "bin/bench_parts"):
        assert (bundle / name).is_file()
    names = {path.name for path in (bundle / "tests").iterdir()}
    assert {
        "base_test",
        "heap_test",
        "index_test",
        "operate_test",
        "codec_test",
        "engine_test",
        "embedded_test",
    } <= names


def test_programs_are_static_and_stripped(bundle: Path) -> None:
    for program in [bundle / "bin/tandem", *(bundle / "tests").iterdir()]:
        headers = call("readelf", "--program-headers", "--sections", "--wide", program).stdout
        assert "LOAD" in headers
        assert ".debug_info" not in headers, f"{program.name} has debug information"
        if system_libraries(program):
            continue
        assert "INTERP" not in headers, f"{program.name} needs a loader"
        needed = call("readelf", "--dynamic", program).stdout
        assert "(NEEDED)" not in needed, f"{program.name} needs libraries"


def test_no_path_of_this_machine(bundle: Path) -> None:
    for program in [bundle / "bin/tandem", *(bundle / "tests").iterdir()]:
        assert str(ROOT).encode() not in program.read_bytes(), program.name


def test_serves_where_there_is_nothing(nowhere: list[str]) -> None:
    port = free_port()
    server = subprocess.Popen(
        [*nowhere, "/bin/tandem", "serve", "--listen", HOST, "--port", str(port), "--memory", "64MiB"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        from pymemcache.client.base import Client

        client = Client((HOST, port), timeout=5)
        deadline = time.monotonic() + 20
        while True:
            try:
                client.set("k", b"v" * 1000)
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, server.communicate()[0]
                client.close()
                time.sleep(0.02)
        assert client.get("k") == b"v" * 1000
        client.close()
    finally:
        server.send_signal(signal.SIGTERM)
        output = server.communicate(timeout=20)[0]
    assert server.returncode == 0, output


def test_refuses_what_it_has_not(nowhere: list[str]) -> None:
    run = call(*nowhere, "/bin/tandem", "serve", "--unix", "/tmp/socket", "--metrics", "127.0.0.1:0")
    assert run.returncode != 0 and "without the monitoring endpoint" in run.stderr
    run = call(*nowhere, "/bin/tandem", "serve", "--unix", "/tmp/socket", "--user", "nobody")
    assert run.returncode != 0 and "nobody" in run.stderr  # there is no /etc/passwd


def test_unit_tests_run_where_there_is_nothing(nowhere: list[str]) -> None:
    for name in ("base_test", "index_test", "codec_test"):
        # There is no /proc either, which the meter of processes reads.
        run = call(*nowhere, f"/tests/{name}", "--gtest_brief=1", "--gtest_filter=-ProcessMeter.*")
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


def test_names_and_users_of_files_are_found(bundle: Path) -> None:
    """Static programs look them up by themselves: localhost in /etc/hosts, nobody in /etc/passwd."""
    port = free_port()
    command = [bundle / "bin/tandem", "serve", "--listen", "localhost", "--port", str(port), "--memory", "64MiB"]
    if os.geteuid() == 0:
        command += ["--user", "nobody"]
    server = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 20
        while call(
            bundle / "bin/tandem", "top", "--once", "--interval", "0.1", "--connect", f"localhost:{port}"
        ).returncode:
            assert server.poll() is None and time.monotonic() < deadline
    finally:
        server.send_signal(signal.SIGTERM)
        output = server.communicate(timeout=20)[0]
    assert server.returncode == 0, output


def test_run_checks_measures_and_reports(bundle: Path, tmp_path: Path) -> None:
    """One command, a short part of it: the check, a document, the report where Python has matplotlib."""
    environment = {"PATH": "/usr/bin:/bin", "RESULTS": str(tmp_path / "results"), "TMPDIR": str(tmp_path)}
    environment["TANDEM_PYTHON"] = str(ROOT / "build/venv/bin/python")
    run = call("./run", "quick", "batch", cwd=bundle, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "checked every value: fine" in run.stdout
    document = json.loads((tmp_path / "results/batch.json").read_text())
    assert document["format"] == "tandem-bench/1" and document["runs"]
    assert (tmp_path / "results/index.html").is_file()

    environment["TANDEM_PYTHON"] = "/nonexistent"
    assert call("./run", "quick", "nothing", cwd=bundle, env=environment).returncode == 64
