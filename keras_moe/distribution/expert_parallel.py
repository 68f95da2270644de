from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import keras

from keras_moe.distribution.devices import EXCHANGE_SLACK
from keras_moe.private_names import own_layout
from keras_moe.types import Shape

# Whether the weights that are being made have an entry for each expert.
_stacked: ContextVar[bool] = ContextVar("stacked", default=False)


@contextmanager
def stacked_weights(stacked: bool) -> Iterator[None]:
    """Says of weights made inside whether each expert has its entry.

    Args:
        stacked: Whether their first dimension counts experts.
    """
    token = _stacked.set(stacked)
    try:
        yield
    finally:
        _stacked.reset(token)


class ExpertParallel(keras.distribution.ModelParallel):
    """Splits the experts of each mixture over devices, and the rows over all.

    Along the axis of the experts, each device has its share of every bank
    whose weights are stacked (`MLPExperts`) and whose number of experts
    divides by the devices there; other weights are on every device. Rows go
    to the devices of their experts and the outputs back, exactly: no row is
    dropped. Along the other axes devices have the same experts, as under
    data parallelism. The batch is split over all of them.

    JAX only. A step gives the losses and weights that one device would.

    Attributes:
        exchange_slack: See the argument.
        row_axes: The axes along which the rows are split: all of the mesh.

    Args:
        device_mesh: A `keras.distribution.DeviceMesh` that has an axis
            `expert_dim_name`. Defaults to all devices along that axis.
        layout_map: A `keras.distribution.LayoutMap` on the same mesh, for
            weights that are split otherwise, or `None`.
        expert_dim_name: The axis of the experts. Defaults to `"experts"`.
        exchange_slack: Float from 0 on. How much more rows than even routing
            would give it a device has room for from each other. A batch
            with more is computed without the exchange, slower and as
            exactly. Defaults to 0.25, a quarter more.
        auto_shard_dataset: As in `keras.distribution.ModelParallel`.

    Raises:
        RuntimeError: If the backend is not JAX.
        ValueError: If an argument is wrong.

    Example:
        On four devices, two groups that have all experts each:

        ```python
        mesh = keras.distribution.DeviceMesh((2, 2), ["batch", "experts"])
        keras.distribution.set_distribution(ExpertParallel(mesh))
        ```

    References:
        Lepikhin et al., GShard, ICLR 2021, section 3.2 (the exchange of rows
        between data-parallel devices that have different experts).
    """

    def __init__(
        self,
        device_mesh: keras.distribution.DeviceMesh | None = None,
        layout_map: keras.distribution.LayoutMap | None = None,
        expert_dim_name: str = "experts",
        exchange_slack: float = EXCHANGE_SLACK,
        auto_shard_dataset: bool = True,
    ) -> None:
        if keras.backend.backend() != "jax":
            raise RuntimeError(
                "`ExpertParallel` needs JAX, the backend on which Keras splits "
                f"weights. Received: the backend {keras.backend.backend()!r}"
            )
        if device_mesh is None:
            devices = keras.distribution.list_devices()
            device_mesh = keras.distribution.DeviceMesh(
                (len(devices),), [expert_dim_name], devices
            )
        if expert_dim_name not in device_mesh.axis_names:
            raise ValueError(
                "`device_mesh` must have the axis `expert_dim_name`, "
                f"{expert_dim_name!r}. Received: a mesh with the axes "
                f"{list(device_mesh.axis_names)}"
            )
        if exchange_slack < 0:
            raise ValueError(
                "`exchange_slack` must not be negative. "
                f"Received: exchange_slack={exchange_slack!r}"
            )
        if layout_map is None:
            layout_map = keras.distribution.LayoutMap(device_mesh)
        if layout_map.device_mesh is not device_mesh:
            raise ValueError(
                "`layout_map` must be on the mesh `device_mesh`. Received: a "
                f"layout map on {layout_map.device_mesh}, and {device_mesh}"
            )
        self._expert_dim_name = expert_dim_name
        self.exchange_slack = exchange_slack
        # The same devices in a row: Keras names one axis for a batch.
        self._rows = keras.distribution.DeviceMesh(
            (device_mesh.devices.size,), ["rows"], device_mesh.devices
        )
        super().__init__(
            layout_map=layout_map, auto_shard_dataset=auto_shard_dataset
        )

    @property
    def row_axes(self) -> tuple[str, ...]:
        return tuple(self.device_mesh.axis_names)

    @property
    def num_model_replicas(self) -> int:
        return int(self.device_mesh.devices.size)

    def get_data_layout(
        self, data_shape: Shape
    ) -> keras.distribution.TensorLayout:
        axes = ["rows", *[None] * (len(data_shape) - 1)]
        return keras.distribution.TensorLayout(axes, self._rows)

    def get_variable_layout(
        self, variable: keras.Variable
    ) -> keras.distribution.TensorLayout | None:
        layout = own_layout(variable)
        if layout is not None or not self._splits(variable.shape):
            return super().get_variable_layout(variable)
        axes = [self._expert_dim_name, *[None] * (len(variable.shape) - 1)]
        return keras.distribution.TensorLayout(axes, self.device_mesh)

    def _splits(self, shape: Shape) -> bool:
        """Returns whether new weights of this shape are split."""
        axis = self.device_mesh.axis_names.index(self._expert_dim_name)
        return _stacked.get() and shape[0] % self.device_mesh.shape[axis] == 0
