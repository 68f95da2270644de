from keras import ops

from keras_moe.types import Tensor


def squared_variation(values: Tensor) -> Tensor:
    """The squared coefficient of variation, `Var / Mean²`; 0 for zeros alone.

    Args:
        values: Float tensor `(n,)`, not negative.

    Returns:
        Scalar.

    Example:
        >>> float(squared_variation(np.array([3.0, 1.0])))
        0.25
    """
    squared_mean = ops.square(ops.mean(values))
    return ops.divide_no_nan(ops.var(values), squared_mean)
