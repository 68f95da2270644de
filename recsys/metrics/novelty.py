import numpy as np

from recsys.metrics.recommended_lists import RecommendedLists


def novelty(lists: RecommendedLists) -> float | None:
    """Returns how surprising recommended items are, in bits.

        mean over lists of the mean of -log2 p_i,
        p_i = (n_i + 1) / (Σ_j n_j + N)

    over the items i of a list, of which the training split has n_i rows. What
    everyone has seen says little. `None` without lists.

    References:
        Zhou et al. Solving the Apparent Diversity-Accuracy Dilemma of
        Recommender Systems. PNAS 107, 2010 (self-information).
    """
    counts = lists.counts + 1
    bits = -np.log2(counts / counts.sum())
    there = lists.items >= 0
    sums = np.where(there, bits[lists.items], 0.0).sum(axis=1)
    numbers = there.sum(axis=1)
    nothing = np.full(len(sums), np.nan)
    return lists.mean(np.divide(sums, numbers, nothing, where=numbers > 0))
