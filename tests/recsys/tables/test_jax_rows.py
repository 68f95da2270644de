"""Rows as JAX reads them, and what XLA compiles of it for a processor."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys.tables import LazyAdam

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="how JAX reads rows"
)

# A store for each number of a row fills all places that a core has for them.
MOST_STORES = 56


@pytest.mark.parametrize("width", [1, 56, 57, 64, 74, 75])
def test_a_lookup_returns_the_bits_of_the_rows(width: int) -> None:
    import jax
    from jax import numpy as jnp

    from recsys.tables.jax_rows import look_up

    table = np.random.default_rng(0).normal(size=(5, width)).astype("float32")
    table[1], table[2], table[3] = -0.0, np.inf, np.nan
    ids = np.array([[0, 1, 2, 3, 4], [-1, -5, 5, -6, 2**31 - 1]], "int32")
    found = jax.jit(look_up)(table, ids)
    wanted = np.asarray(jnp.take(table, ids, axis=0))
    assert np.isnan(wanted[1, 2:]).all()
    assert np.signbit(found[0, 1]).all()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("width", [1, 4, 7, 64])
def test_a_slot_is_read_by_rows(width: int) -> None:
    from jax import numpy as jnp

    from recsys.tables.jax_rows import read

    values = np.arange(6 * width, dtype="float32").reshape(6, width)
    slot = keras.Variable(values)
    # Rows behind the last, which are left over, are read as the last.
    found = read(slot, jnp.array([0, 2, 5, 6, 9]))
    np.testing.assert_array_equal(found, values[[0, 2, 5, 5, 5]])


@pytest.fixture
def uncached() -> Iterator[None]:
    """Everything is compiled, and dumped, though a run before has done so."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    enabled = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # It looks at that once.
    yield
    jax.config.update("jax_enable_compilation_cache", enabled)
    compilation_cache.reset_cache()


def test_no_lookup_copies_rows_of_64_number_by_number(
    tmp_path: Path, uncached: None
) -> None:
    import jax

    from recsys.tables.jax_rows import look_up

    if jax.default_backend() != "cpu":
        pytest.skip("compiled for something else than a processor")
    table, ids = np.zeros((1000, 64), "float32"), np.zeros(4096, "int32")
    jax.jit(look_up).lower(table, ids).compile(
        compiler_options={
            "xla_dump_to": str(tmp_path),
            # As outside of the tests, which compile fast.
            "xla_backend_optimization_level": 3,
            "xla_llvm_disable_expensive_passes": False,
        }
    )
    kernels = list(tmp_path.glob("*.ir-with-opt.ll"))
    assert kernels
    for kernel in kernels:
        assert kernel.read_text().count("store float ") <= MOST_STORES


def test_no_update_reads_both_moments_at_once() -> None:
    import jax

    from recsys.tables.jax_rows import read

    slot = keras.Variable(np.zeros((1000, 8), "float32"))
    rows, touched = np.zeros((16, 4), "float32"), np.arange(16)

    def update(rows: Any, touched: Any, gradients: Any) -> Any:
        slots = {"moments": read(slot, touched)}
        return LazyAdam().update(rows, slots, gradients, 0.1, 1.0)

    program = jax.jit(update).lower(rows, touched, rows).compile().as_text()
    assert "slice_sizes={1,4}" in program
    assert "slice_sizes={1,8}" not in program
