#!/usr/bin/env python3
"""Fails on committed text with a machine's own path or private address, trailing blanks, tabs in sources or no final
newline; on a relative link in *.md that leads nowhere; and on a command in a ```sh block of *.md that does not exist.
`--self-test` plants each violation and expects it to be found."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BANNED = {
    "a path of one machine": re.compile(r"(?<![\w.-])/(?:work|root|home/\w+|Users)/"),
    "a private host": re.compile(r"https?://[\w.-]+\.(?:internal|intranet|corp|lan|local)\b"),
    "a private address": re.compile(r"\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"),
    "trailing blanks": re.compile(r"[ \t]+$"),
}
SELF = "scripts/check_text.py"  # its patterns would find themselves
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
ENV = re.compile(r"[A-Za-z_]\w*=\S*")
# Programs that a reader's machine has and the one that checks may lack.
ELSEWHERE = {
    "journalctl",
    "editor",
    "useradd",
    "sudo",
    "apt-get",
    "telnet",
    "docker",
    "helm",
    "kubectl",
    "systemctl",
    "perf",
    "nc",
    "pip",
    "curl",
    "cmake",
    "memcached",
}


def anchors(text: str) -> set[str]:
    """The anchors that the headings of a page get."""
    headings = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(root: Path, path: Path, text: str) -> list[str]:
    problems = []
    for target in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file) if file else path
        if not linked.exists():
            problems.append(f"{path.relative_to(root)}: link to {target}: no such file")
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked.read_text()):
            problems.append(f"{path.relative_to(root)}: link to {target}: no such heading")
    return problems


def check_commands(root: Path, path: Path, text: str, targets: set[str]) -> list[str]:
    problems = []
    for block in re.findall(r"^```(?:sh|bash)\b.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        block = re.sub(r"<<-?\s*'?(\w+)'?.*?\n\1\n", "\n", block, flags=re.DOTALL)  # here documents
        for line in re.sub(r"\\\n", " ", block).splitlines():
            words = re.sub(r"(^|\s)#.*", "", line).removeprefix("$ ").split()
            while (words and ENV.fullmatch(words[0])) or words[:1] == ["sudo"]:
                words.pop(0)
            if not words:
                continue
            command = words[0]
            if command == "make":
                goals = {w for w in words[1:] if re.fullmatch(r"[a-z][\w-]*", w)}
                known = goals <= targets
            elif "/" in command:
                known = command.startswith(("build/", "./build/")) or (root / command).exists()
            else:
                builtin = subprocess.run(["bash", "-c", f"type {command!r}"], capture_output=True).returncode == 0
                known = builtin or command in ELSEWHERE or shutil.which(command) is not None
            if not known:
                problems.append(f"{path.relative_to(root)}: command does not exist: {' '.join(words)}")
    return problems


def check(root: Path, files: list[str]) -> list[str]:
    makefile = root / "Makefile"
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile.read_text(), re.MULTILINE)) if makefile.exists() else set()
    problems = []
    for name in files:
        path = root / name
        if name == SELF or path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" in data or "_seeds/" in name:
            continue  # fuzz seeds may be any bytes
        text = data.decode(errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            for what, pattern in BANNED.items():
                if pattern.search(line):
                    problems.append(f"{name}:{number}: {what}: {line.strip()[:80]}")
        if text and not text.endswith("\n"):
            problems.append(f"{name}: no newline at the end")
        if path.suffix in {".hpp", ".cpp", ".cu", ".cuh", ".py"} and "\t" in text:
            problems.append(f"{name}: has a tab")
        if path.suffix == ".md":
            problems += check_links(root, path, text) + check_commands(root, path, text, targets)
    return problems


def self_test() -> list[str]:
    good = "# A page\n[here](#a-page) [there](b.txt)\n```sh\nX=1 make all  # comment\ncat <<E | wc\nnone\nE\n```\n"
    bad = {
        "path": "see /ro" + "ot/x\n",
        "host": "http://a.cor" + "p/x\n",
        "address": "10." + "1.2.3\n",
        "blanks": "a \n",
        "no newline": "a",
        "link": "[x](c.txt)\n",
        "heading": "[x](#b)\n",
        "command": "```sh\nno_such_command\n```\n",
        "goal": "```sh\nmake nothing\n```\n",
    }
    failures = []
    for name, text in {"good": good, **bad}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "Makefile").write_text("all:\n")
            (root / "b.txt").write_text("")
            (root / "a.md").write_text(text)
            found = check(root, ["a.md", "b.txt"])
            if len(found) != (name != "good"):
                failures.append(f"self-test '{name}': found {found}")
    return failures


def committed(root: Path) -> list[str]:
    """Tracked files and new ones that are not ignored; every file where the tree is no git checkout."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (root / ".git").exists() and shutil.which("git"):
        return sorted(set(subprocess.check_output(git, text=True).split("\0")) - {""})
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    skipped = {"build", "shared", "__pycache__"}
    return sorted(str(f) for f in files if not skipped & set(f.parts) and not f.parts[0].endswith(("cache", ".git")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true")
    problems = self_test() if parser.parse_args().self_test else check(ROOT, committed(ROOT))
    print(*problems, sep="\n", end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
