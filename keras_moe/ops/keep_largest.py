from typing import Any

from keras import ops

from keras_moe.ops.top_k_mask import top_k_mask


def keep_largest(weights: Any, k: int) -> Any:
    """Keeps each row's `k` largest weights, rescaled to the same sum.

    Args:
        weights: Float tensor `(..., n)`, not negative.
        k: Integer in `[1, n]`. Ties go to the lower index.

    Returns:
        Tensor `(..., n)` with at most `k` weights per row.

    Example:
        >>> kept = keep_largest(np.array([0.5, 0.125, 0.25, 0.125]), k=2)
        >>> [round(float(weight), 4) for weight in kept]
        [0.6667, 0.0, 0.3333, 0.0]
    """
    kept = ops.where(top_k_mask(weights, k), weights, 0.0)
    total = ops.sum(weights, axis=-1, keepdims=True)
    kept_total = ops.sum(kept, axis=-1, keepdims=True)
    # A row without any weight stays without.
    scale = total / ops.where(kept_total > 0, kept_total, 1.0)
    return kept * scale
