from keras import ops

from keras_moe.types import Tensor


def zero_but_nan(x: Tensor) -> Tensor:
    """Zeros, but for the entries that are not a number, which stay NaN.

    What a gate writes in place of weights that it drops: an example whose
    weights cannot be computed must not look like one without any expert.

    Args:
        x: Float tensor of any shape.

    Returns:
        Tensor of the shape of `x`.

    Example:
        >>> [float(entry) for entry in zero_but_nan(np.array([0.5, np.nan]))]
        [0.0, nan]
    """
    x = ops.convert_to_tensor(x)
    return ops.where(ops.isnan(x), x, 0.0)
