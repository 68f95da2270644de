"""Rows of tables on JAX; `recsys.tables.jax_row_step` makes their gradients."""

import jax
import keras
from jax import numpy as jnp

from keras_moe.types import Tensor
from recsys.tables.marks import marks
from recsys.tables.row_gradient import RowGradient

# Rows whose copy XLA unrolls (up to 74) and the sum in `look_up` does not, of
# those that were measured to gain (`benchmarks/vocabulary.py`, XLA 0.10).
_SLOW_TO_COPY = range(57, 75)


def look_up(table: jax.Array, ids: jax.Array) -> jax.Array:
    """Returns rows of a table; NaN where it has none, as `jnp.take` does.

    On a processor, XLA 0.10 copies a row of up to 74 numbers by as many loads
    and stores of one number each. A lookup of rows of about 64 in a table that
    no cache holds then takes 4 times as long as by vectors: it seems to wait
    for one row before it asks for the next. An addition makes the row too long
    to be unrolled, and it is copied by vectors. What is added is -0, which
    changes no number, and NaN where there is no row, by a root that compilers
    do not see through. Narrower rows lose more by the addition than they gain.

    Args:
        table: Tensor `(rows, width)`.
        ids: Integer tensor `(...)`. Those below 0 count from the end.

    Returns:
        Tensor `(..., width)`.
    """
    num_rows, width = table.shape
    if width not in _SLOW_TO_COPY:
        return jnp.take(table, ids, axis=0)
    ids = jnp.where(ids < 0, ids + num_rows, ids)
    nearest = jnp.clip(ids, 0, num_rows - 1)
    outside = jnp.abs(ids - nearest).astype(table.dtype)
    rows = jnp.take(table, nearest, axis=0, mode="clip")
    return rows + jnp.sqrt(-outside)[..., None]  # (..., 1)


def is_row_gradient(gradient: object) -> bool:
    """Returns whether a gradient is of rows, not of a whole table."""
    return isinstance(gradient, RowGradient)


def whole(gradient: Tensor) -> Tensor:
    """Returns the gradient of a table that is not trained by rows."""
    return gradient


def summed(gradient: RowGradient, table: keras.Variable) -> RowGradient:
    """Returns the gradient with every row once, its parts summed."""
    # Shapes are fixed: there are as many sums as lookups. Those that are left
    # over are zeros of rows behind the last one, which `write` drops.
    size, num_rows = gradient.indices.shape[0], table.shape[0]
    rows, segments = jnp.unique(
        gradient.indices, return_inverse=True, size=size, fill_value=num_rows
    )
    sums = jax.ops.segment_sum(gradient.values, segments.reshape(-1), size)
    behind = num_rows + jnp.arange(size, dtype=rows.dtype)
    return RowGradient(sums, jnp.where(rows >= num_rows, behind, rows))


def inner_product(
    left: RowGradient, right: RowGradient, table: keras.Variable
) -> jax.Array:
    """Returns the inner product of two gradients of the rows of a table.

    Both are of the same lookups, and so of the same rows in one order.
    """
    values = summed(left, table).values
    return jnp.sum(values * summed(right, table).values)


def read(variable: keras.Variable, rows: Tensor) -> jax.Array:
    """Returns rows of a table or a slot."""
    is_slot = not marks(variable).is_table
    if is_slot and len(variable.shape) == 2 and variable.shape[1] % 2 == 0:
        return _in_halves(variable.value, rows)
    return variable.value.at[rows].get(mode="clip", indices_are_sorted=True)


def _in_halves(slot: jax.Array, rows: jax.Array) -> jax.Array:
    """Returns rows of a slot that holds two vectors, such as two moments.

    A rule takes them apart again, so XLA reads each half where it is used. The
    whole would be used twice, and so be copied first, which `look_up` says the
    cost of.
    """
    width = slot.shape[1] // 2

    def half(start: int) -> jax.Array:
        return jax.vmap(
            lambda row: jax.lax.dynamic_slice(slot, (row, start), (1, width))[0]
        )(rows)  # (touched, width)

    return jnp.concatenate([half(0), half(width)], axis=1)


def write(variable: keras.Variable, rows: Tensor, values: Tensor) -> None:
    """Replaces rows of a table or a slot, in place if compiled."""
    written = variable.value.at[rows].set(
        values, mode="drop", indices_are_sorted=True, unique_indices=True
    )
    variable.assign(written)
