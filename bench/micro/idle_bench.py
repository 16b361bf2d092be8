#!/usr/bin/env python3
"""The cost of ten thousand idle connections: the server's memory for each, and the latency of one busy client with and
without them, in turns. TANDEM_BIN names the server, MEMCACHED_BIN another one to compare with."""

import os
import resource
import socket
import statistics
import subprocess
import time

IDLE = 10_000
REQUESTS = 20_000
ROUNDS = 3


def start(command: list[str], port: int) -> subprocess.Popen[bytes]:
    words = [*command, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "2", "-c", str(IDLE + 100), "-m", "64"]
    if os.geteuid() == 0:
        words += ["-u", "root"]
    process = subprocess.Popen(words)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise RuntimeError(f"no answer from {command[0]}")


def resident_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def latencies_us(client: socket.socket) -> list[float]:
    found = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        client.sendall(b"get k\r\n")
        reply = client.recv(100)
        found.append((time.perf_counter() - began) * 1e6)
        assert reply.endswith(b"END\r\n")
    return sorted(found)


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * IDLE), hard))
    servers = {
        "tandem": [os.environ.get("TANDEM_BIN", "build/bin/tandem"), "memcached"],
        "memcached": [os.environ.get("MEMCACHED_BIN", "memcached")],
    }
    print(f"{IDLE} idle connections; latency of one client, median of {ROUNDS} rounds of {REQUESTS} gets, in us")
    for number, (name, command) in enumerate(servers.items()):
        port = 23000 + os.getpid() % 5000 + number
        process = start(command, port)
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(b"set k 0 0 1\r\nx\r\n")
        assert client.recv(100) == b"STORED\r\n"
        latencies_us(client)
        figures: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
        per_connection = 0.0
        for _ in range(ROUNDS):
            for kind in figures:
                before = resident_kib(process.pid)
                count = IDLE if kind == "with" else 0
                idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
                for connection in idle:  # as client pools do
                    connection.sendall(b"mn\r\n")
                    assert connection.recv(10) == b"MN\r\n"
                if idle and per_connection == 0:
                    per_connection = (resident_kib(process.pid) - before) * 1024 / IDLE
                found = latencies_us(client)
                figures[kind].append((found[len(found) // 2], found[len(found) * 99 // 100]))
                for connection in idle:
                    connection.close()
                time.sleep(0.2)
        for kind, rounds in figures.items():
            p50, p99 = (statistics.median(each[i] for each in rounds) for i in (0, 1))
            print(f"{name:10} {kind:8} idle connections: p50 {p50:7.1f}  p99 {p99:7.1f}")
        print(f"{name:10} {per_connection:.0f} bytes of resident memory for each idle connection")
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
