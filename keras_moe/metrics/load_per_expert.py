from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.metrics.rows import as_rows
from keras_moe.ops.selected import is_selected


@keras.saving.register_keras_serializable(package="keras_moe")
class LoadPerExpert(keras.metrics.Metric):
    """The load of each expert: the share of examples that select it.

    An example selects an expert when it gives it a weight of at least 1e-5.
    Each load lies in [0, 1]; their sum is the number of experts per example.

    Args:
        num_experts: Integer `n >= 2`.
        name: String, defaults to `"load_per_expert"`.
        dtype: Float type of the sums, defaults to Keras's `floatx`.

    Returns:
        From `result()`, a tensor `(n,)`; zeros before anything was seen.

    Raises:
        TypeError: If `num_experts` is not an integer.
        ValueError: If `num_experts < 2`, or weights have another number of
            experts.

    Example:
        >>> metric = LoadPerExpert(3)
        >>> metric.update_state([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
        >>> [float(load) for load in metric.result()]
        [0.5, 1.0, 0.0]
    """

    def __init__(
        self,
        num_experts: int,
        name: str = "load_per_expert",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.num_experts = check_integer("num_experts", num_experts, 2)
        self.selected = self.add_variable(
            (num_experts,), "zeros", dtype=self.dtype, name="selected"
        )
        self.examples = self.add_variable(
            (), "zeros", dtype=self.dtype, name="examples"
        )

    def update_state(self, weights: Any, sample_weight: Any = None) -> None:
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
        selected = ops.cast(is_selected(rows), self.dtype)
        self.selected.assign_add(ops.sum(counts[:, None] * selected, axis=0))
        self.examples.assign_add(ops.sum(counts))

    def result(self) -> Any:
        """Returns the loads `(n,)`."""
        return ops.divide_no_nan(self.selected, self.examples)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_experts": self.num_experts}
