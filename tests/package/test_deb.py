"""The Debian packages: looked at by lintian, and installed, configured, removed and purged by the real dpkg, in a
root directory that is this system's with a layer in memory over it: nothing of the system changes."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from package.test_package import BUILD, run

pytestmark = pytest.mark.timeout(300)

# What lintian says of packages that are not Debian's, and may say.
EXPLAINED = {
    "bogus-mail-host": "TANDEM_MAINTAINER is for whoever builds packages for others",
    "bogus-mail-host-in-debian-changelog": "the same",
    "initial-upload-closes-no-bugs": "not uploaded to Debian",
    "maintscript-calls-ldconfig": "CPack writes these scripts, beside the trigger",
    "pkg-config-unavailable-for-cross-compilation": "libraries lie in /usr/lib: a package is for one architecture",
    "systemd-service-file-refers-to-unusual-wantedby-target": "the member starts with the server",
    "running with root privileges is not recommended": "tests may run as root",
}

# Runs its arguments in an own mount namespace, as this system's root directory seen through a layer in memory.
LAYER = """
layer=$1; shift
mount -t tmpfs none "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
touch "$layer/root/dev/null"
mount --bind /dev/null "$layer/root/dev/null"
mount --bind "$PWD" "$layer/root/mnt"
chroot "$layer/root" sh -e -c "$1"
"""

# A life of the packages. Each line that starts with ! is compared.
LIFE = r"""
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "!$1: $(shift; "$@" >/dev/null 2>&1 && echo yes || echo no)"; }
userdel tandem 2>/dev/null || true
state() {
  say "$1: program" test -x /usr/bin/tandem
  say "$1: settings" test -f /etc/tandem/tandem.toml
  say "$1: enabled" test -L /etc/systemd/system/multi-user.target.wants/tandem.service
  say "$1: member enabled" test -L /etc/systemd/system/tandem.service.wants/tandem-member.service
  say "$1: user" getent passwd tandem
}
cp /mnt/*.deb /tmp/
dpkg --install /tmp/*.deb
state installed
say "its version" tandem --version
check='timeout 2 tandem serve --config /etc/tandem/tandem.toml --port -1 --udp-port 0'
say "its settings are right" sh -c "$check; [ \$? = 124 ]"
say "its manual is found" sh -c 'man -w 1 tandem && man -w 5 tandem.toml'
say "its library is found" sh -c 'ldconfig -p | grep -q libtandem.so.0'
say "nothing it installed is missing or changed" sh -c 'test -z "$(dpkg --verify tandem tandem-dev libtandem0)"'
echo '# mine' >> /etc/tandem/tandem.toml
rm /etc/systemd/system/multi-user.target.wants/tandem.service  # as `systemctl disable` does
dpkg --install /tmp/tandem_*.deb
state "installed again"
say "own settings kept" grep -q '^# mine' /etc/tandem/tandem.toml
dpkg --remove tandem tandem-dev libtandem0
state removed
mkdir -p /var/lib/tandem
touch /var/lib/tandem/items
dpkg --purge tandem
state purged
say "state left" test -e /var/lib/tandem
say "folder of settings left" test -e /etc/tandem
userdel tandem
useradd --uid 11211 --no-create-home tandem
say "installed beside an own user" dpkg --install /tmp/tandem_*.deb
"""

EXPECTED = {
    "installed": {"program": True, "settings": True, "enabled": True, "member enabled": True, "user": True},
    "installed again": {"program": True, "settings": True, "enabled": False, "member enabled": True, "user": True},
    "removed": {"program": False, "settings": True, "enabled": False, "member enabled": True, "user": True},
    "purged": {"program": False, "settings": False, "enabled": False, "member enabled": False, "user": True},
}
YES = [
    "its version",
    "its settings are right",
    "its manual is found",
    "its library is found",
    "nothing it installed is missing or changed",
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages' files by name."""
    folder = tmp_path_factory.mktemp("packages")
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder)
    found = {path.name.split("_")[0]: path for path in folder.glob("*.deb")}
    assert sorted(found) == ["libtandem0", "tandem", "tandem-dev"]
    return found


def test_what_they_say_of_themselves(packages: dict[str, Path]) -> None:
    server = run("dpkg-deb", "--field", packages["tandem"])
    assert re.search(r"^Depends: .*\badduser\b.*\blibc6\b", server, re.MULTILINE)  # libc6: found by dpkg-shlibdeps
    version = run(BUILD / "bin/tandem", "--version").split()[1]
    for path in packages.values():
        assert run("dpkg-deb", "--field", path, "Version") == f"{version}-1\n"
    assert run("dpkg-deb", "--field", packages["tandem-dev"], "Section") == "libdevel\n"


def test_what_is_in_them(packages: dict[str, Path]) -> None:
    def files(name: str) -> set[str]:
        lines = run("dpkg-deb", "--contents", packages[name]).splitlines()
        assert all(line.split()[1] == "root/root" for line in lines)
        return {line.partition(" -> ")[0].split()[-1].removeprefix(".") for line in lines if not line.endswith("/")}

    server, devel, library = files("tandem"), files("tandem-dev"), files("libtandem0")
    assert server >= {
        "/usr/bin/tandem",
        "/usr/bin/tandem-member",
        "/etc/tandem/tandem.toml",
        "/usr/lib/systemd/system/tandem.service",
        "/usr/lib/systemd/system/tandem-member.service",
        "/usr/share/man/man1/tandem.1.gz",
        "/usr/share/man/man5/tandem.toml.5.gz",
        "/usr/share/bash-completion/completions/tandem",
        "/usr/share/zsh/vendor-completions/_tandem",
        "/usr/share/fish/vendor_completions.d/tandem.fish",
    }
    assert {"/usr/include/tandem/store.hpp", "/usr/lib/libtandem.a"} <= devel
    assert any(path.endswith("/cmake/tandem/tandemConfig.cmake") for path in devel)
    assert {"/usr/include/tandem/tandem.h", "/usr/lib/libtandem.so", "/usr/lib/pkgconfig/tandem.pc"} <= devel
    assert "/usr/lib/libtandem.so.0" in library
    assert not server & devel and not library & devel
    # Debian's own copy of the licence is named, not repeated.
    for name, found in (("tandem", server), ("tandem-dev", devel), ("libtandem0", library)):
        assert f"/usr/share/doc/{name}/copyright" in found
        assert not any(path.endswith("LICENSE") for path in found)


def test_lintian_has_no_more_to_say(packages: dict[str, Path]) -> None:
    result = subprocess.run(["lintian", *packages.values()], capture_output=True, text=True)
    said = [line for line in (result.stdout + result.stderr).splitlines() if line]
    assert any("bogus-mail-host" in line for line in said), f"lintian did not look: {said}"
    assert [line for line in said if not any(re.search(rf"\b{tag}\b", line) for tag in EXPLAINED)] == []


@pytest.fixture(scope="module")
def life(packages: dict[str, Path]) -> Iterator[dict[str, bool]]:
    """What LIFE found."""
    folder = next(iter(packages.values())).parent
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    with tempfile.TemporaryDirectory() as layer:
        command = [*as_root, "unshare", "--mount", "bash", "-euc", LAYER, "layer", layer, LIFE]
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    assert done.returncode == 0, done.stdout
    yield {name: word == "yes" for name, word in re.findall(r"^!(.*): (yes|no)$", done.stdout, re.MULTILINE)}


@pytest.mark.parametrize("stage", EXPECTED)
def test_stage(life: dict[str, bool], stage: str) -> None:
    found = {name.split(": ")[1]: yes for name, yes in life.items() if name.startswith(f"{stage}: ")}
    assert found == EXPECTED[stage]


def test_the_installed_server_works(life: dict[str, bool]) -> None:
    assert {name: life[name] for name in YES} == dict.fromkeys(YES, True)


def test_what_an_administrator_changed_stays(life: dict[str, bool]) -> None:
    assert life["own settings kept"]


def test_an_administrators_own_user_is_taken(life: dict[str, bool]) -> None:
    assert life["installed beside an own user"]


def test_purging_leaves_nothing_but_the_user(life: dict[str, bool]) -> None:
    assert not life["state left"] and not life["folder of settings left"]


def test_this_system_has_not_changed(life: dict[str, bool]) -> None:
    result = subprocess.run(["dpkg-query", "-W", "-f", "${Package}", "tandem-dev"], capture_output=True, text=True)
    assert result.stdout == ""
