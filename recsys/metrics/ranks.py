from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of the rows' items in a catalogue.

    Where items tie, metrics give their expected value over all orders of them,
    as those of rankings of rows do (`recsys.metrics.positions`).

    Attributes:
        above: How many items are above that of the row, int64 `(rows,)`; as
            many as there are for an item that is not in the catalogue.
        tied: How many are beside it, itself among them, int64 `(rows,)`; 0
            for one that is not in the catalogue.
    """

    above: npt.NDArray[np.int64]
    tied: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls,
        scores: np.ndarray,
        items: np.ndarray,
        excluded: tuple[np.ndarray, np.ndarray] | None = None,
        keep_targets: bool = True,
    ) -> "Ranks":
        """Finds the items of a block of rows.

        Args:
            scores: Array `(rows, N)` of what is ranked by; it is changed.
            items: Integer array `(rows,)`, the item of each row, counted from
                1; 0 for one that is not in the catalogue.
            excluded: Rows, and items counted from 1, that are no candidates.
                None unless given.
            keep_targets: Whether the item of a row is a candidate though it
                is excluded. Otherwise it is not found, as one that is not in
                the catalogue. Defaults to `True`.
        """
        rows = np.arange(len(items))
        if excluded is not None and not keep_targets:
            items = without(items, rows, excluded)
        known = items > 0
        item_scores = scores[rows, np.maximum(items - 1, 0)].copy()
        if excluded is not None:
            scores[excluded[0], excluded[1] - 1] = -np.inf
            scores[rows[known], items[known] - 1] = item_scores[known]
        return cls.within(scores, rows, items)

    @classmethod
    def within(
        cls, scores: np.ndarray, rows: np.ndarray, items: np.ndarray
    ) -> "Ranks":
        """Finds items of some rows, several of a row.

        Args:
            scores: Array `(B, N)` of what is ranked by.
            rows: Integer array `(n,)`, the row of each item.
            items: Integer array `(n,)`, as for `of`.
        """
        item_scores = scores[rows, np.maximum(items - 1, 0)]
        above, tied = np.zeros((2, len(items)), np.int64)
        # One by one, what is compared stays in the processor's cache.
        for place in np.flatnonzero(items > 0):
            candidates = scores[rows[place]]  # (N,)
            above[place] = np.count_nonzero(candidates > item_scores[place])
            tied[place] = np.count_nonzero(candidates == item_scores[place])
        return cls(np.where(items > 0, above, scores.shape[1]), tied)

    def mean_gains(
        self, gains: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """The mean gain of the positions that the item may be at.

        Args:
            gains: What an item gains at each of the first k positions, float64
                `(k,)`. Behind them it gains nothing.

        Returns:
            Float64 array `(rows,)`; 0 for an item that is not in the catalogue.
        """
        sums = np.concatenate([[0.0], np.cumsum(gains)])
        first = np.minimum(self.above, len(gains))
        end = np.minimum(self.above + self.tied, len(gains))
        return (sums[end] - sums[first]) / np.maximum(self.tied, 1)


def without(
    items: np.ndarray,
    rows: np.ndarray,
    excluded: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Returns the items of rows, with 0 in the place of excluded ones.

    Args:
        items: Integer array `(n,)`.
        rows: The row of each, integers `(n,)`.
        excluded: Rows and items, two integer arrays of the same length.

    Example:
    >>> excluded = np.array([0, 0, 1]), np.array([7, 8, 9])
    >>> without(np.array([8, 9, 9]), np.array([0, 0, 1]), excluded).tolist()
    [0, 9, 0]
    """
    size = 1 + max(np.max(ids, initial=0) for ids in (items, excluded[1]))
    there = np.isin(
        np.int64(size) * rows + items,
        np.int64(size) * excluded[0] + excluded[1],
    )
    return np.where(there, 0, items)
