#!/usr/bin/env python3
"""Fails if something that outsiders can say to the program reaches no fuzzer: a command, a subcommand, a group of
`stats`, a flag of a meta command, an opcode of the binary protocol, a setting of the TOML file, an option of
memcached's. Names are taken from the code that reads them and from the printed options; a name is fuzzed if a seed or
dictionary of a target that reads such input has it. What is not has its reason in scripts/fuzz_excused.txt, and nothing
else is there. `--self-test` takes seeds away and expects to be told."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXCUSED = "scripts/fuzz_excused.txt"
WORD = re.compile(rb"[a-z][a-z0-9_]*")


def source(root: Path, *patterns: str) -> str:
    return "\n".join(p.read_text() for pattern in patterns for p in sorted(root.glob(pattern)))


def unescaped(line: str) -> bytes:
    """An entry of a libFuzzer dictionary."""
    quoted = line[line.index('"') + 1 : line.rindex('"')]
    return re.sub(rb"\\x([0-9a-fA-F]{2})|\\(.)", lambda m: bytes([int(m[1], 16)]) if m[1] else m[2], quoted.encode())


def inputs(root: Path, *targets: str) -> list[bytes]:
    """Seeds and words of dictionaries of these targets."""
    found = []
    for target in targets:
        for path in sorted(root.glob(f"src/*/{target}_seeds/*")):
            found.append(path.read_bytes())
        for path in root.glob(f"src/*/{target}.dict"):
            found += [unescaped(line) for line in path.read_text().splitlines() if line.startswith('"')]
    return found


# --- what there is


def text_words(root: Path) -> set[str]:
    """Words that the parsers compare with, of commands and of what follows them."""
    parsers = source(
        root,
        *(f"src/protocol/{name}.cpp" for name in ("text_parser", "admin", "control", "replies_binary")),
        "src/net/control*.cpp",
        "src/net/telemetry.cpp",
    )
    words = set(re.findall(r'(?:command|group|words_?\[\d\]|text) == "([a-z_]+)"', parsers))
    words |= set(re.findall(r'\{"([a-z]+)", (?:watch_event|DebugItem)::', parsers))
    return words | set(re.findall(r'last_is\("([a-z]+)"\)', parsers))


def meta_commands(root: Path) -> set[str]:
    code = source(root, "src/protocol/command.hpp")
    return set(re.findall(r"\bCommand::(m[a-z])\b", code)) | {"me", "mn"}


def meta_flags(root: Path) -> set[str]:
    """Flags that a meta command may have, as their walks and replies name them; of M also what it may say."""
    parser = source(root, "src/protocol/meta_parser.cpp")
    code = parser + source(root, "src/protocol/meta_flags.*pp", "src/protocol/replies_meta.cpp")
    flags = set(re.findall(r"has\('([A-Za-z])'\)", code))
    flags |= set(re.findall(r"case '([A-Za-z])'", code.replace(parser, "")))
    for group in re.findall(r'bits\("([A-Za-z]+)"\)', code):
        flags |= set(group)
    return flags | {f"M{mode}" for mode in re.findall(r"case '([A-Z])':", parser)}


def opcodes(root: Path) -> set[str]:
    codes = re.search(r"\bget = 0x00.*?;", source(root, "src/protocol/binary.hpp"), re.DOTALL)
    return {f"{int(value, 16):02x}" for value in re.findall(r"= (0x[0-9a-fA-F]+)", codes[0])} if codes else set()


def settings(root: Path) -> set[str]:
    return set(re.findall(r"^(?:# )?([a-z][a-z0-9-]*) = ", source(root, "deploy/tandem.toml"), re.MULTILINE))


def memcached_options(root: Path) -> set[str]:
    page = source(root, "docs/options.md")
    table = page[page.index("`-l, --listen") :]
    names = set()
    for cell in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE):
        for name in cell.split(", "):
            names.add(re.split(r"[ =]", name)[0] if not name.startswith("-o ") else name)
    return names


# --- what is fuzzed


def has_words(blobs: list[bytes]) -> Callable[[str], bool]:
    words = {word.decode() for blob in blobs for word in WORD.findall(blob)}
    return lambda name: name in words


def has_flags(blobs: list[bytes]) -> Callable[[str], bool]:
    found = {flag.decode() for blob in blobs for flag in re.findall(rb" (M[A-Z]|[A-Za-z])", blob)}
    return lambda name: name in found


def has_opcodes(blobs: list[bytes]) -> Callable[[str], bool]:
    found = {f"{code[0]:02x}" for blob in blobs for code in re.findall(rb"\x80(.)", blob, re.DOTALL)}
    return lambda name: name in found


def has_settings(blobs: list[bytes]) -> Callable[[str], bool]:
    found = {name.decode() for blob in blobs for name in re.findall(rb"^([a-z][a-z0-9-]*) = ", blob, re.MULTILINE)}
    return lambda name: name in found


def has_options(blobs: list[bytes]) -> Callable[[str], bool]:
    """Arguments lie a line each; after -o several names with commas between; letters may stand together."""
    found: set[str] = set()
    for blob in blobs:
        lines = blob.decode(errors="replace").splitlines()
        for at, line in enumerate(lines):
            if line.startswith("--"):
                found.add(line.split("=")[0])
            elif line.startswith("-o"):
                names = line[2:] or (lines[at + 1] if at + 1 < len(lines) else "")
                found |= {f"-o {name.split('=')[0]}" for name in names.split(",")} | {"-o"}
            elif line.startswith("-"):
                found |= {f"-{letter}" for letter in line[1:] if letter.isalpha()}
    return lambda name: name in found


TEXT = ("parser_fuzz", "meta_flags_fuzz", "net_fuzz")
KINDS: dict[str, tuple[Callable[[Path], set[str]], Callable[[list[bytes]], Callable[[str], bool]], tuple[str, ...]]] = {
    "word": (text_words, has_words, TEXT),
    "meta": (meta_commands, has_words, TEXT),
    "flag": (meta_flags, has_flags, TEXT),
    "opcode": (opcodes, has_opcodes, ("binary_fuzz", "net_fuzz")),
    "setting": (settings, has_settings, ("config_fuzz",)),
    "option": (memcached_options, has_options, ("memcached_fuzz",)),
}
# So many there are at least: a table that is not recognised any more is not taken for an empty one.
FEWEST = {"word": 60, "meta": 6, "flag": 20, "opcode": 30, "setting": 60, "option": 80}


def excused(root: Path) -> dict[str, str]:
    """`kind name: reason`, a line each."""
    lines = (root / EXCUSED).read_text().splitlines()
    entries = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return {entry[0]: entry[1] if len(entry) == 2 else "" for entry in entries}


def problems(root: Path, without: tuple[str, ...] = ()) -> list[str]:
    excuses, found = excused(root), []
    for kind, (names_of, reach_of, targets) in KINDS.items():
        names = names_of(root)
        if len(names) < FEWEST[kind]:
            found.append(f"only {len(names)} names of kind {kind} were found: their table is read no more")
        is_fuzzed = reach_of(inputs(root, *(t for t in targets if t not in without)))
        for name in sorted(names):
            reason = excuses.pop(f"{kind} {name}", None)
            if reason is not None and is_fuzzed(name):
                found.append(f"{EXCUSED}: {kind} {name} is fuzzed and needs no excuse")
            elif reason == "":
                found.append(f"{EXCUSED}: {kind} {name} has no reason")
            elif reason is None and not is_fuzzed(name):
                found.append(f"{kind} {name}: no seed or dictionary of {', '.join(targets)} has it")
    return found + [f"{EXCUSED}: there is no {name}" for name in excuses]


def self_test() -> None:
    for kind, (_, _, targets) in KINDS.items():
        told = problems(ROOT, without=targets)
        assert sum(p.startswith(f"{kind} ") for p in told) >= FEWEST[kind], f"nothing of kind {kind} is missing"
    assert unescaped(r'"a\x0d\"b"') == b'a\r"b'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        self_test()
        return 0
    found = problems(ROOT)
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
