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
