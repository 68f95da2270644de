from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.types import Tensor

# Keeps the logarithm and its gradient finite at 0. The published
# implementations add the same.
EPSILON = 1e-6


def entropy(weights: Tensor, axis: int | tuple[int, ...] | None = -1) -> Tensor:
    """The entropy `Σ -a log(a + 1e-6)` over some axes, in nats.

    Args:
        weights: Float tensor of any shape, not negative.
        axis: Integer, tuple of integers, or `None` for all axes. Defaults to
            the last axis.

    Returns:
        Tensor without these axes.

    Example:
        >>> weights = np.array([[1.0, 0.0], [0.5, 0.5]])
        >>> [round(float(h), 4) for h in entropy(weights)]
        [-0.0, 0.6931]

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, section 3.3.
    """
    weights = as_tensor("weights", weights)
    return ops.sum(-weights * ops.log(weights + EPSILON), axis=axis)
