"""Arrays of other libraries, by the same calls; each where the library is installed."""

from typing import Any

import numpy as np
import pytest
import tandem


def test_arrays_of_jax(store: tandem.Store) -> None:
    jax: Any = pytest.importorskip("jax.numpy")
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
    with pytest.raises(TypeError, match="not Tensor"):
        store["a"] = torch.zeros(4)
