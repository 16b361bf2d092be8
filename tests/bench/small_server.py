"""small_server.py PORT ITEMS HOW: a memcached that holds so many items and evicts the oldest, honestly or not:
honest, wrong (values have a bit turned), full (takes no more, never evicts), dies (in the middle), endless."""

from __future__ import annotations

import os
import socketserver
import sys

PORT, ITEMS, HOW = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
items: dict[bytes, bytes] = {}
evictions = 0


class Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def store(self, words: list[bytes]) -> None:
        global evictions
        value = self.rfile.read(int(words[4]) + 2)[:-2]
        if HOW == "dies" and len(items) > ITEMS // 2:
            os._exit(3)
        if HOW == "full" and len(items) >= ITEMS:
            return
        items[words[1]] = value
        if HOW != "endless" and len(items) > ITEMS:
            del items[next(iter(items))]
            evictions += 1

    def handle(self) -> None:
        while line := self.rfile.readline():
            words = line.split()
            if words[0] == b"set":
                self.store(words)
            elif words[0] == b"get":
                value = items.get(words[1])
                if value is not None:
                    if HOW == "wrong":
                        value = value[:-1] + bytes([value[-1] ^ 1])
                    self.wfile.write(b"VALUE %s 0 %d\r\n%s\r\n" % (words[1], len(value), value))
                self.wfile.write(b"END\r\n")
            elif words[0] == b"version":
                self.wfile.write(b"VERSION 0\r\n")
            else:
                count = len(items) + (evictions if HOW == "endless" else 0)
                self.wfile.write(b"STAT curr_items %d\r\nSTAT evictions %d\r\nEND\r\n" % (count, evictions))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", PORT), Handler).serve_forever()
