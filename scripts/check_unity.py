#!/usr/bin/env python3
"""Fails on a name that means another thing in a unity build (TANDEM_UNITY), where the sources of a layer are one
translation unit and their anonymous namespaces are one, too:

- a name that the anonymous namespaces of two sources define, but for two aliases of the same type;
- a name that one source defines for itself (in an anonymous namespace, as a static function, a constant, a type or a
  macro) and another one uses without a declaration that C++'s lookup finds first: a local variable or a parameter of
  that function, a member of that class, or a name of a namespace further in.

Universal Ctags reads the definitions. All sources of a layer count, and all of its tests: which of them CMake compiles
together changes with their number. Members are known by the name of their class alone. `--self-test` plants each
violation."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Programs of their own, and what cmake/TandemTargets.cmake compiles apart.
APART = re.compile(r"_(?:bench|fuzz)\.cpp$|/main\.cpp$|/codec/(?:packet_parser|replies_binary)\.cpp$")
BLANK = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*(?:.|\n)*?\*/')
WORD = re.compile(r"(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*")
# A declaration that Ctags does not see (of a lambda, or with parentheses), in the one format of the sources.
LOCAL = re.compile(r"(?=(\b\w+|(?<! )>|\])[&*]* (?:[A-Za-z_]\w*(?: = [^,;]*)?, )*?([A-Za-z_]\w*)(?:[ =:;,()\[{]|$))")
NO_TYPE = {"return", "else", "case", "throw", "new", "delete", "goto", "typename", "co_return", "co_yield", "co_await"}
NO_TYPE |= {"and", "or", "not", "namespace", "using"}
TEST = re.compile(r"TEST_[FP]\((\w+)")
GTEST = re.compile(r"(?:TYPED_|INSTANTIATE_|REGISTER_)?(?:TYPED_)?TEST(?:_F|_P|_SUITE\w*)?")
CLASSES, FUNCTIONS, INNER = {"class", "struct", "union"}, {"function", "prototype"}, {"local", "parameter", "tparam"}
TYPES = {*CLASSES, "enum", "typedef"}
NO_DEFINITIONS = {*INNER, "label", "namespace", "using", "header", "externvar"}
Names = tuple[str, ...]


@dataclass
class Tag:
    name: str
    kind: str
    scope: Names  # without anonymous parts
    scope_kind: str
    anonymous: bool  # its innermost scope is an anonymous namespace
    line: int
    end: int
    text: str  # of its line
    bases: list[str]

    def has(self, line: int) -> bool:
        return self.line <= line <= self.end

    def is_own(self) -> bool:
        """Whether its source alone means it."""
        if GTEST.fullmatch(self.name) or self.name.startswith("__anon"):
            return False
        if self.kind == "macro":
            return True
        if self.scope_kind not in {"namespace", ""} or self.kind in NO_DEFINITIONS:
            return False
        words = ("static ",) if self.kind in FUNCTIONS else ("static ", "constexpr ", "const ")
        return self.anonymous or self.kind in TYPES or self.text.startswith(words)


@dataclass
class Source:
    path: Path
    tags: list[Tag] = field(default_factory=list)
    uses: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    locals: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    own: dict[str, list[Tag]] = field(default_factory=lambda: defaultdict(list))
    named: dict[str, list[Tag]] = field(default_factory=lambda: defaultdict(list))

    def read(self, declared: set[tuple[Names, str]]) -> None:
        """declared: what headers do."""
        text = re.sub(r"(?<=\d)'(?=\d)", "", self.path.read_text())
        text = BLANK.sub(lambda m: '""' + "\n" * m[0].count("\n"), text)
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("#"):
                continue
            for before, name in LOCAL.findall(line):
                if before not in NO_TYPE:
                    self.locals[name].append(number)
            for match in WORD.finditer(re.sub(r"\s*(\.|->|::)\s*(?=[A-Za-z_])", r"\1", line)):
                self.uses[match[0]].append(number)
        for tag in self.tags:
            self.named[tag.name].append(tag)
            if tag.is_own() and (tag.anonymous or (tag.scope, tag.name) not in declared):
                self.own[tag.name].append(tag)

    def innermost(self, line: int, kind: str) -> Tag | None:
        around = [tag for tag in self.tags if tag.kind == kind and tag.has(line)]
        if kind == "function":
            around = [tag for tag in around if not tag.name.startswith("__anon")]  # lambdas
        return min(around, key=lambda tag: tag.end - tag.line, default=None)

    def namespace_at(self, line: int) -> Names:
        tag = self.innermost(line, "namespace")
        if tag is None:
            return ()
        return tag.scope if tag.name.startswith("__anon") else (*tag.scope, *tag.name.split("::"))

    def hides(self, name: str, line: int, scope: Names, members: dict[str, set[str]]) -> bool:
        """Whether lookup from that line ends before it comes to the namespace."""
        here = self.namespace_at(line)
        inner = [tag.line for tag in self.named[name] if tag.kind in INNER or tag.scope_kind == "function"]
        for at in inner + self.locals[name]:
            around = self.innermost(at, "function")
            if at == line or (around and around.has(line) and at <= line):
                return True
        for tag in self.named[name]:
            further_in = tag.scope_kind == "namespace" and tag.kind != "namespace" and len(tag.scope) > len(scope)
            if further_in and here[: len(tag.scope)] == tag.scope:
                return True
        classes = {tag.name for tag in self.tags if tag.kind in CLASSES and tag.has(line)}
        if function := self.innermost(line, "function"):
            classes |= set(function.scope) if function.scope_kind in CLASSES else set()
            classes |= set(TEST.findall(function.text))
        return any(name in members[one] for one in classes)


def read_tags(paths: list[Path]) -> dict[Path, list[Tag]]:
    command = ["ctags", "--languages=C++", "--langmap=C++:.cpp.hpp", "--kinds-C++=+plzZxU", "--fields=+nKseiZ"]
    command += ["--extras=+r", "--output-format=json", "-f", "-", "-L", "-"]
    run = subprocess.run(command, input="\n".join(map(str, paths)), text=True, capture_output=True, check=True)
    tags: dict[Path, list[Tag]] = defaultdict(list)
    for line in run.stdout.splitlines():
        one = json.loads(line)
        parts = [part for part in one.get("scope", "").split("::") if part]
        scope_kind, at = one.get("scopeKind", ""), one.get("line", 0)
        anonymous = scope_kind == "namespace" and parts[-1].startswith("__anon")
        scope = tuple(part for part in parts if not part.startswith("__anon"))
        bases = [re.sub(r"<.*", "", base).split("::")[-1] for base in one.get("inherits", "").split(",") if base]
        text = one.get("pattern", "")[2:-2].strip()
        tag = Tag(one["name"], one["kind"], scope, scope_kind, anonymous, at, one.get("end", at), text, bases)
        tags[Path(one["path"])].append(tag)
    return tags


def members_of(tags: list[Tag]) -> dict[str, set[str]]:
    """The members of each class, by its name, with those of its bases."""
    members: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for tag in tags:
        if tag.scope_kind in CLASSES and tag.scope:
            members[tag.scope[-1]].add(tag.name)
        bases[tag.name] |= set(tag.bases)
    for name in list(bases):
        seen, waiting = {name}, bases[name]
        while waiting := waiting - seen:
            members[name] |= {member for base in waiting for member in members[base]}
            seen |= waiting
            waiting = {base for one in waiting for base in bases.get(one, ())}
    return members


def clashes(sources: list[Source], headers: list[Tag]) -> list[str]:
    members = members_of(headers + [tag for source in sources for tag in source.tags])
    opened = {tag.name.split("::")[-1] for source in sources for tag in source.tags if tag.kind == "using"}
    found = []
    for a in sources:
        for name, tags in a.own.items():
            tag, where = tags[0], f"{a.path}:{tags[0].line}"
            for b in (source for source in sources if source is not a and name in source.uses):
                twin = next((other for other in b.own.get(name, []) if other.scope == tag.scope), None)
                if twin is not None:
                    same = twin.kind == tag.kind == "typedef" and twin.text == tag.text
                    if a.path < b.path and not same:
                        found.append(f"{where}: {name} is defined in {b.path}:{twin.line}, too")
                    continue
                for line in b.uses[name]:
                    visible = b.namespace_at(line)[: len(tag.scope)] == tag.scope or opened & set(tag.scope[-1:])
                    if visible and not b.hides(name, line, tag.scope, members):
                        found.append(f"{b.path}:{line}: {name} is that of {where} in a unity build")
                        break
    return found


def groups_of(root: Path) -> dict[str, list[Path]]:
    """The sources that a unity build may compile together."""
    groups: dict[str, list[Path]] = defaultdict(list)
    layers = [line.partition(":")[0].strip() for line in (root / "cmake/layers.txt").read_text().splitlines()]
    for layer in (line for line in layers if line and not line.startswith("#")):
        folder = root / (layer if layer.startswith("bench/") else f"src/{layer}")
        for path in sorted(folder.rglob("*.cpp")):
            if not APART.search(str(path)):
                groups[layer + (" tests" if path.name.endswith("_test.cpp") else "")].append(path)
    groups["recorder"] = sorted((root / "tests/linearizability/recorder").glob("*.cpp"))
    return groups


def read(root: Path) -> tuple[list[list[Source]], list[Tag]]:
    groups = groups_of(root)
    headers = sorted(path for top in ("src", "include", "bench") for path in (root / top).rglob("*.hpp"))
    tags = read_tags([path for group in groups.values() for path in group] + headers)
    header_tags = [tag for path in headers for tag in tags[path]]
    declared = {(tag.scope, tag.name) for tag in header_tags}
    sources = [[Source(path, tags[path]) for path in group] for group in groups.values()]
    for source in (source for group in sources for source in group):
        source.read(declared)
    return sources, header_tags


def problems(root: Path) -> list[str]:
    groups, headers = read(root)
    return [text.replace(f"{root}/", "") for group in groups for text in clashes(group, headers)]


HEADER = "namespace tandem {\nnamespace paper {\nvoid figure_16(int run);\n}\nstruct A {\n  int count() const;\n};\n}\n"
DEFINES = "namespace tandem {\nnamespace {\n\nTEXT\n\n}  // namespace\n}  // namespace tandem\n"
PLANTED = {  # what a.cpp defines for itself, what b.cpp has, how many faults these are
    "a function that a header has further out": ("void figure_16(int run) {}", "int x = figure_16(1);", 1),
    "a function of another signature": ("void fail(int a) {}", "void fail(double a, int b) {}", 1),
    "a constant": ("constexpr int limit = 3;", "int x() { return limit; }", 1),
    "a comparison with >": ("constexpr int limit = 3;", "bool x(int y) { return y > limit; }", 1),
    "a type": ("struct Rig {\n  int a;\n};", "struct Rig {\n  long a;\n};", 1),
    "a type that is used": ("struct Rig {\n  int a;\n};", "Rig* rig();", 1),
    "two types of one name": ("using Map = int;", "using Map = long;", 1),
    "an alias of the same": ("using Map = int;", "using Map = int;", 0),
    "a template": ("template <class T>\nT put(T to) {\n  return to;\n}", "int x(int a) { return put(a); }", 1),
    "a local variable": ("int count() { return 1; }", "int x(int y) {\n  const int count = y;\n  return count;\n}", 0),
    "a local variable of another function": (
        "int count() { return 1; }",
        "int x(int y) {\n  const int count = y;\n  return count;\n}\nint z() {\n  return count();\n}",
        1,
    ),
    "a parameter": ("int count() { return 1; }", "int x(int count) { return count; }", 0),
    "a lambda": ("int fail() { return 1; }", "int x(int y) {\n  const auto fail = [&](int a) {};\n  fail(y);\n}", 0),
    "a member": ("int count() { return 1; }", "int A::twice() const { return 2 * count(); }", 0),
    "a member of another": ("int count() { return 1; }", "int B::twice() const { return 2 * count(); }", 1),
    "a member by its object": ("int count() { return 1; }", "int x(const A& a) { return a.count(); }", 0),
    "a qualified name": ("void figure_16(int run) {}", "int x() { paper::figure_16(1); }", 0),
    "a comment and a text": ("void count() {}", 'const char* x() { return "count"; }  // count', 0),
    "a namespace further in": ("void fail() {}", "namespace paper {\nvoid fail() {}\nvoid x() { fail(); }\n}", 0),
    "a macro": ("#define TWICE(x) (2 * (x))", "int x() { return TWICE(1); }", 1),
}


def self_test() -> list[str]:
    failures = []
    for name, (a, b, count) in PLANTED.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for file, text in {
                "cmake/layers.txt": "# lowest first\nnet: base\n",
                "src/net/a.hpp": HEADER,
                "src/net/a.cpp": DEFINES.replace("TEXT", a),
                "src/net/b.cpp": DEFINES.replace("TEXT", b),
                "src/net/b_test.cpp": DEFINES.replace("TEXT", a),
                "src/net/main.cpp": DEFINES.replace("TEXT", a),
            }.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text)
            if len(found := problems(root)) != count:
                failures.append(f"self-test '{name}': {found}")
    own = sum(len(source.own) for group in read(ROOT)[0] for source in group)
    if own < 1500:
        failures.append(f"self-test: the sources define {own} names: is the format another?")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    found = self_test() if parser.parse_args().self_test else problems(ROOT)
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
