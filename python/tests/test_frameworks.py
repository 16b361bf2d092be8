"""Arrays and processes of other libraries, each where the library is installed."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tandem


def test_arrays_of_jax(store: tandem.Store) -> None:
    jax: Any = pytest.importorskip("jax.numpy")
    devices: Any = pytest.importorskip("jax")
    devices.config.update("jax_default_device", devices.devices("cpu")[0])
    keys = jax.arange(1000, dtype=jax.int32)
    rows = jax.arange(4000, dtype=jax.float32).reshape(1000, 4)
    assert store.set_rows(keys, rows).all()
    read, found = store.get_rows(keys[::-1], np.float32, 4)
    assert found.all() and (read == np.asarray(rows)[::-1]).all()
    assert store.get(np.int32(7).tobytes()) == np.asarray(rows[7]).tobytes()
    with pytest.raises(ValueError, match="out is read-only"):
        store.get_rows(keys, out=rows)
    assert (np.asarray(rows) == read[::-1]).all(), "its arrays never change"
    half = rows.astype(jax.bfloat16)  # which the buffer protocol has no letter for
    assert store.set_rows(keys, half).all()
    assert store.get(np.int32(7).tobytes()) == np.asarray(half[7]).tobytes()


def test_arrays_of_cupy(store: tandem.Store) -> None:
    cupy: Any = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("CuPy has no device")
    keys, rows = cupy.arange(1000, dtype=cupy.int64), cupy.arange(4000, dtype=cupy.float32).reshape(1000, 4)
    for call in (
        lambda: store.set_rows(keys, np.zeros((1000, 4))),
        lambda: store.set_rows(keys.get(), rows),
        lambda: store.get_rows(keys.get(), out=rows),
    ):
        with pytest.raises(ValueError, match="in a device's memory: copy it to the host"):
            call()
    import cupyx  # type: ignore[import-not-found]

    pinned = cupyx.empty_pinned((1000, 4), np.float32)
    rows.get(out=pinned)
    assert store.set_rows(keys.get(), pinned).all()
    pinned[:] = 0
    assert store.get_rows(keys.get(), out=pinned)[1].all()
    assert (cupy.asarray(pinned) == rows).all()


class Samples:
    """A data set that asks a server's cache, and a store of the process that loads it."""

    def __init__(self, url: str, store: tandem.Store) -> None:
        self.cache, self.store = tandem.Cache(url, "json"), store

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> tuple[int, str]:
        try:
            self.store.get("a")
        except tandem.Error as error:
            return self.cache[str(number)], type(error).__name__
        return self.cache[str(number)], "open"


def test_workers_of_a_data_loader(store: tandem.Store) -> None:
    data: Any = pytest.importorskip("torch.utils.data")
    pytest.importorskip("pymemcache")
    with tandem.Server() as server:
        samples = Samples(server.url, store)
        samples.cache.set_many({str(i): i * i for i in range(8)})
        load = data.DataLoader(samples, batch_size=None, num_workers=2, multiprocessing_context="fork")
        assert [tuple(each) for each in load] == [(i * i, "Forked") for i in range(8)]
        assert samples[3] == (9, "open")


def test_tensors_of_torch(store: tandem.Store) -> None:
    torch: Any = pytest.importorskip("torch")
    keys = torch.arange(1000, dtype=torch.int64)
    rows = torch.arange(4000, dtype=torch.float32).reshape(1000, 4)
    assert store.set_rows(keys, rows).all()
    read = torch.zeros_like(rows)
    out, found = store.get_rows(keys, out=read)
    assert out is read and found.all() and torch.equal(read, rows), "into the tensor itself"
    assert store.get(np.int64(7).tobytes()) == rows[7].numpy().tobytes()
    half = rows.to(torch.bfloat16)  # which the buffer protocol has no letter for
    assert store.set_rows(keys, half).all()
    every_other = torch.zeros(2000, 4, dtype=torch.bfloat16)
    store.get_rows(keys, out=every_other[::2])
    assert torch.equal(every_other[::2], half) and not every_other[1::2].any()
    with pytest.raises(ValueError, match="rows of out are not contiguous"):
        store.get_rows(keys, out=torch.zeros(1000, 8)[:, ::2])
    length = store.get_into(np.int64(7).tobytes(), torch.zeros(8, dtype=torch.uint8))
    assert length == 8
    if torch.cuda.is_available():
        with pytest.raises(ValueError, match="out is in a device's memory: copy it to the host"):
            store.get_rows(keys, out=half.cuda())
        pinned = torch.zeros_like(half).pin_memory()
        assert store.get_rows(keys, out=pinned)[1].all() and torch.equal(pinned.cuda().cpu(), half)
    with pytest.raises(TypeError, match="not Tensor"):
        store["a"] = torch.zeros(4)


APPLICATION = """
import os, tandem
store = tandem.Store(memory="8MiB")
store["a"] = b"1"
cache = tandem.Cache(os.environ["URL"], "json")
cache["of"] = os.getpid()
def application(environ, start):
    try: seen = store["a"].decode()
    except tandem.Forked: seen = "Forked"
    body = f"{seen} {cache['of'] == os.getppid()} {cache.incr('visits', initial=1)}".encode()
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


def test_workers_of_gunicorn(tmp_path: Path) -> None:
    """--preload: the application, its store and its connection are of a process that forks."""
    pytest.importorskip("gunicorn")
    (tmp_path / "of_a_test.py").write_text(APPLICATION)
    path = f"{tmp_path}/socket"

    def visit() -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.makefile("rb").read().rpartition(b"\r\n\r\n")[2]

    with tandem.Server() as server:
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", f"unix:{path}"]
        with subprocess.Popen(
            [*command, "--chdir", str(tmp_path), "of_a_test:application"], env=os.environ | {"URL": server.url}
        ) as gunicorn:
            deadline = time.monotonic() + 60
            while not Path(path).exists() and gunicorn.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            try:
                assert [visit() for _ in range(6)] == [b"Forked True %d" % i for i in range(1, 7)]
            finally:
                gunicorn.terminate()
        assert gunicorn.returncode == 0
