"""What labels deviate by, for each id of several columns at once."""

from collections.abc import Sequence

import numpy as np

_SWEEPS = 100  # Over the columns, at most.


def fit_biases(
    targets: np.ndarray,
    codes: Sequence[np.ndarray],
    sizes: Sequence[int],
    penalties: Sequence[float],
    weights: np.ndarray | None = None,
    tolerance: float = 1e-10,
) -> list[np.ndarray]:
    """Returns the mean and the deviations that minimise the squared error.

        min_b Σ_rows w |y - μ - Σ_c b_c|² + Σ_c λ_c Σ_ids |b_c|²

    μ being the mean of the targets, and b_c what the id of column c deviates.

    Args:
        targets: Float64 array `(rows, K)`.
        codes: For each column, the number of each row's id, `(rows,)`.
        sizes: For each column, how many numbers there are; the last one is
            that of unknown ids.
        penalties: For each column, its λ.
        weights: How much each row counts, `(rows,)`; once unless given.
        tolerance: By how much a sweep over the columns may still move a
            deviation, at the end. Defaults to 1e-10.

    Returns:
        The mean `(K,)`, and for each column the deviations `(size, K)`.
    """
    counts = np.ones(len(targets)) if weights is None else weights
    total = counts.sum()
    mean = counts @ targets / total if total else np.zeros(targets.shape[1])
    left = targets - mean
    deviations = [np.zeros((size, targets.shape[1])) for size in sizes]
    for _ in range(_SWEEPS):
        moved = 0.0
        for numbers, deviation, penalty in zip(
            codes, deviations, penalties, strict=True
        ):
            left += deviation[numbers]
            rows = np.bincount(numbers, counts, len(deviation))
            sums = np.stack(
                [
                    np.bincount(numbers, counts * column, len(deviation))
                    for column in left.T
                ],
                axis=1,
            )
            means = sums / (rows + penalty)[:, None]
            means[-1] = 0  # Whoever is unknown.
            moved = max(moved, float(np.abs(means - deviation).max()))
            deviation[:] = means
            left -= deviation[numbers]
        if moved < tolerance:
            break
    return [mean, *deviations]
