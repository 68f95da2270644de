from recsys.metrics.auc import area_by_group
from recsys.metrics.group_mean import GroupMean
from recsys.metrics.scored_rows import ScoredRows


def gauc(rows: ScoredRows) -> GroupMean:
    """Returns the AUC within groups, weighted by their rows.

        GAUC = Σ_g n_g AUC_g / Σ_g n_g

    with `n_g` the rows of group g (its impressions), or their weight. A group
    of one class has no AUC and is left out of both sums: see
    `GroupMean.coverage` for the share of the rows that remains.

    Args:
        rows: The rows, with groups.

    Raises:
        ValueError: The rows have no groups.

    Example:
    >>> from recsys.metrics import ScoredRows, gauc
    >>> clicks = [1, 0, 0, 1, 1]
    >>> users = ["a", "a", "a", "b", "b"]
    >>> scores = [0.5, 0.9, 0.1, 0.3, 0.2]
    >>> found = gauc(ScoredRows.of(clicks, scores, users))
    >>> found.value, found.num_groups, found.coverage
    (0.5, 1, 0.6)

    References:
        Zhu et al., Optimized Cost per Click in Taobao Display Advertising,
        KDD 2017; Zhou et al., Deep Interest Network for Click-Through Rate
        Prediction, KDD 2018, section 6.3 (5.3 of the preprint's first
        version), with users for groups and impressions for weights.
    """
    ranking = rows.group_ranking()
    areas, weights = area_by_group(rows, ranking)
    return GroupMean(areas, weights, rows.group_weights())
