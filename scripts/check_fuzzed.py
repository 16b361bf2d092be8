#!/usr/bin/env python3
"""Fails if something that outsiders can say to the program reaches no fuzzer: a command, a subcommand, a group of
`stats`, a flag of a meta command, an opcode of the binary protocol, a setting of the TOML file, an option of
memcached's; or a surface, a place where it listens, reads a file or a command line. Names are taken from the code that
reads them and from the printed options; a name is fuzzed if a seed or dictionary of a target that reads such input has
it, a surface if scripts/fuzz_surfaces.txt names targets that call what reads it. What is not has its reason in
scripts/fuzz_excused.txt, and nothing else is there. `--self-test` takes away each target, and one name of each kind,
and expects to be told."""

import argparse
import functools
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXCUSED = "scripts/fuzz_excused.txt"
SURFACES = "scripts/fuzz_surfaces.txt"
WORD = re.compile(rb"[a-z][a-z0-9_]*")
META_LINE = re.compile(rb"(?:^|(?<=[^A-Za-z]))m[gsda] +[^ \r\n]+((?: +[^ \r\n\xff]+)+)")
# What brings bytes of others into the program.
READS = re.compile(
    r"\b(?:accept4?|recv(?:mmsg|from)?|readv|mg_start|f?open|getenv|Json::parse|toml::parse|getline"
    r"|SSL_CTX_use_certificate_chain_file)\(|\bifstream\b"
)


@functools.cache
def source(root: Path, *patterns: str) -> str:
    return "\n".join(p.read_text() for pattern in patterns for p in sorted(root.glob(pattern)))


def of_layers(root: Path, pattern: str) -> list[Path]:
    """Files of every layer's folder, by a pattern from there on."""
    return sorted(path for top in ("src", "bench") for path in root.glob(f"{top}/*/{pattern}"))


def unescaped(line: str) -> bytes:
    """An entry of a libFuzzer dictionary."""
    quoted = line[line.index('"') + 1 : line.rindex('"')]
    return re.sub(rb"\\x([0-9a-fA-F]{2})|\\(.)", lambda m: bytes([int(m[1], 16)]) if m[1] else m[2], quoted.encode())


@functools.cache
def inputs(root: Path, *targets: str) -> list[bytes]:
    """Seeds and words of dictionaries of these targets."""
    found: list[bytes] = []
    for target in targets:
        for path in of_layers(root, f"{target}_seeds/*"):
            found.append(path.read_bytes())
        for path in of_layers(root, f"{target}.dict"):
            found += [unescaped(line) for line in path.read_text().splitlines() if line.startswith('"')]
    return found


# --- what there is


@functools.cache
def commands(root: Path) -> set[str]:
    """Names of the table of commands."""
    return set(
        re.findall(r'^  X\(\w+, "([a-z_]+)", Form::(?!none)', source(root, "src/query/opcode.hpp"), re.MULTILINE)
    )


@functools.cache
def text_words(root: Path) -> set[str]:
    """Commands of the text protocol, and words that its parsers compare with what follows them."""
    parsers = source(
        root,
        *(f"src/codec/{name}.cpp" for name in ("text_parser", "config_lines", "admin", "control", "replies_binary")),
        "src/operate/control*.cpp",
        "src/operate/telemetry.cpp",
    )
    words = set(re.findall(r'(?:command|group|words_?\[\d\]|text) == "([a-z_]+)"', parsers))
    words |= set(re.findall(r'\{"([a-z]+)", (?:watch_event|DebugItem)::', parsers))
    words |= set(re.findall(r'last_is\("([a-z]+)"\)', parsers))
    return words | (commands(root) - meta_commands(root))


@functools.cache
def meta_commands(root: Path) -> set[str]:
    return {name for name in commands(root) if re.fullmatch("m[a-z]", name)}


@functools.cache
def meta_flags(root: Path) -> set[str]:
    """Flags that a meta command may have, as their walks and replies name them; of M also what it may say."""
    parser = source(root, "src/codec/meta_parser.cpp")
    code = parser + source(root, "src/codec/meta_flags.*pp", "src/codec/replies_meta.cpp")
    flags = set(re.findall(r"has\('([A-Za-z])'\)", code))
    flags |= set(re.findall(r"case '([A-Za-z])'", code.replace(parser, "")))
    for group in re.findall(r'bits\("([A-Za-z]+)"\)', code):
        flags |= set(group)
    return flags | {f"M{mode}" for mode in re.findall(r"case '([A-Z])':", parser)}


def opcodes(root: Path) -> set[str]:
    codes = re.search(r"\bget = 0x00.*?;", source(root, "src/codec/binary.hpp"), re.DOTALL)
    return {f"{int(value, 16):02x}" for value in re.findall(r"= (0x[0-9a-fA-F]+)", codes[0])} if codes else set()


def settings(root: Path) -> set[str]:
    return set(re.findall(r"^(?:# )?([a-z][a-z0-9-]*) = ", source(root, "deploy/tandem.toml"), re.MULTILINE))


@functools.cache
def memcached_options(root: Path) -> set[str]:
    serve, _, page = source(root, "docs/options.md").partition("## `tandem memcached`")
    table = page[page.index("`-l, --listen") :]
    names = set(re.findall(r"\| `(-o \w+)` \|", serve))
    for cell in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE):
        for name in cell.split(", "):
            names.add(re.split(r"[ =]", name)[0] if not name.startswith("-o ") else name)
    return names


@functools.cache
def surfaces(root: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Of each surface its targets, with what they call, and the files that read it."""
    found = {}
    for line in (root / SURFACES).read_text().splitlines():
        if line and not line.startswith("#"):
            name, targets, files = (part.split() for part in (line + "::").split(":")[:3])
            found[" ".join(name)] = (targets, files)
    return found


@functools.cache
def command_lines(root: Path) -> set[str]:
    return {f"tandem {name}" for name in re.findall(r'\bCommand\{"(\w+)",', source(root, "src/cli/command.cpp"))}


@functools.cache
def readers(root: Path) -> set[str]:
    """Files of the layers that read something from outside, named as in includes."""
    files = [path for end in "ch" for path in of_layers(root, f"**/*.{end}pp") if path.parent.name != "micro"]
    own = re.compile(r"_(?:test|bench|fuzz|fixture|harness|contract)(?:_|\.)")
    return {
        str(path.relative_to(root)).removeprefix("src/")
        for path in files
        if not own.search(path.name) and READS.search(re.sub(r"//.*", "", path.read_text()))
    }


# --- what is fuzzed


def has_words(blobs: list[bytes]) -> Callable[[str], bool]:
    words = {word.decode() for blob in blobs for word in WORD.findall(blob)}
    return lambda name: name in words


def has_flags(blobs: list[bytes]) -> Callable[[str], bool]:
    """Flags stand behind the key of a meta command; in a dictionary each may be an entry, with a space before it. Those
    of M count with what it says, the others with any argument."""
    found = set()
    for blob in blobs:
        words = [word for line in META_LINE.findall(blob) for word in line.split()]
        if re.fullmatch(rb" [A-Za-z][A-Za-z0-9+-]*", blob):
            words.append(blob.strip())
        for word in words:
            first = word[:1].decode(errors="replace")
            found.add(word.decode(errors="replace") if re.fullmatch(rb"M[A-Z]", word) else first)
    return lambda name: name in found or (name == "M" and any(flag.startswith("M") for flag in found))


def has_opcodes(blobs: list[bytes]) -> Callable[[str], bool]:
    """Of whole packets: a header whose lengths fit, and its body."""
    found = set()
    for blob in blobs:
        for start in (match.start() for match in re.finditer(rb"\x80", blob)):
            if len(blob) < start + 24:
                break
            opcode, key_bytes, extras_bytes, body_bytes = struct.unpack_from(">xBHBxxxI", blob, start)
            if key_bytes + extras_bytes <= body_bytes <= len(blob) - start - 24:
                found.add(f"{opcode:02x}")
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


TEXT = ("parser_fuzz", "meta_flags_fuzz", "server_fuzz")
KINDS: dict[str, tuple[Callable[[Path], set[str]], Callable[[list[bytes]], Callable[[str], bool]], tuple[str, ...]]] = {
    "word": (text_words, has_words, TEXT),
    "meta": (meta_commands, has_words, TEXT),
    "flag": (meta_flags, has_flags, TEXT),
    "opcode": (opcodes, has_opcodes, ("server_fuzz",)),  # which executes them
    "setting": (settings, has_settings, ("config_fuzz",)),
    "option": (memcached_options, has_options, ("memcached_fuzz",)),
}
# So many there are: a table that is not recognised any more, or only in part, is not taken for a shorter one.
COUNTS = {"word": 81, "meta": 8, "flag": 32, "opcode": 52, "setting": 86, "option": 114}


def excused(root: Path) -> dict[str, str]:
    """`kind name: reason`, a line each."""
    lines = (root / EXCUSED).read_text().splitlines()
    entries = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return {entry[0]: entry[1] if len(entry) == 2 else "" for entry in entries}


def surface_problems(root: Path, excuses: dict[str, str], without: str = "") -> list[str]:
    found = []
    told = {name: entry for name, entry in surfaces(root).items() if name != without}
    files = {file for _, names in told.values() for file in names}
    found += [f"surface {name}: a command line that {SURFACES} has not" for name in command_lines(root) - set(told)]
    found += [f"surface {name}: a file that reads, and {SURFACES} has it not" for name in readers(root) - files]
    found += [f"{SURFACES}: {name} reads nothing" for name in files - readers(root)]
    for name, (targets, _) in told.items():
        reason = excuses.pop(f"surface {name}", None)
        if targets and reason is not None:
            found.append(f"{EXCUSED}: surface {name} is fuzzed and needs no excuse")
        elif not targets and not reason:
            found.append(f"surface {name}: no target and no reason in {EXCUSED}")
        for target, _, calls in (entry.partition("/") for entry in targets):
            code = "".join(path.read_text() for path in of_layers(root, f"{target}.cpp"))
            if not calls or not re.search(rf"\b{calls}\b", re.sub(r"//.*", "", code)):
                found.append(f"surface {name}: there is no {target} that uses {calls or 'it'}")
    return sorted(found)


def problems(root: Path, without: tuple[str, ...] = (), removed: bytes = b"") -> list[str]:
    """As if `without` were no targets, and no input had the bytes `removed`."""
    excuses, found = excused(root), []
    for kind, (names_of, reach_of, targets) in KINDS.items():
        names = names_of(root)
        if len(names) != COUNTS[kind]:
            found.append(
                f"{len(names)} names of kind {kind} were found, not {COUNTS[kind]}: is their table read whole?"
            )
        blobs = inputs(root, *(t for t in targets if t not in without))
        is_fuzzed = reach_of([blob.replace(removed, b"") for blob in blobs] if removed else blobs)
        for name in sorted(names):
            reason = excuses.pop(f"{kind} {name}", None)
            if reason is not None and is_fuzzed(name):
                found.append(f"{EXCUSED}: {kind} {name} is fuzzed and needs no excuse")
            elif reason == "":
                found.append(f"{EXCUSED}: {kind} {name} has no reason")
            elif reason is None and not is_fuzzed(name):
                found.append(f"{kind} {name}: no seed or dictionary of {', '.join(targets)} has it")
    found += surface_problems(root, excuses)
    return found + [f"{EXCUSED}: there is no {name}" for name in excuses]


# What is to be taken from all inputs so that none has one name.
ONE_OF_EACH = {
    "word": ("hotkeys", b"hotkeys"),
    "meta": ("me", b"me "),
    "flag": ("h", b" h"),
    "opcode": ("24", b"\x80\x24"),
    "setting": ("hot-keys", b"hot-keys = "),
    "option": ("--lock-memory", b"--lock-memory"),
}


def self_test() -> None:
    assert not problems(ROOT), "there is something to mend first"
    for kind, (_, _, targets) in KINDS.items():
        told = problems(ROOT, without=targets)
        assert sum(p.startswith(f"{kind} ") for p in told) >= COUNTS[kind] - 1, f"nothing of kind {kind} is missing"
        name, removed = ONE_OF_EACH[kind]
        told = problems(ROOT, removed=removed)
        assert any(p.startswith(f"{kind} {name}: ") for p in told), f"{kind} {name} is not missed"
    for name, (targets, files) in surfaces(ROOT).items():
        told = surface_problems(ROOT, excused(ROOT), without=name)
        assert not (files or name in command_lines(ROOT)) or told, f"surface {name} is not missed"
        told = surface_problems(ROOT, {})
        assert targets or any(p.startswith(f"surface {name}: ") for p in told), f"surface {name} needs no reason"
    assert readers(ROOT) >= {"worker/acceptor.cpp", "monitor/http_server.cpp", "options/config_file.cpp"}
    flags = has_flags([b"set b 0 0 1\r\nget c f\r\nmg key v\r\nms k 2 T60 MS\r\nstats h", b" q", b" u x", b"E"])
    assert {f for f in "bcfhvTMqstukxE" if flags(f)} == {"v", "T", "M", "q"} and flags("MS") and not flags("MA")
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
