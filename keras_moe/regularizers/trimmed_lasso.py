from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._example_mean import example_mean
from keras_moe.ops.top_k import top_k_mask
from keras_moe.types import Tensor


def trimmed_lasso(
    weights: Tensor, k: int, mask: Tensor | None = None
) -> Tensor:
    """The trimmed lasso: the mean of what the `k` largest weights leave out.

    It is 0 exactly where no example has more than `k` weights.

    Args:
        weights: Float tensor `(..., n)`, not negative.
        k: Integer in `[1, n]`.
        mask: Boolean tensor `(...)`, false for padding. Defaults to `None`.

    Returns:
        Scalar.

    Example:
        >>> float(trimmed_lasso(np.array([[0.5, 0.25, 0.25]]), k=2))
        0.25

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, section 3.2.
        Bertsimas et al., The Trimmed Lasso: Sparsity and Robustness, 2017.
    """
    weights = as_tensor("weights", weights, 1)
    left_out = ops.where(top_k_mask(weights, k), 0.0, weights)
    return example_mean(ops.sum(left_out, axis=-1), mask)
