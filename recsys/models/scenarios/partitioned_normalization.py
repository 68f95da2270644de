from typing import Any

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class PartitionedNormalization(keras.layers.Layer):
    """Normalizes rows by the mean and variance of their scenario.

    y = (x - μ_p) / sqrt(σ²_p + ε) * (γ * γ_p) + β + β_p for a row of scenario
    p. While training, the moments are of the batch, otherwise running means of
    those.

    Published for batches of one scenario each. Here a batch has rows of
    several, and of one perhaps a single row: the rows of a scenario weigh 1 in
    its moments, and all rows of the batch together `pooled_rows` in addition.
    The moments of an unknown scenario are those of all rows, with γ_p = 1 and
    β_p = 0. With `pooled_rows` near 0, moments are as published.

    Args:
        num_scenarios: Integer, number of scenarios.
        pooled_rows: Float above 0. Defaults to 16.
        momentum: Float in `[0, 1)`, how much of the running means is kept in
            a step. They are plain means at first. Defaults to 0.99.
        epsilon: Float, added to the variance. Defaults to 1e-3.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(batch, width)`.
        scenarios: Int32 tensor `(batch,)`: numbers from 1, 0 for an unknown
            one.
        training: Boolean.

    Returns:
        Tensor `(batch, width)`, computed in float32.

    Example:
    >>> layer = PartitionedNormalization(num_scenarios=2)
    >>> tuple(layer(ops.ones((4, 5)), ops.arange(4) % 3, training=True).shape)
    (4, 5)

    References:
        Sheng et al. One Model to Serve All: Star Topology Adaptive Recommender
        for Multi-Domain CTR Prediction. CIKM 2021, section 3.3 (partitioned
        normalization).
    """

    def __init__(
        self,
        num_scenarios: int,
        pooled_rows: float = 16.0,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_scenarios = num_scenarios
        self.pooled_rows = pooled_rows
        self.momentum = momentum
        self.epsilon = epsilon

    def build(self, inputs_shape: Shape, scenarios_shape: Shape) -> None:
        width, count = inputs_shape[-1], self.num_scenarios
        for name, shape, initializer, trainable in (
            ("gamma", (width,), "ones", True),
            ("beta", (width,), "zeros", True),
            ("gammas", (count, width), "ones", True),
            ("betas", (count, width), "zeros", True),
            # Row 0 is of all rows, for unknown scenarios.
            ("means", (count + 1, width), "zeros", False),
            ("variances", (count + 1, width), "ones", False),
            ("num_updates", (count + 1,), "zeros", False),
        ):
            weight = self.add_weight(
                name=name,
                shape=shape,
                initializer=initializer,
                trainable=trainable,
                dtype="float32",
                autocast=False,
            )
            setattr(self, name, weight)

    def call(
        self,
        inputs: Tensor,
        scenarios: Tensor,
        training: bool | None = None,
    ) -> Tensor:
        x = ops.cast(inputs, "float32")
        means, variances = ops.copy(self.means), ops.copy(self.variances)
        if training:
            means, variances, counts = self._moments(x, scenarios)
            self._update(means, variances, counts)
        scales = self.gamma * _before(1.0, self.gammas)
        shifts = self.beta + _before(0.0, self.betas)
        means, variances, scales, shifts = (
            ops.take(table, scenarios, axis=0)  # (batch, width)
            for table in (means, variances, scales, shifts)
        )
        normal = (x - means) * ops.rsqrt(variances + self.epsilon)
        return ops.cast(normal * scales + shifts, self.compute_dtype)

    def _moments(
        self, x: Tensor, scenarios: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Means and variances `(scenarios + 1, width)`, and rows of each."""
        of_scenario = ops.one_hot(scenarios, self.num_scenarios + 1)
        # Nothing but what all rows add is in the moments of row 0.
        of_scenario = of_scenario[:, 1:]  # (batch, scenarios)
        counts = ops.pad(ops.sum(of_scenario, axis=0), [[1, 0]])
        sums = ops.pad(ops.transpose(of_scenario), [[1, 0], [0, 0]])
        weights = (counts + self.pooled_rows)[:, None]
        # Squares of large values would lose the variance.
        center = ops.mean(x, axis=0)
        x = x - center
        squares = ops.matmul(sums, x * x)
        squares += self.pooled_rows * ops.mean(x * x, axis=0)
        means = ops.matmul(sums, x) / weights
        variances = ops.maximum(squares / weights - means * means, 0.0)
        return center + means, variances, counts

    def _update(self, means: Tensor, variances: Tensor, counts: Tensor) -> None:
        rows = ops.arange(self.num_scenarios + 1)
        seen = ops.logical_or(counts > 0, rows == 0)
        updates = ops.copy(self.num_updates)
        kept = ops.minimum(updates / (updates + 1), self.momentum)
        kept = ops.where(seen, kept, 1.0)[:, None]
        self.num_updates.assign(updates + ops.cast(seen, "float32"))
        for table, values in ((self.means, means), (self.variances, variances)):
            values = ops.stop_gradient(values)
            table.assign(kept * table + (1 - kept) * values)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_scenarios": self.num_scenarios,
            "pooled_rows": self.pooled_rows,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
        }


def _before(first: float, table: Tensor) -> Tensor:
    """A table with a row of one value before its rows."""
    return ops.pad(table, [[1, 0], [0, 0]], constant_values=first)
