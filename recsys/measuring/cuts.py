from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.errors import DataError

# Of the values of a column, how many have a cut of their own.
MOST_VALUES = 8
_QUANTILES = (0.25, 0.5, 0.75)


def cuts(
    name: str,
    column: pd.Series,
    encode: Callable[[pd.Series], np.ndarray] | None = None,
    most_values: int = MOST_VALUES,
) -> dict[str, npt.NDArray[np.bool_]]:
    """Parts rows by the values of a feature.

    Numbers are parted at their quartiles; of anything else, the most frequent
    values are a cut each, and the rest one together. Rows without a value, and
    those with one that the model does not know, are cuts of their own.

    Args:
        name: Of the feature, for the error message.
        column: Its checked column, of N rows.
        encode: Numbers ids as the model does, 0 for unknown ones, for a
            feature with a vocabulary. None unless given.
        most_values: Of the values, how many have a cut of their own. Defaults
            to 8.

    Returns:
        Which rows are in each cut, boolean arrays `(N,)` by what the cut is
        called; each row is in one, and each cut has a row.

    Raises:
        DataError: Values are lists.

    Example:
    >>> found = cuts("device", pd.Series(["tv", "web", "web", None]))
    >>> {cut: rows.tolist() for cut, rows in found.items()}
    {"'web'": [False, True, True, False], "'tv'": [True, False, False, False], \
'missing': [False, False, False, True]}
    """
    missing = column.isna().to_numpy()
    if not column[~missing].map(pd.api.types.is_hashable).all():
        raise DataError.at(
            "a cut by a feature",
            "one with a single value per row",
            f"{name!r}, which has lists",
        )
    unknown = np.zeros(len(column), bool)
    if encode is not None:
        unknown = (encode(column) == 0) & ~missing
    rest = ~(missing | unknown)
    if pd.api.types.is_float_dtype(column):
        parts = _quartiles(column.to_numpy(np.float64), rest)
    else:
        parts = _values(column, rest, most_values)
    parts |= {"unknown": unknown, "missing": missing}
    return {cut: rows for cut, rows in parts.items() if rows.any()}


def _quartiles(
    numbers: np.ndarray, known: npt.NDArray[np.bool_]
) -> dict[str, npt.NDArray[np.bool_]]:
    if not known.any():
        return {}
    borders = np.unique(np.quantile(numbers[known], _QUANTILES))
    where = np.searchsorted(borders, numbers)
    texts = [f"{border:g}" for border in borders]
    if len(set(texts)) < len(texts):
        texts = [repr(float(border)) for border in borders]
    between = [f"{low} to {high}" for low, high in pairwise(texts)]
    names = [f"up to {texts[0]}", *between, f"above {texts[-1]}"]
    return {cut: known & (where == i) for i, cut in enumerate(names)}


def _values(
    column: pd.Series, known: npt.NDArray[np.bool_], most_values: int
) -> dict[str, npt.NDArray[np.bool_]]:
    counts = column[known].value_counts()
    # Quoted, a string is never taken for the name of another cut.
    parts = {
        repr(value.item() if isinstance(value, np.generic) else value): known
        & column.eq(value).fillna(False).to_numpy(bool)
        for value in counts.index[:most_values]
    }
    num_others = len(counts) - most_values
    if num_others > 0:
        rows = known & ~np.logical_or.reduce(list(parts.values()))
        parts[f"{num_others:,} others"] = rows
    return parts
