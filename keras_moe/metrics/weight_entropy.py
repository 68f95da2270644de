import keras
from keras import ops

from keras_moe.metrics.rows import as_rows
from keras_moe.types import DTypeLike
from keras_moe.types import TensorLike


@keras.saving.register_keras_serializable(package="keras_moe")
class WeightEntropy(keras.metrics.Mean):
    """Mean entropy of an example's weights.

    The entropy of a row, `-Σ_i p_i log p_i` in nats with `p` the row divided
    by its sum, is 0 when one expert has all the weight and `log n` when all
    have the same. Its mean is over all rows seen that have any weight.

    Args:
        name: String, defaults to `"weight_entropy"`.
        dtype: Float type of the sums, defaults to Keras's `floatx`.

    Example:
        >>> metric = WeightEntropy()
        >>> metric.update_state([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> round(float(metric.result()), 4)  # log(2) / 2
        0.3466
    """

    def __init__(
        self, name: str = "weight_entropy", dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(
        self, weights: TensorLike, sample_weight: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Args:
            weights: Non-negative tensor `(..., n)`.
            sample_weight: Tensor `(...)`, such as a 0/1 mask of padded
                positions. Defaults to `None`: every row counts 1.
        """
        rows, counts = as_rows(weights, sample_weight, self.dtype)
        sums = ops.sum(rows, axis=-1)  # (N,)
        routed = sums > 0
        probabilities = rows / ops.where(routed, sums, 1.0)[:, None]
        # 0 log 0 = 0.
        logs = ops.log(ops.where(probabilities > 0, probabilities, 1.0))
        super().update_state(
            -ops.sum(probabilities * logs, axis=-1),
            counts * ops.cast(routed, self.dtype),
        )
