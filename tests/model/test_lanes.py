"""What the types of src/index forbid must not compile, and AArch64's lanes must answer like the rest."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wno-psabi", "-Wno-unused-variable", f"-I{ROOT / 'src'}"]
COMPILERS = [c for c in ("g++", "clang++-19", "clang++") if shutil.which(c)]
MISTAKES = sorted((HERE / "must_not_compile").glob("*.cpp"))


def compile_one(compiler: str, source: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [compiler, *FLAGS, *more, "-c", str(source), "-o", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True)


def test_there_is_a_compiler_and_something_to_refuse() -> None:
    assert COMPILERS
    assert len(MISTAKES) >= 6


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", MISTAKES, ids=lambda p: p.stem)
def test_does_not_compile(source: Path, compiler: str) -> None:
    expected = re.search(r"^// expect: (.+)$", source.read_text(), re.MULTILINE)
    assert expected, f"{source.name} does not say what the compiler should"
    without = compile_one(compiler, source, "-DWITHOUT_THE_MISTAKE")
    assert without.returncode == 0, without.stderr
    refused = compile_one(compiler, source)
    assert refused.returncode != 0, "it compiles"
    assert re.search(expected[1], refused.stderr), refused.stderr


CROSS, EMULATOR = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64-static")


@pytest.mark.skipif(not (CROSS and EMULATOR), reason="needs g++-aarch64-linux-gnu and qemu-user-static")
def test_neon_lanes_answer_like_scalar_ones(tmp_path: Path) -> None:
    program = tmp_path / "lanes_check"
    sources = [ROOT / "src/index/cuckoo" / f"{name}.cpp" for name in ("cuckoo", "cuckoo_scalar", "cuckoo_neon")]
    sources += [ROOT / "src/index/slab_list" / f"{name}.cpp" for name in ("slab_ops", "slabs_scalar", "slabs_neon")]
    command = [
        CROSS,
        *FLAGS,
        "-O2",
        "-Werror",
        "-static",
        *map(str, sources),
        str(HERE / "lanes_check.cpp"),
        "-o",
        program,
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    run = subprocess.run([EMULATOR, str(program)], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 kinds" in run.stdout
    assert "widest: neon" in run.stdout
