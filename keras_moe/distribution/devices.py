"""The devices that share a batch under an active `keras.distribution`.

The one module that knows the mesh. Its axes, and what lies along them:

    batch    the distribution's `batch_dim_name`: each device along it has its
             share of the rows, and all of the weights
    others   those of a `ModelParallel`: devices along them have the same rows

Keras leaves it to XLA to cut a computation along these axes. That goes well
with operations on all rows at once, but a loop over blocks of rows would run
in full on every device. `map_over_devices` gives each device its own loop.

Nothing is mapped without a distribution, where its batch axis has one device,
and on backends other than JAX.
"""

from collections.abc import Callable
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any
from typing import NamedTuple
from typing import TypeVar

import keras
import numpy as np
from keras import ops
from keras import tree

from keras_moe.types import Structure
from keras_moe.types import Tensor

if keras.backend.backend() == "jax":
    import jax
    from jax.sharding import PartitionSpec

# Tensors, in any structure: one entry for each row, or the same everywhere.
ByRow = TypeVar("ByRow")
Replicated = TypeVar("Replicated")


class _BatchAxis(NamedTuple):
    mesh: Any
    name: str

    @property
    def size(self) -> int:
        return int(self.mesh.shape[self.name])


# The axis that the function is mapped over which is being traced.
_mapped: ContextVar[_BatchAxis | None] = ContextVar("mapped_axis", default=None)


def num_devices() -> int:
    """Over how many devices `map_over_devices` splits the rows of a batch."""
    axis = _batch_axis()
    return 1 if axis is None else axis.size


def map_over_devices(
    function: Callable[..., tuple[ByRow, Replicated]],
    rows: Sequence[Tensor],
    replicated: Structure = (),
) -> tuple[ByRow, Replicated]:
    """Calls a function once on each device, on that device's rows.

    Args:
        function: Called with the list of rows and `replicated`. It returns
            what has an entry for each row, and what `max_over_devices` or
            the like has made the same on all devices. Gradients reach only
            what it is called with: it must not close over other tensors.
        rows: Tensors `(N, ...)`. Where `N` does not divide by the number of
            devices, `function` gets zeros behind the last row.
        replicated: Tensors of any shape, in any structure.

    Returns:
        What `function` returned, for all rows.
    """
    axis = _batch_axis()
    if axis is None:
        return function(list(rows), replicated)
    num_rows = rows[0].shape[0]
    padding = -num_rows % axis.size

    def on_device(
        rows: list[Tensor], replicated: Structure
    ) -> tuple[ByRow, Replicated]:
        token = _mapped.set(axis)
        try:
            return function(rows, replicated)
        finally:
            _mapped.reset(token)

    specs = (PartitionSpec(axis.name), PartitionSpec())
    by_row, everywhere = jax.shard_map(
        on_device,
        mesh=axis.mesh,
        in_specs=specs,
        out_specs=specs,
        # JAX cannot tell what a loop of unknown length leaves the same.
        check_vma=False,
    )([_pad(tensor, padding) for tensor in rows], replicated)
    if padding:
        by_row = tree.map_structure(lambda tensor: tensor[:num_rows], by_row)
    return by_row, everywhere


def device_index() -> int | Tensor:
    """Which of the devices it is, within `map_over_devices`; 0 outside."""
    axis = _mapped.get()
    return 0 if axis is None else jax.lax.axis_index(axis.name)


def max_over_devices(value: Tensor) -> Tensor:
    """The largest of the devices' values, the same for all of them."""
    axis = _mapped.get()
    return value if axis is None else jax.lax.pmax(value, axis.name)


def sum_over_devices(value: Tensor) -> Tensor:
    """The sum of the devices' values, the same for all of them."""
    axis = _mapped.get()
    return value if axis is None else jax.lax.psum(value, axis.name)


def own_rows(batch: Structure) -> Structure:
    """The rows of a batch that the devices of this process have.

    Keras takes these for a batch, where several processes share one.

    Args:
        batch: Arrays `(N, ...)` in any structure, the same in all processes;
            `N` divides by the number of devices.
    """
    if _batch_axis() is None or jax.process_count() == 1:
        return batch
    index, count = jax.process_index(), jax.process_count()
    return tree.map_structure(lambda rows: np.split(rows, count)[index], batch)


def on_all_devices(tensors: Structure) -> Structure:
    """Gathers the rows that are split over devices, on each of them.

    Without it, no process could read what the devices of others have.

    Args:
        tensors: Tensors of any shape, in any structure, of a call that JAX
            traces.
    """
    axis = _batch_axis()
    if axis is None:
        return tensors
    everywhere = jax.sharding.NamedSharding(axis.mesh, PartitionSpec())
    return tree.map_structure(
        lambda tensor: jax.lax.with_sharding_constraint(tensor, everywhere),
        tensors,
    )


def are_replicated(variables: Sequence[keras.Variable]) -> bool:
    """Whether each device has all values of the variables."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return True
    layouts = map(distribution.get_variable_layout, variables)
    return all(
        # A variable may have a layout of JAX's own.
        getattr(layout, "backend_layout", layout).is_fully_replicated
        for layout in layouts
    )


def _batch_axis() -> _BatchAxis | None:
    """What to map over; `None` where there is nothing, or a mapped function."""
    if keras.backend.backend() != "jax" or _mapped.get() is not None:
        return None
    distribution = keras.distribution.distribution()
    if distribution is None:
        return None
    axis = _BatchAxis(
        distribution.device_mesh.backend_mesh, distribution.batch_dim_name
    )
    return axis if axis.size > 1 else None


def _pad(rows: Tensor, padding: int) -> Tensor:
    if not padding:
        return rows
    return ops.pad(rows, [(0, padding), *[(0, 0)] * (len(rows.shape) - 1)])
