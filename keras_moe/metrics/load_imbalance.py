import keras
from keras import ops

from keras_moe.metrics.load_per_expert import LoadPerExpert
from keras_moe.types import DTypeLike
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class LoadImbalance(LoadPerExpert):
    """The largest load of an expert, as a multiple of the mean load.

    1 when every expert is selected by as many examples as any other, `n`
    when one expert is selected alone.

    Args:
        num_experts: Integer `n >= 2`.
        name: String, defaults to `"load_imbalance"`.
        dtype: Float type of the sums, defaults to Keras's `floatx`.

    Returns:
        From `result()`, a scalar tensor; 0 before anything was selected.

    Raises:
        TypeError: If `num_experts` is not an integer.
        ValueError: If `num_experts` is outside `[2, 2^31)`, or weights have
            another number of experts.

    Example:
        >>> metric = LoadImbalance(3)
        >>> metric.update_state([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
        >>> float(metric.result())  # max(0.5, 1, 0) / mean(0.5, 1, 0)
        2.0
    """

    def __init__(
        self,
        num_experts: int,
        name: str = "load_imbalance",
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(num_experts, name=name, dtype=dtype)

    def result(self) -> Tensor:
        """Returns the scalar imbalance."""
        loads = super().result()
        return ops.divide_no_nan(ops.max(loads), ops.mean(loads))
