"""Certificates for a test, made by the openssl program, and a tunnel that lets clients without TLS talk to a server
with it."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from harness.server import HOST, Server

PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class Identity:
    """A certificate for 127.0.0.1 and its key."""

    certificate: Path
    key: Path

    def options(self, *more: str) -> tuple[str, ...]:
        """memcached's options for a server with this identity."""
        return "-Z", "-o", ",".join([f"ssl_chain_cert={self.certificate},ssl_key={self.key}", *more])


def make_identity(folder: Path, name: str, issuer: Identity | None = None) -> Identity:
    """A new P-256 key with a certificate that `issuer`, or itself, has signed."""
    made = Identity(folder / f"{name}.pem", folder / f"{name}.key")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", made.key]
    extensions = ["-addext", f"subjectAltName=IP:{HOST},DNS:localhost", "-subj", f"/CN={name}"]
    request = ["openssl", "req", "-x509", *new_key, *extensions, "-days", "2", "-out", made.certificate]
    if issuer is not None:
        request += ["-CA", issuer.certificate, "-CAkey", issuer.key, "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(request, check=True, capture_output=True, timeout=60)
    return made


def client_context(authority: Identity, identity: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


class Tunnel:
    """Listens without TLS and passes what it gets on to a server with it, and the other way. One thread a connection;
    an end of the stream is passed on as one."""

    def __init__(self, server: Server, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self._stop, self._stopped = socket.socketpair()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self._listener.getsockname(), timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def close(self) -> None:
        self._stop.close()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._stopped.close()

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            readable, _, _ = select.select([self._listener, self._stopped], [], [])
            if self._stopped in readable:
                return
            client, _ = self._listener.accept()
            thread = threading.Thread(target=self._pass_on, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), self._server.connect() as plain:
            plain.settimeout(10)
            with self._context.wrap_socket(plain, server_hostname=HOST, suppress_ragged_eofs=True) as upstream:
                for end in (client, upstream):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    end.setblocking(False)
                self._pump(client, upstream)

    def _pump(self, client: socket.socket, upstream: ssl.SSLSocket) -> None:
        to_server, to_client = bytearray(), bytearray()
        client_open = True
        while True:
            reads = [self._stopped]
            if client_open and len(to_server) < PIECE_BYTES:
                reads.append(client)
            if len(to_client) < PIECE_BYTES:
                reads.append(upstream)
            writes = ([client] if to_client else []) + ([upstream] if to_server else [])
            decrypted = upstream in reads and upstream.pending() != 0
            readable, writable, _ = select.select(reads, writes, [], 0 if decrypted else None)
            if self._stopped in readable:
                return
            if client in readable:
                data = client.recv(PIECE_BYTES)
                to_server += data
                client_open = bool(data)
                if not client_open and not to_server:
                    socket.socket.shutdown(upstream, socket.SHUT_WR)  # its own forgets the session
            if upstream in writable:
                with contextlib.suppress(ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    del to_server[: upstream.send(to_server)]
                if not client_open and not to_server:
                    socket.socket.shutdown(upstream, socket.SHUT_WR)  # its own forgets the session
            if decrypted or upstream in readable:
                try:
                    data = upstream.recv(PIECE_BYTES)
                except ssl.SSLWantReadError:
                    continue
                if not data:
                    client.setblocking(True)
                    client.sendall(to_client)
                    client.shutdown(socket.SHUT_WR)
                    return
                to_client += data
            if client in writable:
                del to_client[: client.send(to_client)]
