"""Reads and checks documents of the format `tandem-bench/1` (docs/bench-format.md). Anything not
in that page is refused, with the file and the key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

FORMAT = "tandem-bench/1"
KINDS = ("load", "engine", "memory", "restart")
TASKS = ("RV", "PP", "MM", "IN", "KC", "RD", "WR", "SD")
ERROR_COUNTS = ("wrong_values", "wrong_replies", "unexpected_misses", "timeouts", "connection")
NUMBER_MAX = 2**64
PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9", "p99.99")


class DocumentError(Exception):
    """Not a document, or not of this format; the message names the file and the key."""


Check = Callable[[Any, str], None]


def fail(key: str, wanted: str, found: Any) -> None:
    shown = json.dumps(found, ensure_ascii=True)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    raise DocumentError(f"{key}: expected {wanted}, found {shown}")


def text(value: Any, key: str) -> None:
    if not isinstance(value, str):
        fail(key, "a string", value)


def flag(value: Any, key: str) -> None:
    if not isinstance(value, bool):
        fail(key, "true or false", value)


def is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= NUMBER_MAX if isinstance(value, int) else math.isfinite(value)


def number(value: Any, key: str) -> None:
    if not is_number(value):
        fail(key, "a number", value)


def amount(value: Any, key: str) -> None:
    if not is_number(value) or value < 0:
        fail(key, "a number of 0 or more", value)


def count(value: Any, key: str) -> None:
    if not is_number(value) or value < 0 or value != int(value):
        fail(key, "a whole number of 0 or more", value)


def or_null(check: Check) -> Check:
    def checked(value: Any, key: str) -> None:
        if value is not None:
            check(value, key)

    return checked


def one_of(*words: str) -> Check:
    def checked(value: Any, key: str) -> None:
        if value not in words:
            fail(key, "one of " + ", ".join(words), value)

    return checked


def scalar(value: Any, key: str) -> None:
    if not isinstance(value, (str, bool)) and not is_number(value):
        fail(key, "a string, a number, true or false", value)


def list_of(check: Check) -> Check:
    def checked(value: Any, key: str) -> None:
        if not isinstance(value, list):
            fail(key, "a list", value)
        for i, element in enumerate(value):
            check(element, f"{key}[{i}]")

    return checked


def table_of(check: Check) -> Check:
    """A table with any keys and values of one kind."""

    def checked(value: Any, key: str) -> None:
        if not isinstance(value, dict):
            fail(key, "an object", value)
        for name, element in value.items():
            check(element, f"{key}.{name}")

    return checked


def record(required: dict[str, Check], optional: dict[str, Check]) -> Check:
    known = required | optional

    def checked(value: Any, key: str) -> None:
        where = key + "." if key else ""
        if not isinstance(value, dict):
            fail(key or "the document", "an object", value)
        for name in required:
            if name not in value:
                raise DocumentError(f"{where}{name}: missing")
        for name, element in value.items():
            if name not in known:
                raise DocumentError(f"{where}{name}: unknown key; {FORMAT} has {', '.join(sorted(known))} here")
            known[name](element, where + name)

    return checked


def started(value: Any, key: str) -> None:
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
        fail(key, "a time such as 2026-01-31T12:00:00Z", value)


LATENCY = record({"count": count}, dict.fromkeys(("min", "mean", *PERCENTILES, "max"), amount))


def latency(value: Any, key: str) -> None:
    LATENCY(value, key)
    known = [(name, value[name]) for name in ("min", *PERCENTILES, "max") if name in value]
    for (low, a), (high, b) in pairwise(known):
        if a > b:
            raise DocumentError(f"{key}.{high}: {b} is less than {low}, {a}")


def histogram(value: Any, key: str) -> None:
    record({"unit": one_of("us"), "upper": list_of(amount), "counts": list_of(count)}, {})(value, key)
    upper, counts = value["upper"], value["counts"]
    if len(upper) != len(counts):
        raise DocumentError(f"{key}.counts: {len(counts)} of them for {len(upper)} bounds")
    for i in range(1, len(upper)):
        if upper[i] <= upper[i - 1]:
            raise DocumentError(f"{key}.upper[{i}]: {upper[i]} is not more than the bound before, {upper[i - 1]}")


def point(value: Any, key: str) -> None:
    record({"x": scalar, "y": number}, {"low": number, "high": number, "runs": list_of(count)})(value, key)


ENERGY_MEASURED = record({"source": text, "joules": amount}, {"uj_per_op": amount, "seconds": amount})
ENERGY_MISSING = record({"unavailable": text}, {})


def energy(value: Any, key: str) -> None:
    missing = isinstance(value, dict) and "unavailable" in value
    (ENERGY_MISSING if missing else ENERGY_MEASURED)(value, key)


ERRORS = record({}, {**dict.fromkeys(ERROR_COUNTS, count), "first": text})
SERVER = record(
    {},
    dict.fromkeys(("cpu_us_per_op", "sleeps_per_op", "cpu_share", "foreign_share"), amount) | {"resident_bytes": count},
)
TASK = record(
    {"task": text},
    {
        "processor": text,
        "ns_per_query": amount,
        "share": amount,
        "cache_misses_per_query": or_null(amount),
    },
)
MEMORY = record(
    {"items": count, "resident_bytes": count},
    {
        **dict.fromkeys(("limit_bytes", "resident_bytes_empty", "evictions"), count),
        **dict.fromkeys(("item_bytes", "items_per_gib", "bytes_per_item"), amount),
        "overhead_bytes_per_item": number,
    },
)
TIMELINE = list_of(record({"t": amount}, dict.fromkeys(("ops_per_s", "mean", *PERCENTILES, "max"), amount)))
KEY_CLASS = record(
    {"share": amount},
    {"keys": count, "latency_us": latency, "histogram": histogram, "timeline": TIMELINE},
)
RESULT = record(
    {},
    {
        "seconds": amount,
        **dict.fromkeys(("ops", "gets", "hits", "misses", "sets", "evictions", "bytes_sent", "bytes_received"), count),
        "ops_per_s": amount,
        **dict.fromkeys(("scan_items", "scans_cut", "scan_missing_keys"), count),
        "scan_items_per_s": amount,
        "other": table_of(count),
        "errors": ERRORS,
        "latency_us": latency,
        "latency_by_op": table_of(latency),
        "histogram": histogram,
        "send_lag_us": latency,
        "timeline": TIMELINE,
        "hot": KEY_CLASS,
        "cold": KEY_CLASS,
        "planner": table_of(or_null(scalar)),
        "server": SERVER,
        "client_cpu_us_per_op": amount,
        "energy": energy,
        "tasks": list_of(TASK),
        "memory": MEMORY,
        "device": record(
            {"searched": count},
            {
                **dict.fromkeys(("launches", "batches", "refused_batches", "answered"), count),
                "us": amount,
                "left": record({}, dict.fromkeys(("item", "length", "room", "other"), count)),
            },
        ),
        "background": record({"kernels": count, "priority": text, "began_s": amount, "seconds": amount}, {}),
        "cpu_share": amount,
        "batches": count,
        "batch_us": amount,
        "ns_per_op": amount,
        "verified": count,
        "other_keys": count,
        "cache_misses": list_of(record({"tasks": list_of(text), "per_query": amount}, {})),
        "phases": list_of(record({"workload": text, "ops": count}, {})),
    },
)
RUN = record(
    {"kind": one_of(*KINDS), "cell": text, "subject": text, "command": text, "result": RESULT},
    {
        "phase": text,
        "void": text,
        "place": count,
        "server_command": text,
        "round": count,
        "seed": count,
        "settings": table_of(or_null(scalar)),
    },
)
COMPARISON = record(
    {
        "cell": text,
        "metric": text,
        "subject": text,
        "base": text,
        "ratio": record({"median": amount}, {"low": amount, "high": amount}),
        "better": one_of("less", "more"),
    },
    {"rounds": count, "phase": text, "goal": amount},
)
SEARCH = record(
    {"cell": text, "subject": text, "percentile": amount, "limit_us": amount, "highest_rate": or_null(amount)},
    {
        "tried": list_of(count),
        "end": text,
        "lowest_failed": amount,
        "void_reason": text,
        "tolerance": amount,
        "trials": count,
        "void": count,
    },
)
SERIES = record({"name": text, "points": list_of(point)}, dict.fromkeys(("source", "y", "unit"), text))
FIGURE = record(
    {"paper": text, "figure": text, "title": text, "series": list_of(SERIES)},
    {**dict.fromkeys(("x", "y", "unit", "section", "machine"), text), "missing": list_of(text)},
)
MACHINE = record(
    {},
    {
        "cpu": text,
        **dict.fromkeys(("processors", "cores", "threads_per_core", "sockets", "memory_bytes"), count),
        "kernel": text,
        "os": text,
        "caches": table_of(count),
        "governor": or_null(text),
        "gpus": list_of(text),
        "load_average": amount,
        "virtual_machine": flag,
        "huge_pages": or_null(text),
    },
)
DOCUMENT = record(
    {"format": text, "command": text, "version": text, "started": started, "machine": MACHINE, "runs": list_of(RUN)},
    {
        "commit": text,
        "notes": list_of(text),
        "comparisons": list_of(COMPARISON),
        "searches": list_of(SEARCH),
        "figures": list_of(FIGURE),
    },
)


def check_runs_exist(document: dict) -> None:
    """Checks that references to runs are valid."""
    last = len(document["runs"]) - 1

    def check(numbers: list[int], key: str) -> None:
        for i, index in enumerate(numbers):
            if index > last:
                raise DocumentError(f"{key}[{i}]: there is no run {index}; the last one is {last}")

    for i, search in enumerate(document.get("searches", [])):
        check(search.get("tried", []), f"searches[{i}].tried")
    for i, figure in enumerate(document.get("figures", [])):
        for j, series in enumerate(figure["series"]):
            for k, element in enumerate(series["points"]):
                check(element.get("runs", []), f"figures[{i}].series[{j}].points[{k}].runs")


def no_twins(pairs: list[tuple[str, Any]]) -> dict:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise DocumentError(f"{twin}: twice in one object")
    return result


def no_constant(name: str) -> None:
    raise DocumentError(f"{name} is no JSON number")


def parse(data: bytes) -> dict:
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=no_twins, parse_constant=no_constant)
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8: byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise DocumentError(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise DocumentError(f"not JSON that can be read: {error}") from error
    if not isinstance(document, dict) or "format" not in document:
        raise DocumentError(f"format: missing; this is no document of {FORMAT}")
    if document["format"] != FORMAT:
        fail("format", json.dumps(FORMAT), document["format"])
    DOCUMENT(document, "")
    check_runs_exist(document)
    return document


def read(path: str) -> dict:
    """Raises OSError if the file cannot be read, DocumentError if it is invalid."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        return parse(data)
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error
