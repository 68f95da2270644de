from typing import Any

from keras import ops

from keras_moe.ops.top_k_mask import top_k_mask


def top_k_softmax(logits: Any, k: int) -> Any:
    """The `k` largest probabilities of a softmax; the others are exactly 0.

    They keep their values, so that they sum to less than 1: unlike those of
    a softmax over the `k` largest logits, they have a gradient for `k = 1`.

    Args:
        logits: Float tensor `(..., n)`.
        k: Integer in `[1, n]`. Ties go to the lower index.

    Returns:
        Tensor `(..., n)` with at most `k` weights per row.

    Example:
        >>> logits = np.log(np.array([1.0, 5.0, 2.0]))
        >>> [round(float(weight), 3) for weight in top_k_softmax(logits, k=2)]
        [0.0, 0.625, 0.25]

    References:
        Riquelme et al., Scaling Vision with Sparse Mixture of Experts,
        NeurIPS 2021, section 2.2.
    """
    probabilities = ops.softmax(logits, axis=-1)
    return ops.where(top_k_mask(logits, k), probabilities, 0.0)
