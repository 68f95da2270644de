"""Rows of tables on JAX; `recsys.tables.jax_step` makes their gradients."""

from typing import Any

import jax
import keras
from jax import numpy as jnp

from recsys.tables.row_gradient import RowGradient


def is_row_gradient(gradient: Any) -> bool:
    """Whether a gradient is of rows, not of a whole table."""
    return isinstance(gradient, RowGradient)


def whole(gradient: Any) -> Any:
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
    gradient: RowGradient, other: RowGradient, table: keras.Variable
) -> Any:
    """Returns the inner product of two gradients of the rows of a table.

    Both are of the same lookups, and so of the same rows in one order.
    """
    values = summed(gradient, table).values
    return jnp.sum(values * summed(other, table).values)


def read(variable: keras.Variable, rows: Any) -> Any:
    """Returns rows of a table or a slot."""
    return variable.value.at[rows].get(mode="clip", indices_are_sorted=True)


def write(variable: keras.Variable, rows: Any, values: Any) -> None:
    """Replaces rows of a table or a slot, in place if compiled."""
    written = variable.value.at[rows].set(
        values, mode="drop", indices_are_sorted=True, unique_indices=True
    )
    variable.assign(written)
