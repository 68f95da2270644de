import keras
from keras import ops

from keras_moe.checks import check_size
from keras_moe.metrics.rows import as_rows
from keras_moe.types import Config
from keras_moe.types import DTypeLike
from keras_moe.types import Tensor
from keras_moe.types import TensorLike


class MeanPerExpert(keras.metrics.Metric):
    """Base class of the metrics that average a value per expert over rows.

    Args:
        num_experts: Integer `n >= 2`.
        name: String.
        dtype: Float type of the sums, defaults to Keras's `floatx`.
    """

    def __init__(
        self, num_experts: int, name: str, dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.num_experts = check_size("num_experts", num_experts, 2)
        self.total = self.add_variable(
            (num_experts,), "zeros", dtype=self.dtype, name="total"
        )
        self.examples = self.add_variable(
            (), "zeros", dtype=self.dtype, name="examples"
        )

    def compute_values(self, rows: Tensor) -> Tensor:
        """Returns what is averaged, `(N, n)`, for weights `(N, n)`."""
        raise NotImplementedError

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
        if rows.shape[-1] != self.num_experts:
            raise ValueError(
                f"`weights` must have {self.num_experts} experts in the last "
                f"axis. Received: weights.shape={tuple(ops.shape(weights))}"
            )
        values = counts[:, None] * self.compute_values(rows)
        self.total.assign_add(ops.sum(values, axis=0))
        self.examples.assign_add(ops.sum(counts))

    def result(self) -> Tensor:
        """Returns the means `(n,)`."""
        return ops.divide_no_nan(self.total, self.examples)

    def get_config(self) -> Config:
        return {**super().get_config(), "num_experts": self.num_experts}
