from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from recsys.metrics.group_mean import GroupMean
from recsys.metrics.ranking import Ranking
from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_positive


@dataclass(frozen=True, eq=False)
class Positions:
    """Numbers of rows above and in each tie of each group's ranking.

    A row of weight 0 is in no ranking. Beyond that the weights of rows change
    no ranking: a group counts with the mean weight of its rows, so that a
    group whose rows have a weight of 2 counts as two groups.

    Where rows tie, what stands at a position is a matter of chance: metrics
    give their expected value over all orders of the rows within ties, each as
    likely as any other (McSherry and Najork, Computing Information Retrieval
    Performance Measures Efficiently in the Presence of Tied Scores, 2008).

    Attributes:
        ranking: The ranking of the groups, with G groups and L ties.
        above: Rows above each tie in its group, int64 `(L,)`.
        rows: Rows in each tie, int64 `(L,)`.
        positives: Positive rows in each tie, int64 `(L,)`.
        group_positives: Positive rows of each group, int64 `(G,)`.
        group_weights: Weight of each group's rows, float64 `(G,)`.
    """

    ranking: Ranking
    above: npt.NDArray[np.int64]
    rows: np.ndarray
    positives: np.ndarray
    group_positives: np.ndarray
    group_weights: npt.NDArray[np.float64]

    @classmethod
    def of(cls, rows: ScoredRows) -> Self:
        """Counts the rows of each tie.

        Args:
            rows: The rows, with groups.

        Raises:
            ValueError: The rows have no groups.
        """
        ranking = rows.group_ranking()
        counted = ranking.by_tie(rows.present)
        positives = ranking.by_tie(rows.present & rows.labels)
        return cls(
            ranking,
            ranking.before(counted).astype(np.int64),
            counted.astype(np.int64),
            positives.astype(np.int64),
            ranking.by_group(positives).astype(np.int64),
            rows.group_weights(),
        )

    def within(self, k: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns which positions of each tie are among the first k.

        Args:
            k: How many positions count; all where `None`.

        Returns:
            Two int64 arrays `(L,)`: how many positions of the first k lie
            above a tie, and how many lie above its end.

        Raises:
            ValueError: `k` is less than 1.
        """
        ends = self.above + self.rows
        if k is None:
            return self.above, ends
        check_positive("k", k)
        return np.minimum(self.above, k), np.minimum(ends, k)

    def by_positives(self, values: np.ndarray) -> npt.NDArray[np.float64]:
        """Values `(L,)` for a tie of positive rows, by their share in it.

        Returns:
            Sums over each group, float64 `(G,)`.
        """
        share = np.zeros(len(self.rows))
        np.divide(self.positives, self.rows, share, where=self.rows > 0)
        return self.ranking.by_group(values * share)

    def mean(self, values: np.ndarray) -> GroupMean:
        """The mean over the groups with a positive row.

        Args:
            values: The metric of each group, `(G,)`; of a group without a
                positive row, anything finite.
        """
        sizes = self.ranking.by_group(self.rows)
        weights = np.zeros(len(sizes))
        counts = self.group_positives > 0
        np.divide(self.group_weights, sizes, weights, where=counts)
        return GroupMean(
            np.where(counts, values, 0.0), weights, self.group_weights
        )
