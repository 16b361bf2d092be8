"""The artefacts of a release are whole, and each of them runs where it is meant to."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from release.artefacts import ENVIRONMENT, RELEASE, ROOT, Serving, artefact, needs_root, output, unpack

pytestmark = pytest.mark.timeout(900)
VERSION = re.search(r' version = "(.*)"', (ROOT / "src/options/version.hpp").read_text())[1]
EMULATOR = "qemu-aarch64-static"


def depends(deb: Path) -> set[str]:
    """Names of packages, without versions."""
    line = output("dpkg-deb", "--field", deb, "Depends")
    return {re.match(r"[a-z0-9.+-]+", part.strip())[0] for part in line.split(",")}


@pytest.mark.parametrize("package", ["tandem", "libtandem0", "tandem-dev"])
def test_packages_are_alike_on_both_architectures(package: str, tmp_path: Path) -> None:
    debs = {name: artefact(f"{package}_*_{name}.deb") for name in ("amd64", "arm64")}
    files = []
    for name, deb in debs.items():
        assert output("dpkg-deb", "--field", deb, "Architecture").strip() == name
        assert output("dpkg-deb", "--field", deb, "Version").strip() == f"{VERSION}-1"
        root = unpack(deb, tmp_path / name)
        found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
        files.append({path.replace("x86_64-linux-gnu", "@").replace("aarch64-linux-gnu", "@") for path in found})
        for path in root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert str(ROOT).encode() not in path.read_bytes(), path
    assert files[0] == files[1]
    assert depends(debs["amd64"]) == depends(debs["arm64"])
    assert package == "tandem-dev" or {"libc6", "libstdc++6"} <= depends(debs["arm64"])


@pytest.fixture(scope="module")
def arm64(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """A command prefix that runs a program of a root with the arm64 package and what apt adds for it."""
    needs_root()
    root = tmp_path_factory.mktemp("arm64") / "root"
    # The hook mounts the package's folder, in a name space that ends with the command.
    output(
        "unshare", "--mount", "mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64",
        "--skip=check/qemu", "--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount",
        f"--include={artefact('tandem_*_arm64.deb')}", "bookworm", root,
    )  # fmt: skip
    shutil.copy(shutil.which(EMULATOR), root)
    return ["chroot", root, f"/{EMULATOR}"]


def test_the_arm64_package_runs(arm64: list[object]) -> None:
    assert "aarch64" in output("readelf", "--file-header", arm64[1] / "usr/bin/tandem").lower()
    assert output(*arm64, "/usr/bin/tandem", "--version").split()[:2] == ["tandem", VERSION]
    with Serving([*arm64, "/usr/bin/tandem"]):
        pass


def test_the_archive_runs_where_there_is_nothing(tmp_path: Path) -> None:
    needs_root()
    output("tar", "-xzf", artefact("tandem-*-linux-*.tar.gz"), "-C", tmp_path)
    (root,) = tmp_path.iterdir()
    assert "INTERP" not in output("readelf", "--program-headers", root / "bin/tandem")
    assert str(ROOT).encode() not in (root / "bin/tandem").read_bytes()
    assert (root / "share/man/man1/tandem.1").read_text().startswith(".")
    for name in ("share/completions/tandem.bash", "share/tandem.toml", "README.txt", "LICENSE"):
        assert (root / name).stat().st_size
    with Serving(["chroot", root, "/bin/tandem"]):
        pass


def test_the_archive_can_be_made_again(tmp_path: Path) -> None:
    output("sh", "-euc", 'umask 077; exec "$0" "$1"', ROOT / "scripts/release/archive", tmp_path)
    made = artefact("tandem-*-linux-*.tar.gz")
    assert (tmp_path / made.name).read_bytes() == made.read_bytes()
    with tarfile.open(made) as archive:
        for member in archive:
            program = member.isdir() or member.name.endswith("/bin/tandem")
            assert (member.mode, member.uid, member.gid) == (0o755 if program else 0o644, 0, 0), member.name


def test_the_wheel_runs(tmp_path: Path) -> None:
    output(sys.executable, "-m", "venv", tmp_path)
    output(tmp_path / "bin/pip", "install", "--quiet", artefact("*.whl"))
    program = "import tandem; s = tandem.Store(memory='64MiB'); s.set('k', b'v'); print(s.get('k'), tandem.__version__)"
    assert output(tmp_path / "bin/python", "-W", "error", "-c", program).split() == ["b'v'", VERSION]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The unpacked image, and what a container of it runs."""
    needs_root()
    folder = tmp_path_factory.mktemp("image")
    output("skopeo", "copy", "--quiet", f"oci-archive:{artefact('tandem-image-*.tar')}", f"oci:{folder}/oci:tandem")
    output("umoci", "unpack", "--image", f"{folder}/oci:tandem", folder / "bundle")
    return folder / "bundle/rootfs", json.loads((folder / "bundle/config.json").read_text())["process"]


def test_the_image_serves_as_a_user(image: tuple[Path, dict]) -> None:
    root, process = image
    assert (process["user"]["uid"], process["user"]["gid"]) == (11211, 11211)
    assert process["args"] == ["tandem", "serve", "--listen", "*"]
    enter = 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; exec chroot --userspec=11211:11211 "$0" "$@"'
    with Serving(["unshare", "--mount", "sh", "-euc", enter, root, *process["args"][:1]]) as server:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert re.search(r"^Uid:\s+11211\s+11211", status, re.MULTILINE)
        check = ["nsenter", "--target", server.process.pid, "--mount", "--root", "--setuid", 11211, "--setgid", 11211]
        environment = {**ENVIRONMENT, "TANDEM_PID": str(server.process.pid)}
        words = [*map(str, check), "tandem-healthcheck"]
        assert subprocess.run(words, env=environment, timeout=60).returncode == 0


def test_the_image_has_no_more_than_it_needs(image: tuple[Path, dict]) -> None:
    root, _ = image
    assert artefact("tandem-image-*.tar").stat().st_size < 60 << 20
    assert not [*(root / "var/lib/apt/lists").glob("*_Packages"), *(root / "var/cache/apt").glob("*.bin")]
    assert not (root / "packages").exists() or not any((root / "packages").iterdir())
    assert not shutil.which("gcc", path=str(root / "usr/bin"))


def test_checksums_name_every_file() -> None:
    lines = (RELEASE / "SHA256SUMS").read_text().splitlines()
    assert {line.split("  ")[1] for line in lines} == {path.name for path in RELEASE.iterdir()} - {"SHA256SUMS"}
    output("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=RELEASE)


@pytest.fixture(scope="module")
def bill() -> dict:
    return json.loads(artefact("*.cdx.json").read_text())


def test_the_bill_names_every_artefact(bill: dict) -> None:
    hashes = {c["name"]: c["hashes"][0]["content"] for c in bill["components"] if "hashes" in c}
    names = {path.name for path in RELEASE.iterdir()} - {"SHA256SUMS", artefact("*.cdx.json").name}
    assert hashes == {name: hashlib.sha256((RELEASE / name).read_bytes()).hexdigest() for name in names}


@pytest.mark.parametrize(
    ("pattern", "packages"),
    [
        ("tandem_*_amd64.deb", {"libssl3", "libc6", "libcli11-dev", "libtomlplusplus-dev"}),
        ("tandem_*_arm64.deb", {"libssl3", "libc6", "libcli11-dev", "libtomlplusplus-dev"}),
        ("tandem-*-linux-*", {"libssl-dev", "libc6-dev", "libstdc++-12-dev", "libxxhash-dev"}),
        ("*.whl", {"nanobind", "libssl-dev", "libxxhash-dev"}),
        ("tandem-image-*", {"libssl3", "bash", "dpkg", "libcli11-dev"}),
        ("tandem-*.tgz", set()),
    ],
)
def test_the_bill_names_what_is_in_an_artefact(pattern: str, packages: set[str], bill: dict) -> None:
    known = {c["bom-ref"]: c for c in bill["components"]}
    (on,) = [d.get("dependsOn", []) for d in bill["dependencies"] if d["ref"] == artefact(pattern).name]
    found = {known[reference]["name"] for reference in on}
    assert packages <= found and (packages or not found)
    if "arm64" in pattern:
        assert {known[reference]["purl"].split("arch=")[1].split("&")[0] for reference in on} <= {"arm64", "all"}
