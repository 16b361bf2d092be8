#!/usr/bin/env python3
"""What a memcached server costs: its CPU time per operation, and its tail latency at a given rate.

Tandem, memcached and a bare server (the floor: `tandem bench floor`) run at the same time, pinned to one core; the load
generator (`tandem bench load`), pinned to another, loads them in turn, A B C A B C, in short slices,
so that whatever else the machine does meets all of them. It spins, so no server pays for waking it. The figure is the
server process's CPU time (user + system, all threads) over the operations done: on a shared machine it holds where
rates do not. Ratios are taken within a round, then their median.

    python3 bench/server_bench.py                        # all cells
    python3 bench/server_bench.py --quick                # a look, under a minute
    python3 bench/server_bench.py --cells 'text-*' --rounds 9 --json text.json
    python3 bench/server_bench.py --render text.json udp.json
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fnmatch
import json
import os
import platform
import pwd
import random
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOOR = "floor"
TANDEM = "tandem"


@dataclass(frozen=True)
class Cell:
    """A kind of load, and the most that Tandem may cost there as a multiple of the floor."""

    name: str
    goal: float
    load: tuple[str, ...]
    udp: bool = False


def all_cells() -> list[Cell]:
    shapes = [
        ("p1", 1.1, ("--pipeline", "1")),
        ("c1000", 1.1, ("--connections", "1000")),
        ("p16", 1.4, ("--pipeline", "16")),
        ("p128", 2.5, ("--pipeline", "128")),
        ("mget50", 1.8, ("--multiget", "50")),
    ]
    kinds = [
        ("text", 1.0, ("--get-ratio", "0.95")),
        ("meta", 1.0, ("--get-ratio", "0.95", "--protocol", "meta")),
        ("set50", 1.3, ("--get-ratio", "0.5")),
    ]
    cells = [
        Cell(f"{kind}-{shape}", round(goal * allowance, 2), shape_load + kind_load)
        for kind, allowance, kind_load in kinds
        for shape, goal, shape_load in shapes
    ]
    cells += [
        Cell(f"udp-p{depth}", 1.2, ("--udp", "--pipeline", str(depth), "--get-ratio", "0.95"), udp=True)
        for depth in (1, 16, 64)
    ]
    return cells


QUICK_CELLS = "text-*,meta-p16,set50-p16,udp-p16"


class BenchError(Exception):
    """A server or the load generator did not do what it should."""


@dataclass
class Server:
    """A server under test, listening on `port`."""

    name: str
    command: list[str]
    port: int
    stores: bool  # keeps what is set: is preloaded and verified
    process: subprocess.Popen[bytes] | None = None

    def start(self, cpu: int, is_udp: bool) -> None:
        command = ["taskset", "-c", str(cpu), *self.command]
        # The floor prints its address.
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent
        )
        deadline = time.monotonic() + 10
        while not (udp_port_is_bound(self.port) if is_udp else tcp_port_answers(self.port)):
            if self.process.poll() is not None:
                raise BenchError(f"{self.name} ended at once: {shlex.join(self.command)}")
            if time.monotonic() > deadline:
                raise BenchError(f"{self.name} does not listen on port {self.port}")
            time.sleep(0.02)

    def cpu_s(self) -> float:
        """CPU time of the process so far, by the scheduler's clock for it (clock_getcpuclockid(3))."""
        assert self.process is not None
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def tcp_port_answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def udp_port_is_bound(port: int) -> bool:
    return f"0100007F:{port:04X} " in Path("/proc/net/udp").read_text()


def free_port() -> int:
    """A port that is free for both TCP and UDP, below those that the kernel gives to clients."""
    while True:
        port = random.randint(12000, 32000)
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
            return port


def memcached_label(path: str) -> str:
    text = subprocess.run([path, "-V"], capture_output=True, text=True, check=True).stdout
    return text.strip() or path


@dataclass
class Bench:
    """The programs and settings of a run."""

    arguments: argparse.Namespace
    results: list[dict] = field(default_factory=list)

    def generator(self, command: str) -> list[str]:
        path = Path(self.arguments.generator)
        if not path.exists():
            raise BenchError(f"{path} is missing: build first")
        return [str(path), "bench", command]

    @property
    def key_size(self) -> str:
        return self.arguments.size.split("/")[0]

    @property
    def value_size(self) -> str:
        return self.arguments.size.split("/")[1]

    def floor(self, is_udp: bool) -> Server:
        port = free_port()
        sizes = ["--key-size", self.key_size, "--value-size", self.value_size]
        udp = ["--udp"] if is_udp else []
        wait = ["--epoll"] if is_udp and self.arguments.udp_floor == "epoll" else []
        listen = ["--listen", f"127.0.0.1:{port}"]
        return Server(FLOOR, [*self.generator("floor"), *listen, *sizes, *udp, *wait], port, stores=False)

    def stores(self) -> list[Server]:
        """The servers that store: each peer, and Tandem if it is built."""
        user = ["-u", pwd.getpwuid(os.geteuid()).pw_name] if os.geteuid() == 0 else []
        servers = []
        for path in self.arguments.peer:
            port = free_port()
            listen = ["-l", "127.0.0.1", "-p", str(port), "-U", str(port), "-m", "1024", "-c", "4096"]
            servers.append(
                Server(memcached_label(path), [path, "-t", "1", "-R", "1024", *listen, *user], port, stores=True)
            )
        if Path(self.arguments.tandem).exists():
            port = free_port()
            listen = ["-l", "127.0.0.1", "-p", str(port), "-U", str(port), "-m", "1024", "-c", "4096"]
            command = [self.arguments.tandem, "memcached", "-t", "1", *listen, *user]
            servers.append(Server(TANDEM, command, port, stores=True))
        else:
            log(f"{self.arguments.tandem} is missing: measuring without it")
        return servers

    def load(self, server: Server, *options: str) -> dict:
        """Runs the load generator; its run's result. Raises BenchError on a wrong reply or a miss."""
        assert server.process is not None
        command = [*self.generator("load"), "--connect", f"127.0.0.1:{server.port}", "--json", "-", "--no-energy"]
        command += ["--processors", str(self.arguments.load_cpu), "--server-pid", str(server.process.pid)]
        command += ["--keys", str(self.arguments.keys), "--key-size", self.key_size, "--value-size", self.value_size]
        # The floor's ready-made replies hold nobody's values. The stores' are verified once, before the slices: the
        # generator must do the same for all of them.
        check = [] if "--preload" in options or "--verify" in options else ["--no-verify"]
        command += ["--distribution", self.arguments.distribution, *options, *check]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        report = json.loads(run.stdout)["runs"][0]["result"] if run.stdout else {}
        errors = report.get("errors", {})
        # A lost datagram is UDP's right; it is counted and shown.
        others = sum(count for name, count in errors.items() if name not in ("timeouts", "first"))
        lost_datagrams = "--udp" in options and run.returncode == 1 and report and others == 0
        if run.returncode != 0 and not lost_datagrams:
            raise BenchError(f"{server.name}: {run.stderr.strip()}\n  {shlex.join(command)}")
        if report and report["ops"] == 0:
            raise BenchError(f"{server.name}: no operation in {report['seconds']:.3f} s: lengthen --seconds")
        if server.stores and report.get("misses", 0) > 0:
            raise BenchError(f"{server.name}: {report['misses']} misses, though every key was set")
        report.pop("histogram", None)
        report.pop("timeline", None)
        return report

    def measure(self, cells: list[Cell]) -> None:
        with contextlib.ExitStack() as cleanup:
            floors = {}
            stores = self.stores()
            for is_udp in sorted({cell.udp for cell in cells}):
                floors[is_udp] = self.floor(is_udp)
                cleanup.callback(floors[is_udp].stop)
                floors[is_udp].start(self.arguments.server_cpu, is_udp)
            for server in stores:
                cleanup.callback(server.stop)
                server.start(self.arguments.server_cpu, is_udp=False)
                log(f"{server.name}: setting {self.arguments.keys} keys")
                self.load(server, "--preload", "--seconds", "0")
            for cell in cells:
                self.results.append(self.measure_cell(cell, [floors[cell.udp], *stores]))

    def measure_cell(self, cell: Cell, servers: list[Server]) -> dict:
        log(f"{cell.name}: {shlex.join(cell.load)}")
        for server in servers:
            if server.stores:
                self.load(server, *cell.load, "--seconds", "0.1", "--verify")
        result = {"cell": cell.name, "goal": cell.goal, "load": shlex.join(cell.load)}
        result["closed"] = self.rounds(cell, servers, self.arguments.rounds, ())
        stores = [server.name for server in servers if server.stores]
        if self.arguments.tail_rounds > 0 and stores:
            slowest = min(median_of(result["closed"], name, "ops_per_s") for name in stores)
            rate = self.arguments.tail_load * slowest
            result["rate"] = rate
            result["open"] = self.rounds(cell, servers, self.arguments.tail_rounds, ("--rate", f"{rate:.0f}"))
        return result

    def rounds(self, cell: Cell, servers: list[Server], count: int, extra: tuple[str, ...]) -> list[dict]:
        """One dictionary per round: the load generator's report by server, and how busy others kept the cores."""
        rounds = []
        for number in range(count):
            reports = {}
            for server in servers:
                busy_before, own_before = busy_s(self.arguments.server_cpu), server.cpu_s()
                started = time.monotonic()
                report = self.load(
                    server, *cell.load, "--seconds", str(self.arguments.seconds),
                    "--warmup", str(self.arguments.warmup), "--seed", str(number + 1), *extra,
                    *(["--spin"] if self.arguments.wait == "spin" else []),
                )  # fmt: skip
                busy = busy_s(self.arguments.server_cpu) - busy_before
                own = server.cpu_s() - own_before
                report["foreign_share"] = max(0.0, busy - own) / (time.monotonic() - started)
                reports[server.name] = report
            rounds.append(reports)
        return rounds


def busy_s(cpu: int) -> float:
    """Seconds that a core has been busy since boot."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{cpu}":
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
            return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    raise BenchError(f"there is no core {cpu}")


def pick(report: dict, metric: str) -> float:
    for part in metric.split("/"):
        report = report[part]
    return report


def values_of(rounds: list[dict], server: str, metric: str) -> list[float]:
    return [pick(reports[server], metric) for reports in rounds]


def median_of(rounds: list[dict], server: str, metric: str) -> float:
    return statistics.median(values_of(rounds, server, metric))


def ratio_of(rounds: list[dict], server: str, base: str, metric: str) -> float:
    """The median of the ratios within each round."""
    pairs = zip(values_of(rounds, server, metric), values_of(rounds, base, metric), strict=True)
    return statistics.median(mine / other for mine, other in pairs)


def with_spread(rounds: list[dict], server: str, metric: str, digits: int) -> str:
    values = values_of(rounds, server, metric)
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def markdown_table(header: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|---" + "|---:" * (len(header) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def render_costs(results: list[dict]) -> Iterator[str]:
    names = list(results[0]["closed"][0])
    others = [name for name in names if name != FLOOR]
    peers = [name for name in others if name != TANDEM]
    has_tandem = TANDEM in names
    header = ["cell", *(f"{name}, us/op" for name in names), *(f"{name} / floor" for name in others)]
    header += (["goal", *(f"tandem / {peer}" for peer in peers)]) if has_tandem else []
    rows = []
    for result in results:
        rounds = result["closed"]
        metric = "server/cpu_us_per_op"
        row = [result["cell"], *(with_spread(rounds, name, metric, 3) for name in names)]
        row += [f"{ratio_of(rounds, name, FLOOR, metric):.2f}" for name in others]
        if has_tandem:
            row.append(f"<= {result['goal']:.2f}")
            row += [f"{ratio_of(rounds, TANDEM, peer, metric):.2f}" for peer in peers]
        rows.append(row)
    yield "CPU time of the server process per operation: median (least-most) of the rounds.\n"
    yield from markdown_table(header, rows)


def render_tails(results: list[dict]) -> Iterator[str]:
    results = [result for result in results if "open" in result]
    if not results:
        return
    names = list(results[0]["open"][0])
    peers = [name for name in names if name not in (FLOOR, TANDEM)]
    has_tandem = TANDEM in names
    header = ["cell", "ops/s", *(f"{name}, us" for name in names)]
    header += [f"tandem / {peer}" for peer in peers] if has_tandem else []
    rows = []
    for result in results:
        rounds = result["open"]
        metric = "latency_us/p99.9"
        row = [result["cell"], f"{result['rate']:.0f}"]
        row += [with_spread(rounds, name, metric, 0) for name in names]
        row += [f"{ratio_of(rounds, TANDEM, peer, metric):.2f}" for peer in peers] if has_tandem else []
        rows.append(row)
    yield "\n99.9th percentile of latency at an equal rate, counted from when a request was due: median (least-most).\n"
    yield from markdown_table(header, rows)


def render_notes(results: list[dict]) -> Iterator[str]:
    """What other processes took of the servers' core, and lost datagrams."""
    rounds = [one_round for result in results for one_round in result["closed"] + result.get("open", [])]
    foreign = sorted(report["foreign_share"] for reports in rounds for report in reports.values())
    share = f"{statistics.median(foreign):.0%} of the servers' core (median of the slices; most: {foreign[-1]:.0%})"
    yield f"\nOther processes took {share}."
    lost = {name: sum(int(reports[name]["errors"]["timeouts"]) for reports in rounds) for name in rounds[0]}
    if any(lost.values()):
        counts = ", ".join(f"{name} {count}" for name, count in lost.items())
        yield f"UDP requests without a reply, each counted as a second of latency: {counts}."


def render(document: dict) -> str:
    lines = [f"`{document['command']}`, {document['size']} bytes, {document['keys']} keys, {document['distribution']};"]
    lines += [f"{document['rounds']} rounds of {document['seconds']} s; {document['machine']}.\n"]
    for part in (render_costs, render_tails, render_notes):
        lines += part(document["results"])
    return "\n".join(lines)


def machine() -> str:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].split(":")[1].strip() if models else platform.machine()
    return f"{os.cpu_count()} cores {model}, Linux {platform.release().split('-')[0]}"


@contextlib.contextmanager
def niceness(value: int) -> Iterator[None]:
    """Gives this process's children a niceness; where the kernel groups processes by session, the session too."""
    autogroup = Path("/proc/self/autogroup")
    before = autogroup.read_text().split()[-1] if value and autogroup.exists() else None
    os.nice(value)
    if before is not None:
        autogroup.write_text(str(value))
    try:
        yield
    finally:
        if before is not None:
            autogroup.write_text(before)


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="*", help="patterns of cell names, with commas between (default: all)")
    parser.add_argument("--list", action="store_true", help="print the cells and end")
    parser.add_argument("--rounds", type=int, default=5, help="rounds for the CPU time")
    parser.add_argument("--tail-rounds", type=int, default=5, help="rounds for the tail latency; 0: do not measure it")
    parser.add_argument(
        "--tail-load", type=float, default=0.5, help="rate, as a share of the slowest store's in the cell"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a slice")
    parser.add_argument("--warmup", type=float, default=0.1, help="seconds of load before each slice")
    parser.add_argument("--size", default="16/64", help="bytes of keys/values")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--distribution", default="zipf", choices=["zipf", "uniform"])
    parser.add_argument("--peer", action="append", help="a memcached to compare with (default: the installed one)")
    parser.add_argument("--tandem", default=str(ROOT / "build/bin/tandem"))
    parser.add_argument("--generator", default=str(ROOT / "build/bin/tandem"), help="the program with `bench load`")
    parser.add_argument(
        "--wait", default="spin", choices=["spin", "sleep"], help="how the load generator waits for replies"
    )
    parser.add_argument("--udp-floor", default="recvmmsg", choices=["recvmmsg", "epoll"], help="how it waits")
    parser.add_argument("--nice", type=int, default=0, help="niceness of servers and load (below 0: as root)")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--json", help="write all slices to this file")
    parser.add_argument("--quick", action="store_true", help="fewer cells and shorter slices: under a minute")
    parser.add_argument("--render", nargs="+", metavar="FILE", help="print the tables of earlier runs (--json) as one")
    if "--quick" in sys.argv:
        parser.set_defaults(cells=QUICK_CELLS, rounds=3, tail_rounds=1, seconds=0.2, warmup=0.05, keys=300_000)
    arguments = parser.parse_args()
    arguments.peer = arguments.peer or [path for path in [shutil.which("memcached")] if path]
    return arguments


def render_files(files: list[str]) -> str:
    documents = [json.loads(Path(file).read_text()) for file in files]
    merged = documents[0]
    for document in documents[1:]:
        merged["results"] += document["results"]
        merged["command"] += f"` and `{document['command']}"
    return render(merged)


def main() -> int:
    arguments = parse_arguments()
    if arguments.render:
        print(render_files(arguments.render))
        return 0
    cells = [cell for cell in all_cells() if any(fnmatch.fnmatch(cell.name, p) for p in arguments.cells.split(","))]
    if arguments.list:
        for cell in cells:
            print(f"{cell.name:14} <= {cell.goal:.2f} x floor   {shlex.join(cell.load)}")
        return 0
    if not cells:
        log(f"no cell matches {arguments.cells}")
        return 2
    bench = Bench(arguments)
    try:
        with niceness(arguments.nice):
            bench.measure(cells)
    except BenchError as error:
        log(f"server_bench: {error}")
        return 1
    document = {
        "command": shlex.join(["python3", "bench/server_bench.py", *sys.argv[1:]]),
        "machine": machine(),
        **{name: getattr(arguments, name) for name in ("size", "keys", "distribution", "rounds", "seconds")},
        "results": bench.results,
    }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(document, indent=1))
    print(render(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
