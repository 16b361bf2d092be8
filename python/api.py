#!/usr/bin/env python3
"""Prints docs/python-api.md: every public name of the package with its signature and docstring, read from the stub and
the sources without importing them. `python3 python/api.py >docs/python-api.md`"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "tandem"
WIDTH = 120

INTRODUCTION = """\
# Python: every call

Made from the docstrings by `python3 python/api.py`. [python.md](python.md) is the way in. Methods that do what their
interface says (a mapping's, Django's, cachelib's) are left out.
"""
# Heading, file, and the names of it that are shown, in order.
PARTS = [
    ("tandem", "_core.pyi", ["Store"]),
    ("tandem", "_types.py", ["Item", "Stats"]),
    ("tandem", "cache.py", ["Cache"]),
    ("tandem", "server.py", ["Server", "ServerError"]),
    ("tandem", "_types.py", ["Error", "Closed", "Forked", "Full", "TooLarge", "TooManyThreads"]),
    ("tandem.serde", "serde.py", ["Serializer", "Pickle", "Json", "Msgpack", "DecodeError", "serializer"]),
    ("tandem.contrib.django", "contrib/django.py", ["TandemCache", "StoreCache"]),
    ("tandem.contrib.cachelib", "contrib/cachelib.py", ["TandemCache"]),
    (
        "tandem.pytest_plugin",
        "pytest_plugin.py",
        ["tandem_server", "tandem_url", "tandem_client", "tandem_store"],
    ),
]
ALIASES = {"Ttl": "float | timedelta | None", "KeyOf": "Callable[..., str]"}


def definitions(file: str) -> dict[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    body = ast.parse((PACKAGE / file).read_text()).body
    return {node.name: node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))}


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {ast.unparse(each).split("(")[0].rpartition(".")[2] for each in node.decorator_list}


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """As it is called: without self, and without a word on annotations' modules."""
    arguments = ast.unparse(node.args)
    for first in ("self, /, ", "self, /", "self, ", "self", "cls, "):
        if arguments.startswith(first):
            arguments = arguments[len(first) :]
            break
    if "property" in decorators(node):
        text = f"{node.name}: {ast.unparse(node.returns) if node.returns else 'Any'}"
    else:
        start = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
        text = f"{start}{node.name}({arguments})"
        if node.returns is not None and ast.unparse(node.returns) != "None":
            text += f" -> {ast.unparse(node.returns)}"
    for module in ("collections.abc.", "datetime.", "typing.", "tandem._types.", "types.", "os."):
        text = text.replace(module, "")
    for alias, meaning in ALIASES.items():
        text = re.sub(rf"\b{alias}\b", meaning, text)
    return text


def paragraphs(node: ast.AST, indent: str) -> str:
    text = ast.get_docstring(node) or ""  # type: ignore[arg-type]
    parts = (text.split("\n\n")) if text else []
    filled = [
        part if part.lstrip().startswith("- ") else textwrap.fill(" ".join(part.split()), WIDTH - len(indent))
        for part in parts
    ]
    return textwrap.indent("\n\n".join(filled), indent)


def is_shown(node: ast.AST) -> bool:
    return (
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not node.name.startswith("_")
        and not decorators(node) & {"overload", "setter"}
    )


def fields(node: ast.ClassDef) -> list[str]:
    """Of a NamedTuple."""
    return [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign)]


def of_class(name: str, node: ast.ClassDef) -> list[str]:
    bases = [ast.unparse(base).rpartition(".")[2].split("[")[0] for base in node.bases]
    init = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    lines = [f"### {name}", ""]
    if "NamedTuple" in bases:
        lines += [f"`{name}({', '.join(fields(node))})`", ""]
    elif init is not None:
        lines += [f"`{name}{signature(init).removeprefix('__init__')}`", ""]
    elif errors := [base for base in bases if base.endswith(("Error", "Exception"))]:
        lines += [f"`class {name}({', '.join(errors)})`", ""]
    for text in (paragraphs(node, ""), *(paragraphs(each, "") for each in node.body if is_init(each))):
        if text:
            lines += [text, ""]
    for each in node.body:
        if is_shown(each) and (told := paragraphs(each, "  ")):
            assert isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
            lines += [f"- `{signature(each)}`", "", told, ""]
    return lines


def is_init(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


def page() -> str:
    lines = [INTRODUCTION]
    module = ""
    for heading, file, names in PARTS:
        if heading != module:
            module = heading
            lines += [f"## {module}", ""]
            text = ast.parse((PACKAGE / file).read_text()) if module != "tandem" else None
            if text is not None and (told := paragraphs(text, "")):
                lines += [told, ""]
        found = definitions(file)
        for name in names:
            node = found[name]
            if isinstance(node, ast.ClassDef):
                lines += of_class(name, node)
            elif "fixture" in decorators(node):
                lines += [f"### {name}", "", f"A fixture: `{ast.unparse(node.returns) if node.returns else ''}`.", ""]
                lines += [paragraphs(node, ""), ""]
            else:
                lines += [f"### {name}", "", f"`{signature(node)}`", "", paragraphs(node, ""), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
