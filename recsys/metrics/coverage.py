import numpy as np

from recsys.metrics.recommended_lists import RecommendedLists


def coverage(lists: RecommendedLists) -> float | None:
    """Returns the share of the catalogue that is in at least one list.

    Lists of weight 0 do not count. `None` without items.

    References:
        Ge, Delgado-Battenfeld, Jannach. Beyond Accuracy: Evaluating
        Recommender Systems by Coverage and Serendipity. RecSys 2010, section
        2.
    """
    if not len(lists.counts):
        return None
    items = np.unique(lists.items[lists.weights > 0])
    return float((items >= 0).sum() / len(lists.counts))
