"""The devices that share a batch under an active `keras.distribution`.

The one module that knows the mesh. Its axes, and what lies along them:

    rows     the axes along which the rows of a batch are split: the
             distribution's `batch_dim_name`, or all of an `ExpertParallel`'s
    experts  the axis along which a bank's weights are split, each device
             having some of its experts; the devices that have all of them
             together are a group. It may be one of the axes of the rows
    others   devices along them have the same rows and weights

Keras leaves it to XLA to cut a computation along these axes. That goes well
with operations on all rows at once, but a loop over blocks of rows would run
in full on every device. `map_over_devices` gives each device its own loop.

Nothing is mapped without a distribution, where the rows lie on one device, and
on backends other than JAX.
"""

from collections.abc import Callable
from collections.abc import Sequence
from contextvars import ContextVar
from math import prod
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

# What there is room for in an exchange beyond even routing, unless the
# distribution says otherwise: a quarter.
EXCHANGE_SLACK = 0.25

# Tensors, in any structure: one entry for each row, or the same everywhere.
ByRow = TypeVar("ByRow")
Replicated = TypeVar("Replicated")
Carried = TypeVar("Carried")


class _Axes(NamedTuple):
    """The axes that the function is mapped over which is being traced."""

    mesh: "jax.sharding.Mesh"
    rows: tuple[str, ...]
    experts: str | None = None

    @property
    def num_devices(self) -> int:
        return prod(self.mesh.shape[name] for name in self.rows)


_mapped: ContextVar[_Axes | None] = ContextVar("mapped_axes", default=None)


def row_axes() -> tuple[str, ...]:
    """The axes along which the active distribution splits the rows."""
    distribution = keras.distribution.distribution()
    return tuple(
        getattr(distribution, "row_axes", (distribution.batch_dim_name,))
    )


def num_devices(expert_axis: str | None = None) -> int:
    """Over how many devices `map_over_devices` splits the rows of a batch.

    Args:
        expert_axis: As for `map_over_devices`.
    """
    axes = _axes(expert_axis)
    return 1 if axes is None else axes.num_devices


def map_over_devices(
    function: Callable[..., tuple[ByRow, Replicated]],
    rows: Sequence[Tensor],
    replicated: Structure = (),
    weights: Sequence[Tensor] = (),
    expert_axis: str | None = None,
) -> tuple[ByRow, Replicated]:
    """Calls a function once on each device, on that device's rows.

    Args:
        function: Called with the list of rows, `replicated` and `weights`. It
            returns what has an entry for each row, and what
            `max_over_devices` or the like has made the same on all devices.
            Gradients reach only what it is called with: it must not close
            over other tensors.
        rows: Tensors `(N, ...)`. Where `N` does not divide by the number of
            devices, `function` gets zeros behind the last row.
        replicated: Tensors of any shape, in any structure.
        weights: Tensors. With an `expert_axis` they are `(E, ...)`, and each
            device gets the entries of its experts.
        expert_axis: The axis along which `weights` are split, and the rows,
            too. Defaults to `None`.

    Returns:
        What `function` returned, for all rows.
    """
    axes = _axes(expert_axis)
    if axes is None:
        return function(list(rows), replicated, list(weights))
    num_rows = rows[0].shape[0]
    padding = -num_rows % axes.num_devices
    of_rows, everywhere = PartitionSpec(axes.rows), PartitionSpec()
    of_weights = PartitionSpec(expert_axis) if expert_axis else everywhere

    def on_device(*arguments: object) -> tuple[ByRow, Replicated]:
        token = _mapped.set(axes)
        try:
            return function(*arguments)
        finally:
            _mapped.reset(token)

    by_row, same = jax.shard_map(
        on_device,
        mesh=axes.mesh,
        in_specs=(of_rows, everywhere, of_weights),
        out_specs=(of_rows, everywhere),
        # JAX cannot tell what a loop of unknown length leaves the same.
        check_vma=False,
    )([_pad(tensor, padding) for tensor in rows], replicated, list(weights))
    if padding:
        by_row = tree.map_structure(lambda tensor: tensor[:num_rows], by_row)
    return by_row, same


def device_index() -> int | Tensor:
    """Returns this device's index in `map_over_devices`; 0 outside."""
    axes = _mapped.get()
    return 0 if axes is None else jax.lax.axis_index(axes.rows)


def max_over_devices(value: Tensor) -> Tensor:
    """The largest of the devices' values, the same for all of them."""
    axes = _mapped.get()
    return value if axes is None else jax.lax.pmax(value, axes.rows)


def sum_over_devices(value: Tensor) -> Tensor:
    """The sum of the devices' values, the same for all of them."""
    axes = _mapped.get()
    return value if axes is None else jax.lax.psum(value, axes.rows)


def group_size() -> int:
    """Returns the number of devices in a group that splits the experts."""
    axes = _mapped.get()
    if axes is None or axes.experts is None:
        return 1
    return int(axes.mesh.shape[axes.experts])


def exchange_slack() -> float:
    """Returns the room of an exchange beyond even routing, as a share."""
    distribution = keras.distribution.distribution()
    return float(getattr(distribution, "exchange_slack", EXCHANGE_SLACK))


def place_in_group() -> Tensor:
    """Returns the index of the device in its group, which sets its experts."""
    return jax.lax.axis_index(_expert_axis())


def exchange(tensor: Tensor) -> Tensor:
    """Each device of a group sends each other what is for that one.

    Args:
        tensor: Tensor `(G B, ...)`, `G` being the size of the group: `B`
            entries for its first device, then those for its second, and so on.

    Returns:
        Tensor `(G B, ...)`: the entries from the first device, then those
        from the second, and so on.
    """
    return jax.lax.all_to_all(tensor, _expert_axis(), 0, 0, tiled=True)


def pass_around(
    function: Callable[[Structure, ByRow, Carried], tuple[ByRow, Carried]],
    visiting: Structure,
    results: ByRow,
    carried: Carried,
) -> tuple[ByRow, Carried]:
    """Calls a function on each device with what every device of a group has.

    What a device has goes around the group once, one step after the other, so
    that no device ever holds more than that of one.

    Args:
        function: Called with `visiting` and `results` of one device, and with
            what this device's last call has left in `carried`. It returns the
            new `results` and `carried`. It is called again in the backward
            pass, which would otherwise keep what each step computes.
        visiting: Tensors of any shape, in any structure.
        results: Tensors, which travel with `visiting`.
        carried: Tensors, which stay.

    Returns:
        This device's `results` after a call on each device of the group, and
        what the last of this device's calls has left in `carried`.
    """
    axis, size = _expert_axis(), group_size()
    neighbours = [(place, (place + 1) % size) for place in range(size)]

    def step(state: Any, _: None) -> tuple[Any, None]:
        visiting, results, carried = state
        results, carried = jax.checkpoint(function)(visiting, results, carried)
        travelling = jax.lax.ppermute((visiting, results), axis, neighbours)
        return (*travelling, carried), None

    state, _ = jax.lax.scan(
        step, (visiting, results, carried), None, length=size
    )
    return state[1:]


def own_rows(batch: Structure) -> Structure:
    """The rows of a batch that the devices of this process have.

    Keras takes these for a batch, where several processes share one.

    Args:
        batch: Arrays `(N, ...)` in any structure, the same in all processes;
            `N` divides by the number of devices.
    """
    if _axes() is None or jax.process_count() == 1:
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
    axes = _axes()
    if axes is None:
        return tensors
    everywhere = jax.sharding.NamedSharding(axes.mesh, PartitionSpec())
    return tree.map_structure(
        lambda tensor: jax.lax.with_sharding_constraint(tensor, everywhere),
        tensors,
    )


def are_replicated(variables: Sequence[keras.Variable]) -> bool:
    """Returns whether each device has all values of the variables."""
    return all(
        layout is None or layout.is_fully_replicated
        for layout in map(_layout, variables)
    )


def axis_of_experts(variables: Sequence[keras.Variable]) -> str | None:
    """The axis along which the first dimension of all variables is split.

    `None` if there is no such axis, or the variables are split elsewhere.
    """
    if keras.backend.backend() != "jax":
        return None
    names = set()
    for layout in map(_layout, variables):
        if layout is None or layout.is_fully_replicated:
            return None
        first, *rest = layout.spec
        names.add(None if any(rest) else first)
    name = names.pop() if len(names) == 1 else None
    return name if isinstance(name, str) else None


def _layout(variable: keras.Variable) -> "jax.sharding.Sharding | None":
    """JAX's sharding of a variable, if there is a distribution."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return None
    layout = distribution.get_variable_layout(variable)
    # A variable may have a layout of JAX's own.
    return getattr(layout, "backend_layout", layout)


def _axes(expert_axis: str | None = None) -> _Axes | None:
    """Returns the mesh to map over; `None` if none, or within a mapping."""
    if keras.backend.backend() != "jax" or _mapped.get() is not None:
        return None
    distribution = keras.distribution.distribution()
    if distribution is None:
        return None
    names = row_axes()
    if expert_axis is not None and expert_axis not in names:
        names = (*names, expert_axis)
    mesh = distribution.device_mesh.backend_mesh
    axes = _Axes(mesh, names, expert_axis)
    return axes if axes.num_devices > 1 else None


def _expert_axis() -> str:
    axes = _mapped.get()
    if axes is None or axes.experts is None:
        raise RuntimeError(
            "The call must be within a function mapped over devices with "
            "experts. Received: a call outside of one"
        )
    return axes.experts


def _pad(rows: Tensor, padding: int) -> Tensor:
    if not padding:
        return rows
    return ops.pad(rows, [(0, padding), *[(0, 0)] * (len(rows.shape) - 1)])
