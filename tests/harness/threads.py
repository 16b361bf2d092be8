"""Clients side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable


def at_once(*clients: Callable[[], None]) -> None:
    """Each in a thread of its own; when all have ended, the first that failed is raised."""
    failures: list[BaseException] = []

    def run(client: Callable[[], None]) -> None:
        try:
            client()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
