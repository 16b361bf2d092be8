"""What the program prints and refuses, and `tandem serve` with its file."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path

import pytest
from conftest import memcached_binary, tandem_binary
from harness.server import HOST, free_port

from cli.programs import (
    AS_ROOT,
    DEADLINE_S,
    EX_CONFIG,
    EX_NOINPUT,
    EX_OSERR,
    EX_USAGE,
    IS_ROOT,
    ROOT,
    Start,
    answers,
    ask,
    call,
    said,
    settings_of,
    stop,
    tandem,
    wait_serving,
)

needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can change its user")


# --- what is printed --------------------------------------------------------------------------------------------------


def test_version_is_the_projects() -> None:
    """Of which the CMake package takes its own, too."""
    project = re.search(r'version = "([0-9.]+)"', (ROOT / "src/options/version.hpp").read_text())
    assert project is not None
    said = tandem("version").stdout
    commit = r" \(commit [0-9a-f]{12}\+?\)" if (ROOT / ".git").exists() else ""
    assert re.fullmatch(rf"tandem {re.escape(project[1])}{commit}\n", said)
    assert tandem("--version").stdout == said


def test_changelog_ends_with_the_projects_version() -> None:
    """Its newest version, that of the program and the program's date are one."""
    header = (ROOT / "src/options/version.hpp").read_text()
    version, date = (re.search(rf'{name} = "([0-9.-]+)"', header) for name in ("version", "version_date"))
    assert version is not None and date is not None
    released = re.findall(r"^## (\d\S*) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == (version[1], date[1])


def test_help_lists_the_commands() -> None:
    for word in ("help", "--help", "-h"):
        result = tandem(word)
        assert result.returncode == 0
        for command in ("serve", "memcached", "devices", "plans", "calibrate", "options", "version", "help"):
            assert re.search(rf"^  {command} ", result.stdout, re.MULTILINE), result.stdout


def test_help_of_a_command_is_its_own() -> None:
    for command in ("serve", "memcached", "top", "bench", "devices", "plans", "calibrate"):
        assert tandem("help", command).stdout == tandem(command, "--help").stdout != ""
    result = tandem("help", "options")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: tandem options\n")
    assert "did you mean serve?" in tandem("help", "serv").stderr


@pytest.mark.parametrize(
    "arguments", [[], ["no-such-command"], ["version", "x"], ["help", "x"], ["options", "x"], ["devices", "x"]]
)
def test_bad_calls(arguments: list[str]) -> None:
    result = tandem(*arguments)
    assert result.returncode == EX_USAGE
    assert result.stdout == ""
    assert result.stderr != ""


def test_devices_are_listed_or_the_reason_why_there_are_none() -> None:
    result = tandem("devices")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    if lines[0].startswith("cuda: none"):
        assert re.fullmatch(r"cuda: none: \S.+", lines[0]) and len(lines) == 1
    else:
        for number, line in enumerate(lines):
            assert re.fullmatch(rf"cuda {number}: \S.+, \d+\.\d GiB, \d+ multiprocessors", line), line
    assert "tandem devices" in tandem("devices", "--help").stdout


def test_plans_are_listed_by_placement_with_the_reasons_against_others() -> None:
    result = tandem("plans")
    assert (result.returncode, result.stderr) == (0, "")
    for text in ("mega-kv", "placement mirrored-values:", "\n  CPU[RV PP MM] GPU[S] CPU[I D KC RD WR SD]\n"):
        assert text in result.stdout, text
    told = json.loads(tandem("plans", "--json").stdout)
    assert [preset["name"] for preset in told["presets"]] == [
        "cpu",
        "auto",
        "mirrored",
        "mega-kv",
        "memcachedgpu",
        "heterokv",
        "kvcg",
    ]
    feasible = {p["name"]: p["feasible"] for p in told["placements"]}
    assert {name: len(plans) for name, plans in feasible.items()} == {
        "host": 1,
        "mirrored": 3,
        "mirrored-values": 4,
        "on-device": 2,
    }
    assert all(named in feasible for preset in told["presets"] for named in preset["placements"])
    for placement in told["placements"]:
        for other in placement["not_feasible"]:
            assert other["plan"] not in placement["feasible"] and len(other["why"]) > 10, other


@pytest.mark.parametrize(
    ("plan", "status", "text"),
    [
        ("CPU[RV PP MM] GPU[IN] CPU[KC RD WR SD]", 0, "the host's index is the one that changes"),
        ("CPU[RV PP MM] GPU[S]{0:4} CPU[S]{4:} CPU[I D KC RD WR SD]", 0, "the index is in the GPU's memory alone"),
        ("CPU[RV PP MM] GPU[IN KC RD] CPU[WR SD]", 1, "KC on a GPU"),
        ("CPU[RV PP]", EX_USAGE, "plan: MM is missing"),
    ],
)
def test_a_plan_is_explained(plan: str, status: int, text: str) -> None:
    result = tandem("plans", plan)
    assert result.returncode == status
    assert text in result.stdout + result.stderr


def test_committed_docs_are_what_the_program_prints() -> None:
    assert tandem("options").stdout == (ROOT / "docs/options.md").read_text()
    assert tandem("options", "--toml").stdout == (ROOT / "deploy/tandem.toml").read_text()


def test_alias_is_the_memcached_command(alias: Path) -> None:
    for option in ("-h", "--help", "-V", "--version", "-i"):
        ours, same = call(alias, option), tandem("memcached", option)
        assert (ours.returncode, ours.stdout, ours.stderr) == (0, same.stdout, "")
    # Scripts read the first two words.
    reference = call(memcached_binary(), "-V").stdout.split()
    assert call(alias, "-V").stdout.split()[:2] == reference
    assert call(alias, "-h").stdout.split()[:2] == reference


# --- bad options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p"],
        ["-Q"],
        ["--bogus"],
        ["--port"],
        ["-c", "0"],
        ["-c", "-1"],
        ["-t", "0"],
        ["-f", "1"],
        ["-n", "0"],
        ["-R", "0"],
        ["-D", ""],
        ["-B", "foo"],
        ["-S", "-B", "ascii"],
        ["-S", "-B", "auto"],
        ["-S", "-U", "11212"],
        ["-Y", "/etc/hostname", "-B", "binary"],
        ["-Y", "/etc/hostname", "-U", "11212"],
        ["-o", "idle_timeout"],
        ["-I", "1"],
        ["-I", "2000m"],
        ["-m", "0"],
        ["-m", "1"],
        ["-m", "4096", "-I", "1025m"],
        ["-p", "99999"],
    ],
    ids=" ".join,
)
def test_refused_in_memcacheds_words(arguments: list[str], alias: Path) -> None:
    """Same message, same exit code."""
    results = [
        call("memcached", *AS_ROOT, *arguments, executable=str(program)) for program in (memcached_binary(), alias)
    ]
    reference, ours = ((result.returncode, result.stdout, result.stderr) for result in results)
    assert ours == reference


@needs_root
def test_root_has_to_name_a_user(alias: Path) -> None:
    for arguments in ([], ["-u", ""], ["-u", "no_such_user_here"]):
        reference, ours = (call(program, *arguments) for program in (memcached_binary(), alias))
        assert (ours.returncode, ours.stderr) == (reference.returncode, reference.stderr)


@pytest.mark.parametrize(
    "arguments",
    [["-o", "sock_cookie_id"]],
    ids=" ".join,
)
def test_what_would_protect_is_refused_not_ignored(arguments: list[str], alias: Path) -> None:
    result = call(alias, *AS_ROOT, "-p", free_port(), *arguments)
    assert result.returncode == EX_USAGE
    assert "not supported yet" in result.stderr


def test_address_errors(alias: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call(alias, *AS_ROOT, "-l", "127.0.0.1", "-p", port)
        assert result.returncode == EX_OSERR
        assert "Address already in use" in result.stderr and str(port) in result.stderr
        result = tandem("serve", "--port", port, "--udp-port", 0)
        assert result.returncode == EX_OSERR
        assert "Address already in use" in result.stderr and str(port) in result.stderr
    assert call(alias, *AS_ROOT, "-l", "host.invalid", "-p", port).returncode == EX_OSERR
    result = call(alias, *AS_ROOT, "-s", "/nonexistent/folder/socket")
    assert result.returncode == EX_OSERR
    assert "/nonexistent/folder/socket" in result.stderr


def test_a_port_in_use_for_metrics_is_said(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = tandem("serve", "--port", -1, "--metrics", address)
        assert result.returncode == EX_OSERR
        assert result.stderr == f"tandem: metrics on {address}: Address already in use\n"
        unknown = tandem("serve", "--port", -1, "--listen", "host.invalid").stderr
        assert re.fullmatch(r"tandem: cannot listen on host\.invalid: [^:]+\n", unknown)
        everywhere = tandem("serve", "--port", -1, "--metrics", f"*:{taken.getsockname()[1]}")
        assert everywhere.stderr.endswith(": Address already in use\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serv"], 'unknown command "serv"; did you mean serve? (`tandem help` lists them)'),
        (["bench", "laod"], 'bench: unknown command "laod"; did you mean load? (`tandem bench help` lists them)'),
        (["bench", "load", "--therads", "1"], 'bench load: unknown option "--therads"; did you mean --threads?'),
        (["serve", "--prot", "11"], 'serve: unknown option "--prot"; did you mean --port?'),
        (["xyzzy"], 'unknown command "xyzzy" (`tandem help` lists them)'),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(arguments: list[str], message: str) -> None:
    result = tandem(*arguments)
    assert (result.returncode, result.stderr) == (EX_USAGE, f"tandem: {message}\n")


# --- tandem serve -----------------------------------------------------------------------------------------------------


def test_serve_says_what_it_serves(start: Start) -> None:
    port = free_port()
    process = start(tandem_binary(), "serve", "--port", port, "--udp-port", port, "--threads", 2, "--memory", "64MiB")
    wait_serving(process, ("127.0.0.1", port))
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.settimeout(DEADLINE_S)
        udp.sendto(b"\0\1\0\0\0\1\0\0version\r\n", ("127.0.0.1", port))
        assert udp.recv(100)[8:].startswith(b"VERSION ")
    assert not answers(("127.0.0.2", port)), "only 127.0.0.1 by default"
    code, errors = stop(process)
    assert code == 0
    warning = "warning: running as root is not needed: use --user NAME\n" if IS_ROOT else ""
    log, stop_lines = said(errors), "info: stopping: received SIGTERM\ninfo: stopped\n"
    assert log.endswith(warning + stop_lines)
    assert re.fullmatch(
        rf"info: serving on 127\.0\.0\.1:{port} \(TCP, UDP\), 64\.0 MiB, 2 threads, lanes (scalar|avx2|avx512|neon)\n",
        log.removesuffix(warning + stop_lines),
    ), errors


def test_serve_on_any_free_port_says_which(start: Start) -> None:
    as_root = ["--user", "root"] if IS_ROOT else []  # saying so avoids a warning
    process = start(tandem_binary(), "serve", "--port", -1, "--udp-port", 0, *as_root)
    line = process.stderr.readline()
    port = int(re.match(r"info: serving on 127\.0\.0\.1:(\d+) \(TCP\)", said(line))[1])
    assert answers(("127.0.0.1", port))
    code, log = stop(process)
    assert (code, said(log)) == (0, "info: stopping: received SIGTERM\ninfo: stopped\n")


def test_the_log_as_json(start: Start, alias: Path, tmp_path: Path) -> None:
    """Each line from the first to the last is an object with time, level and message, an error that ends a start
    included; what is no text is replaced."""
    port = free_port()
    process = start(alias, *AS_ROOT, "-vv", "-l", HOST, "-p", port, "-N", 2, "-o", "log_format=json")
    wait_serving(process, (HOST, port))
    ask((HOST, port), b'get "quoted"\\ \xff\r\n', b"END\r\n")
    refused = call(tandem_binary(), "serve", "--port", port, "--log-format", "json")
    code, errors = stop(process, signal.SIGUSR1)
    assert (code, refused.returncode) == (0, EX_OSERR)
    lines = [json.loads(line) for line in (errors + refused.stderr).splitlines()]
    assert all(line.keys() == {"time", "level", "message"} for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    texts = [(line["level"], line["message"]) for line in lines]
    for level, text in (("warning", "has no effect"), ("info", f"serving on {HOST}:{port}"), ("debug", 'get "quoted"'),
                        ("info", "Gracefully stopping"), ("error", "Address already in use")):  # fmt: skip
        assert any(level == seen and text in message for seen, message in texts), (level, text, texts)


def test_command_line_over_file_over_default(start: Start, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "t.toml"
    file.write_text(f'port = {port}\nudp-port = 0\nmemory = "32MiB"\nthreads = 3\nflush = false\n')
    process = start(tandem_binary(), "serve", "--config", file, "--threads", 2)
    wait_serving(process, ("127.0.0.1", port))
    settings = settings_of(("127.0.0.1", port))
    assert settings["num_threads"] == "2"
    assert settings["maxbytes"] == str(32 << 20)
    assert settings["maxconns"] == "1024"
    assert not ask(("127.0.0.1", port), b"flush_all\r\n").startswith(b"OK")
    assert stop(process)[0] == 0


def test_example_file_serves(start: Start) -> None:
    port = free_port()
    process = start(tandem_binary(), "serve", "--config", ROOT / "deploy/tandem.toml", "--port", port, "--udp-port", 0)
    wait_serving(process, ("127.0.0.1", port))
    assert stop(process)[0] == 0


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("\nprot = 1\n", EX_CONFIG, '{file}:2: unknown key "prot"'),
        ("port = {port}\nthreads = true\n", EX_CONFIG, "{file}:2: threads: expected an integer from 1 to 1024, got a"),
        ("port = {port}\nmemory = '1xB'\n", EX_CONFIG, "{file}:2: memory: expected a size"),
        ("port = 99999\n", EX_CONFIG, "{file}:1: port: expected an integer from -1 to 65535, got 99999"),
        ("port = {port}\nport = {port}\n", EX_CONFIG, "{file}:2: "),
        ("item-max = '1GiB'\n", EX_USAGE, "{file}:1: item-max: 1GiB is more than half of the memory (1GiB)"),
    ],
)
def test_mistakes_in_the_file_start_nothing(text: str, code: int, message: str, tmp_path: Path) -> None:
    file, port = tmp_path / "t.toml", free_port()
    file.write_text(text.replace("{port}", str(port)))
    result = tandem("serve", "--config", file)
    assert result.returncode == code
    assert result.stderr.startswith("tandem: " + message.replace("{file}", str(file))), result.stderr
    assert not answers(("127.0.0.1", port))


def test_missing_file() -> None:
    result = tandem("serve", "--config", "/nonexistent/tandem.toml")
    assert result.returncode == EX_NOINPUT
    assert result.stderr == "tandem: /nonexistent/tandem.toml: No such file or directory\n"
