import numpy as np
import pandas as pd

from recsys.columns.column_values import as_strings


class HeldCounts:
    """Counts of values that are held in memory.

    Attributes:
        num_values: How many different values there are, as of the last merge
            of what was added.

    Example:
    >>> counts = HeldCounts()
    >>> counts.add(pd.Series([7, 8, 7]).value_counts())
    >>> counts.add(pd.Series([8]).value_counts())
    >>> counts.total.to_dict()
    {7: 2, 8: 2}
    """

    def __init__(self) -> None:
        self._merged: pd.Series = pd.Series([], dtype="int64")
        self._unmerged: list[pd.Series] = []
        self._size = 0

    @property
    def num_values(self) -> int:
        return len(self._merged)

    def add(self, counts: pd.Series) -> None:
        """Adds counts, indexed by different values: integers or strings."""
        self._unmerged.append(counts)
        self._size += len(counts)
        # As late as memory allows: each merge looks at all that is there.
        if self._size >= len(self._merged):
            self._merge()

    @property
    def total(self) -> pd.Series:
        """The counts, indexed by the values, which are in any order."""
        if self._unmerged:
            self._merge()
        return self._merged

    def _merge(self) -> None:
        counts = [part for part in [self._merged, *self._unmerged] if len(part)]
        self._unmerged, self._size = [], 0
        if not counts:
            return
        integers = [
            pd.api.types.is_integer_dtype(part.index) for part in counts
        ]
        if any(integers) and not all(integers):
            counts = [
                part.set_axis(as_strings(part.index.to_series()).to_numpy())
                for part in counts
            ]
        self._merged = _summed(pd.concat(counts))


def _summed(counts: pd.Series) -> pd.Series:
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
