import keras
from keras import ops

from keras_moe.metrics.rows import as_rows
from keras_moe.ops.selected import is_selected
from keras_moe.types import DTypeLike
from keras_moe.types import TensorLike


@keras.saving.register_keras_serializable(package="keras_moe")
class ExpertsPerExample(keras.metrics.Mean):
    """Mean number of experts selected per example.

    Counts the weights that are at least 1e-5 in each row of a gate's
    weights and takes the mean over all rows seen.

    Args:
        name: String, defaults to `"experts_per_example"`.
        dtype: Float type of the sums, defaults to Keras's `floatx`.

    Example:
        >>> metric = ExpertsPerExample()
        >>> metric.update_state([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> float(metric.result())
        1.5

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, section 5 ("n/s").
    """

    def __init__(
        self, name: str = "experts_per_example", dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(
        self, weights: TensorLike, sample_weight: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Args:
            weights: Tensor `(..., n)`.
            sample_weight: Tensor `(...)`, such as a 0/1 mask of padded
                positions. Defaults to `None`: every row counts 1.
        """
        rows, counts = as_rows(weights, sample_weight, self.dtype)
        selected = ops.cast(is_selected(rows), self.dtype)
        super().update_state(ops.sum(selected, axis=-1), counts)
