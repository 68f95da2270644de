"""Lookups in tables that are split over devices, and their training.

Left to XLA's partitioner, a step may bring all rows of a table to every device.
Here each device looks up those ids that fall in its rows, and changes these
rows: what is sent are ids, and rows that were looked up or their gradients.
"""

from collections.abc import Callable
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import keras
from jax import numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec

from keras_moe.types import Tensor
from recsys.tables.jax_rows import look_up
from recsys.tables.marks import mark
from recsys.tables.row_gradient import RowGradient
from recsys.tables.row_split import RowSplit


def look_up_split(
    table: jax.Array, ids: jax.Array, split: RowSplit
) -> jax.Array:
    """Returns what `look_up` does.

    In a compiled step, rows are split over devices as those of a batch are.

    Args:
        table: Tensor `(padded rows, width)`, split.
        ids: Integer tensor `(...)`. Those below 0 count from the end.
        split: How the table is split.

    Returns:
        Tensor `(..., width)`.
    """
    flat = ids.reshape(-1)
    flat = jnp.where(flat < 0, flat + split.num_rows, flat)
    padding = -len(flat) % split.num_devices

    def on_device(table: jax.Array, ids: Tensor) -> jax.Array:
        local = _own(ids, len(table), split)
        is_own = local < len(table)
        rows = look_up(table, jnp.where(is_own, local, 0))
        rows = jnp.where(is_own[:, None], rows, 0)  # (ids, width)
        # Each row is zeros but on one device. A device gets the sums of its
        # share of the ids.
        return jax.lax.psum_scatter(rows, split.axes, tiled=True)

    by_rows, everywhere = PartitionSpec(split.axes), PartitionSpec()
    rows = jax.shard_map(
        on_device,
        mesh=split.mesh,
        in_specs=(by_rows, everywhere),
        out_specs=by_rows,
        check_vma=False,
    )(table, jnp.pad(flat, (0, padding)))
    exists = (flat >= 0) & (flat < split.num_rows)
    rows = jnp.where(exists[:, None], rows[: len(flat)], jnp.nan)
    rows = rows.reshape(*ids.shape, table.shape[1])
    if isinstance(rows, jax.core.Tracer):
        return rows
    # Outside of a compiled step, a process may want to read all of them.
    return jax.lax.with_sharding_constraint(
        rows, NamedSharding(split.mesh, everywhere)
    )


class _Share:
    """The rows of a table or a slot that a device has: a variable to it."""

    def __init__(self, value: jax.Array, is_table: bool) -> None:
        self.value = value
        self.shape = value.shape
        mark(self, is_table=is_table)

    def assign(self, value: jax.Array) -> None:
        self.value = value


def update_split(
    update: Callable[
        [Any, Mapping[str, Any], RowGradient, tuple[Tensor, Tensor]], None
    ],
    table: keras.Variable,
    slots: Mapping[str, keras.Variable],
    gradient: RowGradient,
    scalars: tuple[Tensor, Tensor],
    split: RowSplit,
) -> None:
    """Lets each device change its own rows of a table and of its slots.

    Args:
        update: Called on each device with the table, the slots and the
            gradient, as if the rows of the device were all there are, and
            `scalars`.
        table: The table.
        slots: Its slots by name.
        gradient: The gradient of the rows that all devices have looked up.
        scalars: Tensors, in any structure.
        split: How the table is split.
    """

    def on_device(
        table: jax.Array,
        slots: Mapping[str, jax.Array],
        gradient: RowGradient,
        scalars: tuple[Tensor, Tensor],
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        share = _Share(table, is_table=True)
        shares = {name: _Share(slots[name], is_table=False) for name in slots}
        rows = _own(gradient.indices, len(table), split)
        update(share, shares, RowGradient(gradient.values, rows), scalars)
        return share.value, {name: shares[name].value for name in shares}

    by_rows, everywhere = PartitionSpec(split.axes), PartitionSpec()
    changed, changed_slots = jax.shard_map(
        on_device,
        mesh=split.mesh,
        in_specs=(by_rows, by_rows, everywhere, everywhere),
        out_specs=by_rows,
        check_vma=False,
    )(
        table.value,
        {name: slots[name].value for name in slots},
        gradient,
        scalars,
    )
    table.assign(changed)
    for name in slots:
        slots[name].assign(changed_slots[name])


@partial(jax.jit, static_argnames=("size", "split"))
def read_share(
    rows: jax.Array, device: Tensor, start: Tensor, size: int, split: RowSplit
) -> jax.Array:
    """Returns some of the rows of one device, to all processes.

    Args:
        rows: Tensor `(padded rows, ...)`, split.
        device: Which device, counted from 0.
        start: The first row, counted from that device's first.
        size: How many rows; they have to lie within the device's.
        split: How the tensor is split.
    """

    def on_device(rows: jax.Array, device: Tensor, start: Tensor) -> jax.Array:
        block = jax.lax.dynamic_slice_in_dim(rows, start, size)
        is_its = jax.lax.axis_index(split.axes) == device
        return jax.lax.psum(jnp.where(is_its, block, 0), split.axes)

    everywhere = PartitionSpec()
    return jax.shard_map(
        on_device,
        mesh=split.mesh,
        in_specs=(PartitionSpec(split.axes), everywhere, everywhere),
        out_specs=everywhere,
        check_vma=False,
    )(rows, device, start)


def _own(rows: jax.Array, count: int, split: RowSplit) -> jax.Array:
    """Numbers of rows of this device; `count` for those of others."""
    local = rows - jax.lax.axis_index(split.axes) * count
    return jnp.where((local >= 0) & (local < count), local, count)
