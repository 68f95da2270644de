from keras import ops

from keras_moe.ops.masked_softmax import FLOAT32_MIN
from keras_moe.ops.top_k import top_k_mask
from keras_moe.types import Tensor


def within_best_groups(
    scores: Tensor, num_groups: int, groups_per_example: int, num_counted: int
) -> Tensor:
    """Keeps the scores of each row's best groups of experts.

    The experts are in equal groups of neighbours. A group is as good as the sum
    of its `num_counted` largest scores; ties go to the lower index.

    Args:
        scores: Float32 tensor `(..., n)`.
        num_groups: Integer that divides `n`.
        groups_per_example: Integer in `[1, num_groups]`.
        num_counted: Integer in `[1, n / num_groups]`.

    Returns:
        Float32 tensor `(..., n)`: the score, or the float32 minimum outside of
        the groups that a row keeps. NaN stays NaN; a row with any keeps nothing
        else.

    Example:
        >>> scores = np.array([0.9, 0.0, 0.5, 0.6], "float32")
        >>> kept = within_best_groups(scores, 2, 1, num_counted=2)
        >>> [round(float(score), 1) for score in kept[2:]]
        [0.5, 0.6]

    References:
        DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 2.1.2,
        node-limited routing.
    """
    scores = ops.convert_to_tensor(scores)
    shape = ops.shape(scores)
    size = scores.shape[-1] // num_groups
    groups = ops.reshape(scores, (*shape[:-1], num_groups, size))
    counted = ops.where(top_k_mask(groups, num_counted), groups, 0.0)
    # (..., num_groups)
    kept = top_k_mask(ops.sum(counted, axis=-1), groups_per_example)
    limited = ops.where(kept[..., None], groups, FLOAT32_MIN)
    limited = ops.reshape(limited, shape)  # (..., n)
    return ops.where(ops.isnan(scores), scores, limited)
