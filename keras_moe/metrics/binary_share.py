import keras
from keras import ops

from keras_moe.types import DTypeLike
from keras_moe.types import TensorLike


@keras.saving.register_keras_serializable(package="keras_moe")
class BinaryShare(keras.metrics.Mean):
    """The share of the examples whose selectors are all binary.

    A selector spreads a probability over the experts, and is binary when all
    its entries are exactly 0 or 1. An example counts when each of its `k`
    selectors is. At a share of 1 a `DSelectKGate` or
    `COMETGate` is as sparse as its `k` says, and stays so: the gradients of
    its choices are exactly 0.

    Args:
        name: String, defaults to `"binary_share"`.
        dtype: Float type of the sums, defaults to Keras's `floatx`.

    Example:
        >>> metric = BinaryShare()
        >>> metric.update_state(
        ...     [
        ...         [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
        ...         [[0.0, 1.0, 0.0], [0.9, 0.1, 0.0]],
        ...     ]
        ... )
        >>> float(metric.result())
        0.5

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix C.3, table C.4 ("until binary S(Z)").
    """

    def __init__(
        self, name: str = "binary_share", dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(
        self, selectors: TensorLike, sample_weight: TensorLike | None = None
    ) -> None:
        """Adds a batch.

        Args:
            selectors: Tensor `(..., k, n)`; a static gate's `(k, n)` is one
                example.
            sample_weight: Tensor `(...)`, such as a 0/1 mask of padded
                positions. Defaults to `None`: every example counts 1.
        """
        selectors = ops.convert_to_tensor(selectors)
        certain = ops.logical_or(selectors == 0, selectors == 1)
        binary = ops.all(certain, axis=(-2, -1))  # (...)
        super().update_state(ops.cast(binary, self.dtype), sample_weight)
