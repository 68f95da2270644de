import keras
from keras import ops

from keras_moe.metrics.mean_per_expert import MeanPerExpert
from keras_moe.ops.selected import is_selected
from keras_moe.types import DTypeLike
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class LoadPerExpert(MeanPerExpert):
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
        ValueError: If `num_experts` is outside `[2, 2^31)`, or weights have
            another number of experts.

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
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(num_experts, name=name, dtype=dtype)

    def compute_values(self, rows: Tensor) -> Tensor:
        return ops.cast(is_selected(rows), self.dtype)
