import keras

from keras_moe.metrics.mean_per_expert import MeanPerExpert
from keras_moe.types import DTypeLike
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class WeightPerExpert(MeanPerExpert):
    """The weight of each expert, on average over the examples.

    The means sum to 1 where every example's weights do.

    Args:
        num_experts: Integer `n >= 2`.
        name: String, defaults to `"weight_per_expert"`.
        dtype: Float type of the sums, defaults to Keras's `floatx`.

    Returns:
        From `result()`, a tensor `(n,)`; zeros before anything was seen.

    Raises:
        TypeError: If `num_experts` is not an integer.
        ValueError: If `num_experts` is outside `[2, 2^31)`, or weights have
            another number of experts.

    Example:
        >>> metric = WeightPerExpert(3)
        >>> metric.update_state([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
        >>> [float(weight) for weight in metric.result()]
        [0.25, 0.75, 0.0]
    """

    def __init__(
        self,
        num_experts: int,
        name: str = "weight_per_expert",
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(num_experts, name=name, dtype=dtype)

    def compute_values(self, rows: Tensor) -> Tensor:
        return rows
