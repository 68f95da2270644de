"""Tables whose rows are split over the devices that share a batch, on JAX.

Each device has as many rows of a table, and of its slots, as any other. Where
they do not divide, there is padding behind the last row, which nobody sees:
no id looks it up, and `variable_values` leaves it out.
"""

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING
from typing import Self

import keras
import numpy as np

from keras_moe.distribution import row_axes
from keras_moe.types import DTypeLike
from keras_moe.types import Tensor

if TYPE_CHECKING:
    import jax

Shape = tuple[int, ...]
Initializer = Callable[[Shape, DTypeLike], Tensor]

_minimum_rows: ContextVar[int | None] = ContextVar("minimum_rows", default=None)


@contextmanager
def splitting_tables(minimum_rows: int) -> Iterator[None]:
    """Lets tables that are built inside be split over devices.

    Over all that share the rows of a batch in the active
    `keras.distribution`. Only a `TableOptimizer` trains such tables.

    Args:
        minimum_rows: How many rows a table has to have to be split.
    """
    token = _minimum_rows.set(minimum_rows)
    try:
        yield
    finally:
        _minimum_rows.reset(token)


@dataclass(frozen=True)
class RowSplit:
    """The split of the rows of a table and of its slots.

    Attributes:
        mesh: The `jax.sharding.Mesh` of the devices.
        axes: The axes of the mesh that the rows lie along.
        num_rows: How many rows there are, without padding.
    """

    mesh: "jax.sharding.Mesh"
    axes: tuple[str, ...]
    num_rows: int

    @classmethod
    def of_new_table(cls, num_rows: int) -> Self | None:
        """Returns how a table that is being built is to be split, if it is."""
        minimum = _minimum_rows.get()
        distribution = keras.distribution.distribution()
        if minimum is None or distribution is None or num_rows < minimum:
            return None
        mesh = distribution.device_mesh.backend_mesh
        split = cls(mesh, row_axes(), num_rows)
        return split if split.num_devices > 1 else None

    @property
    def num_devices(self) -> int:
        """Number of devices that share the rows."""
        return prod(self.mesh.shape[axis] for axis in self.axes)

    @property
    def spans_processes(self) -> bool:
        """True if the devices belong to more than one process."""
        devices = self.mesh.devices.flat
        return len({device.process_index for device in devices}) > 1

    @property
    def padded_rows(self) -> int:
        """Number of rows of all devices, padding included."""
        return self.num_rows + -self.num_rows % self.num_devices

    @property
    def layout(self) -> "jax.sharding.NamedSharding":
        """The `jax.sharding.NamedSharding` of the table and of its slots."""
        from jax.sharding import NamedSharding
        from jax.sharding import PartitionSpec

        return NamedSharding(self.mesh, PartitionSpec(self.axes))

    def padded(self, shape: Shape) -> Shape:
        """Returns the shape that an array of all rows has with padding."""
        return (self.padded_rows, *shape[1:])

    def initializer(self, initialize: Initializer) -> Initializer:
        """Returns what makes, on each device, what an initializer has for it.

        Args:
            initialize: Called with the shape without padding, and a dtype.
        """
        return _Split(self, initialize)

    def place(self, rows: np.ndarray) -> "jax.Array":
        """Returns an array on the devices, with padding.

        Args:
            rows: Array `(num_rows, ...)`; each process reads what it has.
        """
        import jax

        shape = self.padded(rows.shape)

        def part(index: tuple[slice, ...]) -> np.ndarray:
            values = np.asarray(rows[index])
            start, stop, _ = index[0].indices(shape[0])
            padding = stop - start - len(values)
            return np.pad(values, [(0, padding), *[(0, 0)] * (values.ndim - 1)])

        return jax.make_array_from_callback(shape, self.layout, part)


@dataclass(frozen=True)
class _Split:
    """Calls an initializer for an array that is split.

    Not a function: Keras compiles the `__call__` of what makes large arrays,
    which JAX does not take of a function.
    """

    split: RowSplit
    initialize: Initializer

    def __call__(self, shape: Shape, dtype: DTypeLike) -> "jax.Array":
        import jax
        from jax import numpy as jnp

        split, rest = self.split, shape[1:]
        padding = split.padded_rows - split.num_rows

        def start() -> "jax.Array":
            rows = self.initialize((split.num_rows, *rest), dtype)
            return jnp.pad(rows, [(0, padding), *[(0, 0)] * len(rest)])

        return jax.jit(start, out_shardings=split.layout)()
