#!/usr/bin/env python3
"""The crawler's cost and effect: CPU time of a server with 4 million items that are never read, with and without the
crawler; then the same where half of the items expire. TANDEM_BIN names the server."""

import os
import socket
import subprocess
import time

TANDEM = os.environ.get("TANDEM_BIN", "build/bin/tandem")
ITEMS = 4_000_000
PER_SEND = 20_000


class Server:
    def __init__(self, port: int, *options: str) -> None:
        command = [TANDEM, "memcached", "-m", "1024", "-p", str(port), "-U", "0", "-t", "1", *options]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        self.process = subprocess.Popen(command)
        for _ in range(500):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                return
            except ConnectionRefusedError:
                time.sleep(0.01)
        raise RuntimeError("no answer")

    def fill(self, ttl_s: int) -> None:
        for first in range(0, ITEMS, PER_SEND):
            self.socket.sendall(
                b"".join(
                    b"set key%08d 0 %d 64 noreply\r\n%064d\r\n" % (k, ttl_s if k % 2 else 0, k)
                    for k in range(first, first + PER_SEND)
                )
            )

    def items(self) -> int:
        self.socket.sendall(b"stats\r\n")
        reply = b""
        while not reply.endswith(b"END\r\n"):
            reply += self.socket.recv(65536)
        return int(reply.split(b"STAT curr_items ")[1].split()[0])

    def cpu_s(self) -> float:
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def main() -> None:
    print(f"{ITEMS} items of 92 bytes, one server at a time; CPU in % of one processor over 60 s")
    for name, options, ttl_s in (
        ("crawler off, nothing expires", ["-o", "no_lru_crawler"], 0),
        ("crawler on, nothing expires", [], 0),
        ("crawler on, half expires after 30 s", [], 30),
    ):
        server = Server(22000 + os.getpid() % 10000, *options)
        server.fill(ttl_s)
        before = server.items()
        began, cpu = time.monotonic(), server.cpu_s()
        time.sleep(60)
        used = 100 * (server.cpu_s() - cpu) / (time.monotonic() - began)
        print(f"{name:37} {used:5.2f} %   items {before} -> {server.items()}", flush=True)
        server.stop()


if __name__ == "__main__":
    main()
