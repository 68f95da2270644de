import numpy as np
from keras import ops

from keras_moe.types import TensorLike

# Of the mean load, how far that of a balanced expert is from it.
BALANCED_WITHIN = 0.1


def load_balance(loads: TensorLike) -> np.ndarray:
    """Balance of the examples over the experts: `Σ_i min(p_i, 1/n)`.

    `p_i` is expert i's part of all loads. The sum is the share of the
    (example, expert) pairs that experts with room for an equal part each could
    take, and 1 minus the total variation distance between the loads and equal
    ones: 1 where all loads are alike, `1/n` where one expert has them all.

    Args:
        loads: Array `(..., n)`, the load of each expert, as shares of the
            examples (`LoadPerExpert`) or as counts.

    Returns:
        NumPy array `(...)`, 0 where nothing is loaded.

    Example:
        >>> load_balance([[4, 4, 4, 4], [8, 4, 2, 2], [16, 0, 0, 0]]).tolist()
        [1.0, 0.75, 0.25]

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, supplement S3.4, gives such percentages without
        saying what they are of; this is our definition.
    """
    parts = _parts(loads)
    return np.minimum(parts, 1 / parts.shape[-1]).sum(axis=-1)


def balanced_experts(loads: TensorLike) -> np.ndarray:
    """The share of the experts whose load is within 10 % of the mean load.

    Args:
        loads: As for `load_balance`.

    Returns:
        NumPy array `(...)`, 0 where nothing is loaded.

    Example:
        >>> balanced_experts([[11, 10, 10, 9], [10, 10, 14, 6]]).tolist()
        [1.0, 0.5]
    """
    parts = _parts(loads)
    # A load that is 10 % off counts, however it is rounded.
    off = np.round(np.abs(parts.shape[-1] * parts - 1), 9)
    return (off <= BALANCED_WITHIN).mean(axis=-1)


def _parts(loads: TensorLike) -> np.ndarray:
    """The loads `(..., n)` as parts of their sum."""
    values = np.asarray(ops.convert_to_numpy(loads), np.float64)
    total = values.sum(axis=-1, keepdims=True)
    return values / np.where(total > 0, total, 1)
