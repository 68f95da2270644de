"""Ratings as two tasks: was it watched, and how was it rated."""

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.data.schema import Schema


def two_tasks_schema(name: str) -> Schema:
    """Returns the schema of ratings as two tasks.

    Example:
    >>> [*two_tasks_schema("films").columns]
    ['user', 'item', 'watch', 'rating']
    """
    return Schema(
        name,
        {"user": "id", "item": "id"},
        {"watch": "binary", "rating": "regression"},
    )


def two_tasks(
    ratings: pd.DataFrame, seed: int, progress: Progress
) -> pd.DataFrame:
    """Adds to each user's ratings as many items that the user has not rated.

    A rating is a positive row: watch = 1. For each user,
    min(n_rated, n_items - n_rated) negative rows (watch = 0, no rating) are
    drawn uniformly without replacement from the items that this user has not
    rated, among all items of the table.

    Args:
        ratings: Columns user, item, rating; each (user, item) pair once.
        seed: Seed of the draws.
        progress: Shows how many users are done.

    Returns:
        Columns user, item, watch, rating: the positive rows in their given
        order, then the negative ones by ascending user.

    Example:
    >>> ratings = pd.DataFrame(
    ...     {"user": [1, 2], "item": [7, 8], "rating": [5.0, 3.0]}
    ... )
    >>> two_tasks(ratings, 0, Progress(disable=True))
       user  item  watch  rating
    0     1     7    1.0     5.0
    1     2     8    1.0     3.0
    2     1     8    0.0     NaN
    3     2     7    0.0     NaN

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, supplement S1.1.
    """
    positive = ratings.assign(watch=1.0)
    negative = _unrated(ratings, np.random.default_rng(seed), progress)
    rows = pd.concat([positive, negative.assign(watch=0.0)], ignore_index=True)
    return rows[["user", "item", "watch", "rating"]]


def _unrated(
    ratings: pd.DataFrame, generator: np.random.Generator, progress: Progress
) -> pd.DataFrame:
    items, item_codes = np.unique(ratings["item"], return_inverse=True)
    users, counts = np.unique(ratings["user"], return_counts=True)
    by_user = item_codes[np.argsort(ratings["user"].to_numpy(), kind="stable")]
    drawn = []
    for rated in progress.track(
        np.split(by_user, np.cumsum(counts)[:-1]), description="Sampling users"
    ):
        unrated = np.delete(np.arange(len(items)), rated)
        size = min(len(rated), len(unrated))
        drawn.append(generator.choice(unrated, size, replace=False))
    return pd.DataFrame(
        {
            "user": np.repeat(users, [len(codes) for codes in drawn]),
            "item": items[np.concatenate(drawn)],
        }
    )
