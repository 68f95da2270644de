import math

import keras
from keras import ops

from keras_moe.metrics.rows import as_rows
from keras_moe.ops._largest import largest
from keras_moe.types import DTypeLike
from keras_moe.types import Tensor
from keras_moe.types import TensorLike


@keras.saving.register_keras_serializable(package="keras_moe")
class SimplexViolation(keras.metrics.Metric):
    """Largest distance of any weights from the simplex.

    A row `w` strays by `max(|Σ_i w_i - 1|, max_i -w_i)`: 0 when it is
    non-negative and sums to 1, a few 1e-7 by rounding alone, infinite when a
    weight is not a finite number. The result is the largest over all rows
    seen.

    Args:
        name: String, defaults to `"simplex_violation"`.
        dtype: Float type of the computation, defaults to Keras's `floatx`.

    Example:
        >>> metric = SimplexViolation()
        >>> metric.update_state([[0.5, 0.5, 0.0], [0.0, 0.0, 0.75]])
        >>> float(metric.result())
        0.25
    """

    def __init__(
        self, name: str = "simplex_violation", dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.largest = self.add_variable(
            (), "zeros", dtype=self.dtype, name="largest"
        )

    def update_state(
        self, weights: TensorLike, sample_weight: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Args:
            weights: Tensor `(..., n)`.
            sample_weight: Tensor `(...)`; rows where it is 0, such as padded
                positions, are left out. Defaults to `None`: every row counts.
        """
        rows, counts = as_rows(weights, sample_weight, self.dtype)
        deviations = ops.abs(ops.sum(rows, axis=-1) - 1.0)  # (N,)
        candidates = ops.concatenate(
            [
                ops.where(counts > 0, deviations, 0.0),
                ops.reshape(-rows, (-1,)),
            ]
        )
        # A maximum may ignore NaN.
        violations = ops.where(ops.isfinite(candidates), candidates, math.inf)
        self.largest.assign(
            ops.maximum(self.largest, largest(violations, initial=0.0))
        )

    def result(self) -> Tensor:
        """Returns the scalar violation."""
        return ops.cast(self.largest, self.dtype)
