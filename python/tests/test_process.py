"""Threads, fork and exit: each in a process of its own where it may hang or crash."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tandem

SECONDS = 120  # for a child that should take one


def run(code: str) -> str:
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


DEADLOCK = """
import faulthandler, threading, tandem, numpy as np
faulthandler.dump_traceback_later(100, exit=True)
store = tandem.Store(memory="4MiB", item_max=4096)
names = [str(i) for i in range(4000)]
keys = np.arange(4000)
for name in names: store.set(name, bytes(1024))
assert store.stats().evictions > 0, "it is full"
def read():
    for _ in range(30): store.get_many(names)
def write():
    for _ in range(3):
        for name in names: store.set(name, bytes(1024))
def rows():
    for _ in range(30):
        store.set_rows(keys, np.zeros((4000, 128)))
        store.get_rows(keys, float, 128)
def walk():
    for _ in range(30): assert len(store) and list(store)
threads = [threading.Thread(target=of) for of in (read, write, rows, walk, read, write, write, rows)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("all ended")
"""


def test_evicting_writers_and_batches_do_not_wait_for_each_other() -> None:
    """Writers hold the interpreter's lock and wait for epochs; what runs in an epoch must not wait for the lock."""
    assert run(DEADLOCK) == "all ended\n"


def test_batches_of_threads(store: tandem.Store) -> None:
    def work(number: int) -> None:
        keys = np.arange(number * 2000, (number + 1) * 2000)
        for turn in range(5):
            assert store.set_rows(keys, keys + turn).all()
            values, found = store.get_rows(keys, np.int64)
            assert found.all() and (values == keys + turn).all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(store) == 16_000


def test_one_thread_too_many() -> None:
    with tandem.Store(memory="8MiB", threads_max=2) as store:
        store["key"] = b"value"
        inside, leave = threading.Event(), threading.Event()

        def use() -> None:
            store.get("key")
            inside.set()
            leave.wait()

        with ThreadPoolExecutor(2) as pool:
            second = pool.submit(use)
            inside.wait()
            for call in (lambda: store.get("key"), lambda: store.get_many(["key"]), lambda: store.set("key", b"")):
                with pytest.raises(tandem.TooManyThreads):
                    pool.submit(call).result()
            leave.set()
            second.result()
        assert store["key"] == b"value"
        for _ in range(5):  # a thread gives its place back when it ends, a little after join() returns
            deadline = time.monotonic() + SECONDS
            while not in_new_thread(store):
                assert time.monotonic() < deadline


def in_new_thread(store: tandem.Store) -> bool:
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(store.get, "key").result() == b"value"
        except tandem.TooManyThreads:
            return False


def in_child(store: tandem.Store) -> list[str]:
    names = []
    for call in (
        lambda: store.get("a"),
        lambda: store.set("a", b""),
        lambda: store.get_many(["a"]),
        lambda: len(store),
    ):
        try:
            call()
            names.append("nothing")
        except tandem.Error as error:
            names.append(type(error).__name__)
    store.close()
    with tandem.Store(memory="8MiB") as own:
        own["a"] = b"own"
        names.append(own["a"].decode())
    return names


WANTED = ["Forked", "Forked", "Forked", "Forked", "own"]


def test_a_child_of_fork_is_told(store: tandem.Store) -> None:
    store["a"] = b"1"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, " ".join(in_child(store)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.read().split() == WANTED
    assert os.waitpid(child, 0)[1] == 0
    assert store["a"] == b"1"


def test_a_child_that_ends_in_order(store: tandem.Store) -> None:
    assert (
        run(
            "import os, tandem, sys, warnings\n"
            "warnings.simplefilter('ignore')\n"  # Python 3.12 warns of a fork beside threads
            "store = tandem.Store(memory='8MiB')\n"
            "store['a'] = b'1'\n"
            "child = os.fork()\n"
            "if child == 0: sys.exit(0)\n"  # atexit and destructors leave the parent's store alone
            "assert os.waitpid(child, 0)[1] == 0\n"
            "print(store['a'])\n"
        )
        == "b'1'\n"
    )


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_other_processes_open_their_own(method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(opened_anew) == b"value"


def opened_anew() -> bytes:
    with tandem.Store(memory="8MiB") as store:
        store["key"] = b"value"
        return store["key"]


def test_a_pool_that_forks(store: tandem.Store) -> None:
    global shared
    shared = store
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(through_fork, range(4)) == [WANTED] * 4


shared: tandem.Store


def through_fork(_: int) -> list[str]:
    return in_child(shared)


@pytest.mark.parametrize("daemon", [True, False])
def test_the_end_of_the_interpreter_closes_stores(daemon: bool, tmp_path: object) -> None:
    code = f"""
import threading, tandem, numpy as np, time
store = tandem.Store(memory="64MiB", memory_file="{tmp_path}/items")
other = tandem.Store(memory="8MiB")
store["key"] = b"value"
started = threading.Event()
def work():
    keys = np.arange(100_000)
    for _ in range(1_000_000 if {daemon} else 3):
        store.set_rows(keys, keys)
        started.set()
threading.Thread(target=work, daemon={daemon}).start()
started.wait()
"""
    out = run(code)
    # The daemon finds its store closed; a traceback of it may be told, as far as the interpreter still writes it.
    assert not out or (daemon and "Exception in thread" in out), out
    with tandem.Store(memory="64MiB", memory_file=f"{tmp_path}/items") as store:
        assert store["key"] == b"value"


def test_closing_waits_for_batches() -> None:
    for _ in range(10):
        store = tandem.Store(memory="64MiB")
        keys = np.arange(50_000)
        started = threading.Event()

        def work(store: tandem.Store = store, keys: object = keys, started: threading.Event = started) -> None:
            with pytest.raises(tandem.Closed):
                while True:
                    store.set_rows(keys, keys)
                    started.set()

        with ThreadPoolExecutor(2) as pool:
            workers = [pool.submit(work) for _ in range(2)]
            started.wait()
            store.close()
            for worker in workers:
                worker.result()


def test_threads_may_meet_in_a_scan(ordered: tandem.Store) -> None:
    """As in a generator: one is told that another is inside, and nothing is lost or handed out twice."""
    names = [b"%06d" % i for i in range(20_000)]
    ordered.set_many((name, bytes(100)) for name in names)
    for _ in range(5):
        scan, together = ordered.scan(), threading.Barrier(4)
        taken: list[bytes] = []

        def take(scan: Iterator[tuple[bytes, bytes]], taken: list[bytes], together: threading.Barrier) -> None:
            together.wait()
            while True:
                try:
                    taken.append(next(scan)[0])
                except StopIteration:
                    return
                except ValueError as error:
                    assert "another thread" in str(error)

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(take, scan, taken, together) for _ in range(4)]:
                done.result()
        assert sorted(taken) == names


def test_subinterpreters_are_refused() -> None:
    code = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import tandem
other = interpreters.create()
failed = interpreters.run_string(other, '''
try:
    import tandem
except ImportError as error:
    print("refused:", error)
''')
print(failed or "")
"""
    assert "refused: " in run(code)


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_million_calls_leave_nothing_behind(store: tandem.Store) -> None:
    keys = np.arange(100, dtype=np.uint64)
    out, found = np.zeros(100), np.zeros(100, bool)
    names = {str(i): b"value" for i in range(100)}

    def calls(turns: int) -> None:
        for _ in range(turns):
            store.set("key", b"value", ttl=100)
            store.get("key")
            store.gets("key")
            store.get("none")
            store.incr("n", initial=0)
            store.pop("key")
            with contextlib.suppress(TypeError):
                store.get(1)  # type: ignore[call-overload]
            with contextlib.suppress(ValueError):
                store.set("", b"")
            with contextlib.suppress(TypeError):
                store.set("key", value=b"value", other=1)  # type: ignore[call-arg]
            with contextlib.suppress(KeyError):
                store["none"]
            store["item"] = b"value"
            store["item"]
            assert "item" in store
            del store["item"]
            store.set("key", bytearray(b"value"))
            store.get_into("key", found)  # type: ignore[arg-type]

    def batches(turns: int) -> None:
        for _ in range(turns):
            store.set_many(names)
            store.get_many(names)
            store.set_rows(keys, out)
            store.get_rows(keys, out=out, found=found)
            list(store)
            len(store)

    calls(2000)
    batches(200)
    before = resident()
    calls(100_000)
    batches(1000)
    assert resident() - before < 4 << 20
