from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_moe.ops.selected import is_selected
from keras_moe.types import TensorLike


def jaccard_indices(weights: TensorLike) -> np.ndarray:
    """Similarity of the experts selected by any two tasks.

    Tasks A and B, which select the sets of experts a and b, have the Jaccard
    index `|a ∩ b| / |a ∪ b|`: 1 where they select the same experts, 0 where
    they share none. An expert is selected by a weight of at least 1e-5.

    Args:
        weights: Array `(..., T, n)`, the weights of each task's experts: of
            static gates, or of gates that decide for each row.

    Returns:
        NumPy array `(..., T, T)`, NaN where neither task selects an expert.

    Example:
        >>> weights = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        >>> jaccard_indices(weights).tolist()
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix C.1.
    """
    selected = ops.convert_to_numpy(is_selected(weights)).astype(np.int64)
    sizes = selected.sum(axis=-1)
    shared = selected @ selected.swapaxes(-1, -2)  # (..., T, T)
    union = sizes[..., None] + sizes[..., None, :] - shared
    with np.errstate(invalid="ignore"):
        return shared / union


def jaccard_index(
    weights: TensorLike, groups: Sequence[int]
) -> tuple[float, float]:
    """Similarity of the tasks' selected experts, within and across groups.

    The `jaccard_indices` are averaged over the pairs of tasks of one group,
    and over those of two groups.

    Args:
        weights: Array `(T, n)`, the weights of each task's experts, such as
            those of its static gate. Each task selects at least one.
        groups: `T` integers, the group of each task.

    Returns:
        The mean over the pairs within a group (related tasks) and the mean
        over the pairs across groups (unrelated tasks); NaN where there is no
        such pair.

    Raises:
        ValueError: If `weights` is not of shape `(T, n)` with the `T` of
            `groups`, or a task selects no expert.

    Example:
        >>> weights = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        >>> jaccard_index(weights, groups=[0, 0, 1])
        (0.5, 0.0)

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix C.1.
    """
    selected = ops.convert_to_numpy(is_selected(weights))
    if selected.ndim != 2 or len(selected) != len(groups):
        raise ValueError(
            "`weights` must have a row for each of the "
            f"{len(groups)} tasks of `groups`. "
            f"Received: weights.shape={selected.shape}"
        )
    without = np.flatnonzero(~selected.any(axis=1))
    if without.size:
        raise ValueError(
            "`weights` must let every task select an expert. Received: none "
            f"selected by the tasks {without.tolist()}"
        )
    first, second = np.triu_indices(len(groups), k=1)  # Every pair once.
    pairs = jaccard_indices(weights)[first, second]
    related = np.asarray(groups)[first] == np.asarray(groups)[second]
    return _mean(pairs[related]), _mean(pairs[~related])


def _mean(values: np.ndarray) -> float:
    """The mean; NaN, without NumPy's warning, where there is no value."""
    return float(values.mean()) if len(values) else float("nan")
