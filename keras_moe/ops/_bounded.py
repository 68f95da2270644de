from keras import ops

from keras_moe.types import Tensor

# Float32 goes to 2^128: there is room for the sum of 2^20 products with weights
# up to 2^27.
LARGEST_FEATURE = 2.0**80


def bounded(features: Tensor) -> Tensor:
    """Features as a gate multiplies them: float32, at most 2^80 in size.

    The products of larger ones would overflow, and their sums be infinite or,
    of both signs, not a number. NaN stays NaN, and whatever is smaller than
    about 1.2e24 is as it was.

    Args:
        features: Tensor of numbers of any type and shape.

    Returns:
        Float32 tensor of the same shape.

    Example:
        >>> values = bounded(np.array([1.5, -np.inf]))
        >>> [float(value) for value in values]
        [1.5, -1.2089258196146292e+24]
    """
    features = ops.cast(features, "float32")
    return ops.clip(features, -LARGEST_FEATURE, LARGEST_FEATURE)
