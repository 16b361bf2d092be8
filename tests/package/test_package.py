"""The installed package: a foreign project finds it, compiles against nothing but it, and runs."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TANDEM_BIN", ROOT / "build/bin/tandem")).resolve().parent.parent
CONSUMER = Path(__file__).resolve().parent / "consumer"

pytestmark = pytest.mark.timeout(300)
# `make` installs from build/ of this tree.
needs_own_build = pytest.mark.skipif(BUILD != ROOT / "build", reason="the server under test is of another build folder")


def run(*command: str | Path) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


def test_a_consumer_project_builds_and_runs(prefix: Path, tmp_path: Path) -> None:
    run("cmake", "-S", CONSUMER, "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "consumer") == "stored and read back\n"


def flags(prefix: Path, name: str) -> list[str]:
    found = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    done = subprocess.run(["pkg-config", "--cflags", "--libs", name], capture_output=True, text=True, env=found)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


@pytest.mark.parametrize("compiler", [["cc", "-std=c99"], ["c++", "-std=c++17", "-x", "c++"]], ids=["c99", "c++17"])
def test_a_c_program_uses_all_of_the_interface(compiler: list[str], prefix: Path, tmp_path: Path) -> None:
    """Found by pkg-config, linked to the shared library."""
    version = run(prefix / "bin/tandem", "version").split()[1]
    source = CONSUMER.parent / "consumer_c/main.c"
    if compiler[0] == "cc":
        language = [*compiler, source]
        run(
            *language,
            f'-DWANTED_VERSION="{version}"',
            *STRICT,
            "-o",
            tmp_path / "c",
            *flags(prefix, "tandem"),
            "-pthread",
        )
        os.environ["LD_LIBRARY_PATH"] = str(prefix / "lib")
        try:
            assert run(tmp_path / "c") == "all of C's interface\n"
        finally:
            del os.environ["LD_LIBRARY_PATH"]
        used = set(re.findall(r"\btandem_\w+(?=\()", source.read_text()))
        assert used == declared(prefix), "each function is tried"
    else:  # C++ programs may include the header, too
        alone = tmp_path / "alone.cpp"
        alone.write_text("#include <tandem/tandem.h>\nint main() { return tandem_version() == nullptr; }\n")
        run(*compiler, alone, *STRICT, "-o", tmp_path / "cpp", *flags(prefix, "tandem"))


def declared(prefix: Path) -> set[str]:
    header = (prefix / "include/tandem/tandem.h").read_text()
    return set(re.findall(r"^TANDEM_API [^;(]*\b(tandem_\w+)\(", header, re.MULTILINE))


def test_the_shared_library_exports_its_header_and_nothing_else(prefix: Path) -> None:
    library = prefix / "lib/libtandem.so"
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    assert exported == declared(prefix)
    assert len(exported) > 15
    assert re.search(r"SONAME.*\[libtandem\.so\.0\]", run("readelf", "-d", library))


def test_a_cpp_program_finds_the_static_library_by_pkg_config(prefix: Path, tmp_path: Path) -> None:
    run("c++", "-std=c++20", CONSUMER / "main.cpp", "-o", tmp_path / "cpp", *flags(prefix, "tandem-cpp"))
    assert run(tmp_path / "cpp") == "stored and read back\n"


def test_each_public_header_compiles_alone(prefix: Path, tmp_path: Path) -> None:
    headers = sorted((prefix / "include").rglob("*.hpp"))
    assert headers
    for header in headers:
        source = tmp_path / "alone.cpp"
        source.write_text(f'#include "{header.relative_to(prefix / "include")}"\n')
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
        run("c++", "-std=c++20", "-fsyntax-only", *warnings, "-I", prefix / "include", source)


def test_the_public_headers_ask_for_their_standard(prefix: Path, tmp_path: Path) -> None:
    for header in sorted((prefix / "include").rglob("*.hpp")):
        source = tmp_path / "old.cpp"
        source.write_text(f'#include "{header.relative_to(prefix / "include")}"\n')
        command = ["c++", "-std=c++17", "-fsyntax-only", "-I", prefix / "include", source]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode != 0
        assert "needs C++20: compile with -std=c++20" in done.stderr


def test_installed_headers_point_to_no_page_that_is_not_installed(prefix: Path) -> None:
    for header in (prefix / "include").rglob("*.h*"):
        text = re.sub(r"\s*\n\s*(//|\*) *", " ", header.read_text())
        for page in re.findall(r"docs/[\w-]+\.md(.{0,20})", text):
            assert page.startswith(" of the source tree"), header


def test_nothing_installed_names_the_build_tree(prefix: Path) -> None:
    for file in prefix.rglob("*"):
        if file.suffix in {".cmake", ".hpp", ".h", ".pc"}:
            assert str(ROOT) not in file.read_text(), file


def test_the_installed_program_says_its_version(prefix: Path) -> None:
    assert run(prefix / "bin/tandem", "--version").startswith("tandem ")


# --- make install and make uninstall ----------------------------------------------------------------------------------


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def make(goal: str, destdir: Path, prefix: str) -> str:
    return run("make", "-C", ROOT, goal, f"DESTDIR={destdir}", f"PREFIX={prefix}")


@needs_own_build
@pytest.mark.parametrize(("prefix", "settings"), [("/usr", "etc"), ("/opt/tandem", "opt/tandem/etc")])
def test_install_and_uninstall(tmp_path: Path, prefix: str, settings: str) -> None:
    before = files(tmp_path)
    make("install", tmp_path, prefix)
    below = prefix.lstrip("/")
    assert files(tmp_path) >= {
        f"{settings}/tandem/tandem.toml",
        *(
            f"{below}/{name}"
            for name in (
                "bin/tandem",
                "include/tandem/getk.hpp",
                "include/tandem/store.hpp",
                "include/tandem/tandem.h",
                "lib/libtandem.so.0",
                "lib/pkgconfig/tandem.pc",
                "lib/systemd/system/tandem.service",
                "share/man/man1/tandem.1",
                "share/man/man5/tandem.toml.5",
                "share/bash-completion/completions/tandem",
                "share/fish/vendor_completions.d/tandem.fish",
                "share/doc/tandem/tandem.toml",
                "share/doc/tandem/LICENSE",
            )
        ),
    }
    unit = (tmp_path / below / "lib/systemd/system/tandem.service").read_text()
    assert f"ExecStart={prefix}/bin/tandem serve --config /{settings}/tandem/tandem.toml\n" in unit
    make("uninstall", tmp_path, prefix)
    assert files(tmp_path) == before


@needs_own_build
def test_the_loaders_cache_is_renewed_where_nothing_is_staged(tmp_path: Path) -> None:
    told = tmp_path / "told"
    tools = tmp_path / "tools"
    tools.mkdir()
    ldconfig, user = tools / "ldconfig", tools / "id"
    ldconfig.write_text(f"#!/bin/sh\ntouch {told}\n")
    user.write_text("#!/bin/sh\necho 0\n")
    for tool in (ldconfig, user):
        tool.chmod(0o755)
    path = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    make = ["make", "-C", ROOT, "install", f"PREFIX={tmp_path / 'prefix'}"]
    subprocess.run([*make, f"DESTDIR={tmp_path / 'staged'}"], check=True, stdout=subprocess.DEVNULL, env=path)
    assert not told.exists()
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, env=path)
    assert told.exists()


def test_make_build_builds_what_is_installed() -> None:
    commands = run("make", "-C", ROOT, "-n", "build")
    targets = re.search(r"cmake --build build .*--target (.*)", commands)
    assert targets is not None
    assert {"tandem", "tandem_texts", "tandem_static", "tandem_shared"} <= set(targets[1].split())


@needs_own_build
def test_changed_settings_stay(tmp_path: Path) -> None:
    make("install", tmp_path, "/usr")
    settings = tmp_path / "etc/tandem/tandem.toml"
    settings.write_text("port = 1\n")
    make("install", tmp_path, "/usr")
    assert settings.read_text() == "port = 1\n"
    make("uninstall", tmp_path, "/usr")
    assert files(tmp_path) == {"etc/tandem/tandem.toml"}
