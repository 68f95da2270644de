from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.types import Tensor
from keras_moe.types import TensorLike

SELECTED_WEIGHT = 1e-5


def is_selected(weights: TensorLike) -> Tensor:
    """Tells which experts count as selected: those with weight >= 1e-5.

    The threshold is that of the published tables of experts per example
    ("n/s").

    Args:
        weights: Float tensor of any shape.

    Returns:
        Boolean tensor of the same shape.

    Example:
        >>> [bool(x) for x in is_selected(np.array([0.7, 1e-5, 9e-6]))]
        [True, True, False]

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, section 5.
    """
    return ops.greater_equal(as_tensor("weights", weights), SELECTED_WEIGHT)
