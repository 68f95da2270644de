from typing import Any

import numpy as np
import pandas as pd

from recsys.baselines.interactions import Interactions

BIG = 2**53


def ids(numbers: Any, texts: bool) -> "pd.Series[Any]":
    """Ids that a float would confuse, or texts."""
    values = [f"{n:03}" if texts else BIG + int(n) for n in numbers]
    return pd.Series(values, dtype=object if texts else "int64")


def random_interactions(
    num_users: int = 15, num_items: int = 8, texts: bool = False, seed: int = 0
) -> tuple[Any, Interactions]:
    """What users have had, dense `(U, N)` of 0 and 1, and the same sparse."""
    rng = np.random.default_rng(seed)
    dense = (rng.random((num_users, num_items)) < 0.4).astype(float)
    dense[np.arange(num_users), rng.integers(0, num_items, num_users)] = 1
    users, items = np.nonzero(dense)
    parts = [(ids(users, texts), ids(items, texts), np.ones(len(users)))]
    catalogue = pd.Index(ids(range(num_items), texts))
    return dense, Interactions.of(parts, catalogue)


def all_scores(model: Any, interactions: Interactions) -> Any:
    users = np.arange(interactions.num_users)
    return model.scores(users, interactions.matrix[users])
