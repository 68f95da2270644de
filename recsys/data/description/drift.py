"""How far the features of validation and test are from those of training."""

from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np
import pandas as pd

from recsys.data.description.data_warning import DataWarning
from recsys.files.json_files import JsonMapping

# Usual for the population stability index: from here on, a large shift.
LARGE_SHIFT = 0.25
_BINS = 10
_MOST_VALUES = 50


def stability_index(train: pd.Series, column: pd.Series) -> float:
    """Returns the population stability index of a feature in another split.

    The sum of (q - p) log(q / p) over bins with the shares p of training and
    q of the other split: ten quantiles of numbers, or the 50 most frequent
    ids and all others together, and missing values. What chance alone gives
    for so many rows and bins is taken off.

    Args:
        train: The feature in training, ids or numbers.
        column: The feature in another split.

    References:
        Siddiqi. Credit Risk Scorecards. Wiley 2006, chapter 8.

    Example:
    >>> train = pd.Series(["a", "b"] * 500)
    >>> stability_index(train, train), stability_index(train, train[:999:2])
    (0.0, 3.44)
    """
    counts = np.array([_counts(train, train), _counts(train, column)], float)
    shares = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    p, q = shares
    index = float(((q - p) * np.log(q / p)).sum())
    chance = (len(p) - 1) * (1 / max(1, len(train)) + 1 / max(1, len(column)))
    return round(max(0.0, index - chance), 2)


def warnings_of_drift(
    drift: Mapping[str, JsonMapping],
) -> Iterator[DataWarning]:
    """Yields each feature that has shifted much.

    Args:
        drift: By feature and split, what `stability_index` returns.
    """
    for name, by_split in drift.items():
        for split, index in by_split.items():
            if index > LARGE_SHIFT:
                yield DataWarning(
                    "drift",
                    f"{name!r} is distributed differently in the {split} "
                    f"split (stability index {index:.2f}, large from "
                    f"{LARGE_SHIFT})",
                    "Check that the column means the same in both; if it "
                    "changes with time, train on recent rows",
                )


def _counts(train: pd.Series, column: pd.Series) -> np.ndarray:
    missing = int(column.isna().sum())
    if pd.api.types.is_float_dtype(train):
        known = train.dropna().to_numpy()
        if not len(known):
            return np.array([len(column) - missing, missing])
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        borders = np.unique(np.quantile(known, inner))
        places = np.searchsorted(borders, column.dropna().to_numpy(), "left")
        of_bins = np.bincount(places, minlength=len(borders) + 1)
        return np.append(of_bins, missing)
    frequent = train.value_counts().index[:_MOST_VALUES]
    counts = column.value_counts().reindex(frequent, fill_value=0).to_numpy()
    rest = len(column) - missing - counts.sum()
    return np.append(counts, [rest, missing])
