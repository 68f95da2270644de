from collections.abc import Iterable
from typing import Any
from typing import Self

import numpy as np
import pandas as pd

from recsys.column_values import as_strings


class ValueCounts:
    """How often each value of a column is there, which comes in parts.

    Counts are exact. The memory that they take follows the number of different
    values, not that of the rows. Integers become strings as soon as a part has
    strings. Missing values do not count.

    Example:
    >>> counts = ValueCounts()
    >>> counts.add(pd.Series([7, 8, 7]))
    >>> counts.add(pd.Series([8, None], dtype="Int64"))
    >>> counts.total.to_list()
    [2, 2]
    """

    def __init__(self) -> None:
        self._merged: pd.Series[Any] | None = None
        self._others: list[pd.Series[Any]] = []
        self._size = 0

    @classmethod
    def of(cls, parts: Iterable["pd.Series[Any]"]) -> Self:
        """Counts the values of a column.

        Args:
            parts: The column, part by part, each read once.
        """
        counts = cls()
        for part in parts:
            counts.add(part)
        return counts

    def add(self, part: "pd.Series[Any]") -> None:
        """Counts further values."""
        if part.dtype == "Int64":
            part = part.dropna().astype("int64")
        counts = part.value_counts(sort=False)
        self._others.append(counts)
        self._size += len(counts)
        # As late as memory allows: each merge looks at all that is there.
        if self._merged is None or self._size >= len(self._merged):
            self._merge()

    @property
    def total(self) -> "pd.Series[Any]":
        """The counts, indexed by the values, which are in any order."""
        if self._merged is None or self._others:
            self._merge()
        assert self._merged is not None
        return self._merged

    def _merge(self) -> None:
        held = [] if self._merged is None else [self._merged]
        counts = [one for one in [*held, *self._others] if len(one)]
        self._others, self._size = [], 0
        if not counts:
            self._merged = pd.Series([], dtype="int64")
            return
        integers = [pd.api.types.is_integer_dtype(one.index) for one in counts]
        if any(integers) and not all(integers):
            counts = [
                one.set_axis(as_strings(one.index.to_series()).to_numpy())
                for one in counts
            ]
        self._merged = _summed(pd.concat(counts))


def _summed(counts: "pd.Series[Any]") -> "pd.Series[Any]":
    """Adds up the counts of each value of the index."""
    values = counts.index.to_numpy()
    if values.dtype.kind not in "if":
        return counts.groupby(level=0, sort=False).sum()
    # Several times as fast, where most values are there once.
    order = np.argsort(values, kind="stable")
    values = values[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    sums = np.add.reduceat(counts.to_numpy()[order], starts)
    return pd.Series(sums, pd.Index(values[starts]))
