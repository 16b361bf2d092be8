#!/usr/bin/env python3
"""Prints the software bill of materials of a release, CycloneDX 1.6: `sbom.py FOLDER VERSION`. Each artefact in FOLDER
is a component with its SHA-256; it depends on the packages of other projects that are in it. They are found, not
listed: Debian's by the headers and archives that compiler and linker read (`ninja -t deps`), a package's `Depends`, and
the image's own dpkg database; Python's by the environment that built the wheel."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parent.parent.parent
ARM64 = ROOT / "build/arm64/root"
COMPILED_INTO_WHEEL = ("nanobind",)
Package = tuple[str, str, str, str]  # type, name, version, architecture


def output(*command: object, **keywords: object) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True, **keywords).stdout


def dpkg_packages(paths: set[str], admin: Path | None) -> set[str]:
    """The packages, NAME or NAME:ARCHITECTURE, that files belong to, of this machine or of the root for arm64."""
    if not paths:
        return set()
    where = [] if admin is None else [f"--admindir={admin}"]
    # Some are of no package, such as those of /usr/local.
    command = ["dpkg-query", *where, "--search", *sorted(paths)]
    found = subprocess.run(command, capture_output=True, text=True).stdout
    return {name.strip() for line in found.splitlines() for name in line.split(": ")[0].split(",")}


def versions(names: set[str], admin: Path | None) -> set[Package]:
    where = [] if admin is None else [f"--admindir={admin}"]
    fields = "${Package} ${Version} ${Architecture} ${db:Status-Abbrev}\n"
    # A name that is not installed, such as an alternative of a dependency, is left out.
    command = ["dpkg-query", *where, "--show", "--showformat", fields, *sorted(names)]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return {("deb", *line.split()[:3]) for line in lines if line.endswith("ii ")}


def compiled_in(build: Path) -> set[Package]:
    """Packages whose headers and archives the build read."""
    text = output("ninja", "-C", build, "-t", "deps") + output("ninja", "-C", build, "-t", "commands")
    paths = {str((build / word).resolve()) for word in re.findall(r"[^\s,:='\"]+\.(?:hpp|hh?|a|inl|tcc|ipp)\b", text)}
    paths |= {str((build / line.strip()).resolve()) for line in text.splitlines() if line.startswith("    ")}
    outside = {path for path in paths if path.startswith(("/usr/", "/lib/"))}
    packages = versions(dpkg_packages(outside, None), None)
    inside = {path for path in paths if path.startswith(str(ARM64))}
    admin = ARM64 / "var/lib/dpkg"
    return packages | (versions(dpkg_packages(inside, admin), admin) if inside else set())


def needed(deb: Path) -> set[Package]:
    """What a package depends on, in the versions that it was linked against."""
    fields = output("dpkg-deb", "--field", deb, "Depends", "Pre-Depends", "Architecture")
    names = {name for name in re.findall(r"(?:^\S+: |[,|] )([a-z0-9.+-]+)", fields, re.MULTILINE)}
    own = deb.name.endswith("_amd64.deb")
    architecture = "amd64" if own else "arm64"
    admin = None if own else ARM64 / "var/lib/dpkg"
    return versions({f"{name}:{kind}" for name in names for kind in (architecture, "all")}, admin)


def installed(archive: Path) -> set[Package]:
    """The packages in an image, by its dpkg database: that of the last layer that has one."""
    with tempfile.TemporaryDirectory() as folder:
        output("tar", "-xf", archive, "-C", folder)
        blobs = Path(folder) / "blobs/sha256"

        def blob(described: dict) -> Path:
            return blobs / described["digest"].split(":")[1]

        (manifest,) = json.loads((Path(folder) / "index.json").read_text())["manifests"]
        for layer in reversed(json.loads(blob(manifest).read_text())["layers"]):
            with tarfile.open(blob(layer)) as files:
                status = next((m for m in files if m.name.lstrip("./") == "var/lib/dpkg/status"), None)
                if status is not None:
                    text = files.extractfile(status).read().decode()
                    break
    entries = [dict(re.findall(r"^(\S+): (.*)$", entry, re.MULTILINE)) for entry in text.split("\n\n")]
    whole = [entry for entry in entries if entry.get("Status") == "install ok installed"]
    return {("deb", entry["Package"], entry["Version"], entry["Architecture"]) for entry in whole}


def python_packages() -> set[Package]:
    pip = ROOT / "build/wheel/venv/bin/pip"
    listed = json.loads(output(pip, "list", "--format", "json", "--disable-pip-version-check"))
    return {("pypi", entry["name"], entry["version"], "") for entry in listed if entry["name"] in COMPILED_INTO_WHEEL}


def parts(artefact: Path) -> dict[str, set[Package]]:
    """The packages of other projects in an artefact, by how they come there."""
    name = artefact.name
    if name.endswith(".deb"):
        build = ROOT / "build" / name.rsplit("_", 1)[1].removesuffix(".deb") / "build"
        return {"compiled in": compiled_in(build), "needed at run time": needed(artefact)}
    if name.endswith(".tar.gz"):
        return {"compiled in": compiled_in(ROOT / "build/wheel/static")}
    if name.endswith(".whl"):
        own = compiled_in(ROOT / "build/wheel/static") | compiled_in(ROOT / "build/wheel/shared")
        return {"compiled in": own | python_packages()}
    if name.startswith("tandem-image-"):
        return {"installed": installed(artefact), "compiled in": compiled_in(ROOT / "build/amd64/build")}
    return {}  # the chart has files of this project only


def component(package: Package) -> Component:
    kind, name, version, architecture = package
    qualifiers = {"arch": architecture, "distro": "debian-12"} if kind == "deb" else None
    url = PackageURL(kind, "debian" if kind == "deb" else None, name, version, qualifiers)
    return Component(type=ComponentType.LIBRARY, name=name, version=version, purl=url, bom_ref=str(url))


def main() -> int:
    folder, version = Path(sys.argv[1]), sys.argv[2]
    bom = Bom()
    release = Component(type=ComponentType.APPLICATION, name="tandem", version=version, bom_ref=f"tandem@{version}")
    bom.metadata.component = release
    known: dict[Package, Component] = {}
    for path in sorted(folder.iterdir()):
        found = parts(path)
        artefact = Component(
            type=ComponentType.CONTAINER if "-image-" in path.name else ComponentType.FILE,
            name=path.name,
            version=version,
            bom_ref=path.name,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(path.read_bytes()).hexdigest())],
            properties=[
                Property(name=f"tandem:{how.replace(' ', '-')}", value=name)
                for how, packages in found.items()
                for name in sorted({package[1] for package in packages})
            ],
        )
        needs = [known.setdefault(p, component(p)) for p in sorted(set().union(*found.values()))]
        bom.components.add(artefact)
        bom.register_dependency(artefact, needs)
        bom.register_dependency(release, [artefact])
    bom.components.update(known.values())
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
