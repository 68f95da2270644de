from collections.abc import Hashable
from collections.abc import Sequence
from collections.abc import Sized
from dataclasses import dataclass
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.errors.shown import shown
from recsys.metrics.ranking import Ranking


class Rankings:
    """The rankings of rows, each made when it is first asked for.

    They do not depend on weights: resampled rows share them.

    Args:
        scores: Array `(N,)` without NaN.
        groups: The group of each row, `(N,)` of 0, 1, ..., or `None`.
        num_groups: Number of groups.
    """

    def __init__(
        self,
        scores: np.ndarray,
        groups: npt.NDArray[np.int32] | None,
        num_groups: int,
    ) -> None:
        self._scores = scores
        self._groups = groups
        self._num_groups = num_groups

    @cached_property
    def of_all(self) -> Ranking:
        """All rows, as one group."""
        return Ranking.of_all(self._scores)

    @cached_property
    def of_groups(self) -> Ranking:
        """Each group by itself."""
        assert self._groups is not None
        return self.of_all.within(self._groups, self._num_groups)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows with a label 0 or 1 and a score: what every metric is taken of.

    Make them with `ScoredRows.of`, or from parts with `ScoreAccumulator`.
    Several metrics of the same rows sort them once.

    Attributes:
        labels: Boolean array `(N,)`.
        scores: Float32 or float64 array `(N,)`.
        groups: The group of each row, `(N,)` of 0, 1, ... in the order in
            which groups appear, or `None`.
        num_groups: Number of groups, 0 without.
        weights: Float array `(N,)`, or `None` where each row counts once.
        rankings: The rows by score.
    """

    labels: npt.NDArray[np.bool_]
    scores: np.ndarray
    groups: npt.NDArray[np.int32] | None
    num_groups: int
    weights: np.ndarray | None
    rankings: Rankings

    @classmethod
    def of(
        cls,
        labels: npt.ArrayLike,
        scores: npt.ArrayLike,
        groups: Sequence[Hashable] | np.ndarray | pd.Series | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> Self:
        """Checks rows, and numbers their groups.

        Args:
            labels: Array-like `(N,)` of 0 and 1.
            scores: Array-like `(N,)` of numbers; probabilities where a metric
                is of probabilities. Float32 stays float32.
            groups: Array-like `(N,)` of what the rows belong to (a user, a
                request): anything hashable but NaN and `None`. None unless
                given.
            weights: Array-like `(N,)` of finite numbers of at least 0. A row
                of weight w counts as w rows, one of weight 0 as none. Each
                row counts once unless given.

        Raises:
            ValueError: A value is none of these, or lengths differ.

        Example:
        >>> from recsys.metrics import ScoredRows, auc, gauc
        >>> rows = ScoredRows.of(
        ...     [1, 0, 1, 0], [0.6, 0.3, 0.2, 0.1], groups=["a", "a", "b", "b"]
        ... )
        >>> auc(rows), gauc(rows).value
        (0.75, 1.0)
        """
        labels = checked_labels(labels)
        scores = checked_scores(scores)
        codes, num_groups = None, 0
        if groups is not None:
            codes, names = coded(groups)
            num_groups = len(names)
        if weights is not None:
            weights = checked_weights(weights)
        columns = {"scores": scores, "groups": codes, "weights": weights}
        for name, column in columns.items():
            check_length(name, column, len(labels))
        rankings = Rankings(scores, codes, num_groups)
        return cls(labels, scores, codes, num_groups, weights, rankings)

    def __len__(self) -> int:
        return len(self.labels)

    def reweighted(self, factors: np.ndarray) -> Self:
        """Returns the rows with their weights multiplied.

        Args:
            factors: Array `(N,)` of numbers of at least 0.
        """
        weights = factors if self.weights is None else self.weights * factors
        return replace(self, weights=weights)

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Rows with a positive weight, boolean `(N,)`."""
        if self.weights is None:
            return np.ones(len(self), bool)
        return self.weights > 0

    def weighted(self, values: np.ndarray) -> np.ndarray:
        """Values `(N,)` of the rows times their weights."""
        return values if self.weights is None else values * self.weights

    def mean(self, values: np.ndarray) -> float | None:
        """The weighted mean of values `(N,)`, `None` where nothing weighs."""
        total = self.weighted(self.present).sum(dtype=np.float64)
        weighted = self.weighted(values).sum(dtype=np.float64)
        return float(weighted / total) if total else None

    def group_weights(self) -> npt.NDArray[np.float64]:
        """The weight of each group's rows, float64 `(num_groups,)`."""
        assert self.groups is not None
        sums = np.bincount(self.groups, self.weights, self.num_groups)
        return sums.astype(np.float64)

    def group_ranking(self) -> Ranking:
        """The rows by group and score.

        Raises:
            ValueError: The rows have no groups.
        """
        if self.groups is None:
            raise ValueError(
                "groups: expected a group for each row. Received: None"
            )
        return self.rankings.of_groups


def checked_labels(labels: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Returns labels as booleans; a `ValueError` if one is not 0 or 1."""
    values = _column("labels", labels)
    _refuse("labels", "0 or 1", values, ~((values == 0) | (values == 1)))
    return values.astype(bool)


def checked_scores(scores: npt.ArrayLike) -> np.ndarray:
    """Returns scores as floats; a `ValueError` if one is NaN."""
    values = _column("scores", scores)
    if values.dtype != np.float32:
        values = values.astype(np.float64)
    _refuse("scores", "numbers", values, np.isnan(values))
    return values


def checked_weights(weights: npt.ArrayLike) -> np.ndarray:
    """Returns weights as floats; a `ValueError` if one is no weight."""
    values = _column("weights", weights)
    if values.dtype != np.float32:
        values = values.astype(np.float64)
    bad = ~(np.isfinite(values) & (values >= 0))
    _refuse("weights", "finite numbers of at least 0", values, bad)
    return values


def coded(
    groups: Sequence[Hashable] | np.ndarray | pd.Series,
) -> tuple[npt.NDArray[np.int32], pd.Index]:
    """Numbers groups in the order in which they appear.

    Returns:
        Their numbers, int32 `(N,)`, and what each number stands for.

    Raises:
        ValueError: A group is missing.
    """
    values = pd.Series(groups)
    codes, names = pd.factorize(values)
    _refuse("groups", "a group for each row", values, codes < 0)
    return codes.astype(np.int32), names


def check_length(name: str, column: Sized | None, num_rows: int) -> None:
    """Raises a `ValueError` for a column with another number of rows."""
    if column is not None and len(column) != num_rows:
        raise ValueError(
            f"{name}: expected {num_rows} rows, as many as there are labels. "
            f"Received: {len(column)}"
        )


def check_probabilities(rows: ScoredRows) -> None:
    """Raises a `ValueError` for a score outside of 0 to 1."""
    bad = (rows.scores < 0) | (rows.scores > 1)
    _refuse("scores", "probabilities from 0 to 1", rows.scores, bad)


def check_positive(name: str, value: object) -> None:
    """Raises a `ValueError` for all but integers of at least 1."""
    integer = isinstance(value, int | np.integer)
    if not integer or isinstance(value, bool) or value < 1:  # type: ignore[operator]
        raise ValueError(
            f"{name}: expected an integer of at least 1. Received: "
            f"{shown(value)}"
        )


def _column(name: str, values: npt.ArrayLike) -> np.ndarray:
    column = np.asarray(values)
    if column.ndim != 1 or (len(column) and column.dtype.kind not in "biuf"):
        raise ValueError(
            f"{name}: expected one column of numbers. Received: an array of "
            f"shape {column.shape} and type {column.dtype}"
        )
    return column


def _refuse(
    name: str,
    expected: str,
    values: pd.Series | np.ndarray,
    bad: npt.NDArray[np.bool_],
) -> None:
    where = np.flatnonzero(bad)
    if len(where):
        row = int(where[0])
        value = (
            values.iloc[row] if isinstance(values, pd.Series) else values[row]
        )
        raise ValueError(
            f"{name}, row {row + 1} (counted from 1): expected {expected}. "
            f"Received: {shown(value)}"
        )
