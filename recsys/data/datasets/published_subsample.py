"""The part of MovieLens on which local search is ablated in the COMET paper."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError

SHARE = 15  # One in so many rows is drawn: of the rated ones, in training.
QUANTILE = 0.75  # Of the users' numbers of rated rows; those above it stay.


def published_subsample(
    splits: Mapping[str, pd.DataFrame], seed: int, source: object
) -> dict[str, pd.DataFrame]:
    """Draws rows of the users who have rated most, as the authors' code does.

    These are the users who have more rated training rows than the 0.75
    quantile of all users. A 15th as many rows as the training split has are
    drawn from their rated training rows, and as many again from the unrated
    training rows of the users who are among the drawn; the two are shuffled.
    A 15th as many rows as the validation and the test split have are drawn
    from the rows of the same users there.

    The published code draws without a seed, so its own rows are not known.

    Args:
        splits: Tables with the columns user and rating, by name.
        seed: Seed of the draws.
        source: Where the rows come from, for the error message.

    Returns:
        The smaller splits, rows numbered from 0.

    Raises:
        DataError: No users stand out, or they have too few rows.

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, section 4.4 (200k rows of MovieLens), and
        `subsample_movielens_dataset.py` of the published code.
    """
    generator = np.random.default_rng(seed)
    train = splits["train"]
    rated = train["rating"].notna()
    active = train["user"].isin(_most_active(train["user"][rated]))

    def draw(rows: pd.DataFrame, what: str, size: int) -> pd.DataFrame:
        if len(rows) < size or not size:
            raise DataError.at(
                source,
                f"at least {max(size, 1)} {what} rows of the users with the "
                "most ratings, to draw a subsample",
                f"{len(rows)} rows",
            )
        return rows.sample(size, random_state=generator)

    size = round(len(train) / SHARE)
    positive = draw(train[rated & active], "rated training", size)
    users = positive["user"].unique()
    unrated = train[~rated & train["user"].isin(users)]
    negative = draw(unrated, "unrated training", size)
    drawn = {
        "train": pd.concat([positive, negative]).sample(
            frac=1, random_state=generator
        )
    }
    for name in SPLITS[1:]:
        split = splits[name]
        rows = split[split["user"].isin(users)]
        drawn[name] = draw(rows, name, round(len(split) / SHARE))
    return {name: rows.reset_index(drop=True) for name, rows in drawn.items()}


def _most_active(users: "pd.Series[int]") -> "pd.Index[int]":
    """Users who stand more often in a column than 3 in 4 of them do."""
    counts = users.value_counts()
    return counts.index[counts > counts.quantile(QUANTILE)]
