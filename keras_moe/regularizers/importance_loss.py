from keras_moe.checks import as_tensor
from keras_moe.ops._example_mean import example_mean
from keras_moe.regularizers.variation import squared_variation
from keras_moe.types import Tensor


def importance_loss(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """The importance loss: `CV(Σ_x g(x))²`, 0 when all experts weigh alike.

    The importance of an expert is the sum of its weights over the batch; CV
    is the coefficient of variation over the experts.

    Args:
        weights: Float tensor `(..., n)`, not negative.
        mask: Boolean tensor `(...)`, false for padding. Defaults to `None`.

    Returns:
        Scalar.

    Example:
        >>> float(importance_loss(np.array([[1.0, 0.0], [1.0, 0.0]])))
        1.0
        >>> float(importance_loss(np.array([[1.0, 0.0], [0.0, 1.0]])))
        0.0

    References:
        Shazeer et al., Outrageously Large Neural Networks: The
        Sparsely-Gated Mixture-of-Experts Layer, ICLR 2017, eq. 6 and 7.
    """
    weights = as_tensor("weights", weights, 1)
    return squared_variation(example_mean(weights, mask, trailing=1))
