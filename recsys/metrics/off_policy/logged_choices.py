from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_length
from recsys.metrics.scored_rows import check_positive
from recsys.metrics.scored_rows import coded

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LoggedChoices:
    """What a log says of requests, and what another policy would have shown.

    A row is an item that could be shown in a request. The reward of an item
    depends on the request and the item, not on what else is shown.

    Attributes:
        requests: The number of each row's request, int `(N,)`.
        num_requests: Number of requests, R.
        shown: Which rows the log has shown, boolean `(N,)`.
        rewards: Rewards of rows `(N,)`, 0 where not shown.
        weights: chance / propensity `(N,)`, 0 where not shown.
        chances: Probability that the policy shows the row, `(N,)`.
        predicted: Expected rewards by a model, `(N,)`; `None` without one.
        clusters: The number of each request's cluster, int `(R,)`.
    """

    requests: npt.NDArray[np.int32]
    num_requests: int
    shown: npt.NDArray[np.bool_]
    rewards: Numbers
    weights: Numbers
    chances: Numbers
    predicted: Numbers | None
    clusters: npt.NDArray[np.int32]

    @classmethod
    def of(
        cls,
        requests: npt.ArrayLike,
        rewards: npt.ArrayLike,
        propensities: npt.ArrayLike,
        chances: npt.ArrayLike,
        predicted: npt.ArrayLike | None = None,
        clusters: npt.ArrayLike | None = None,
        largest_weight: float | None = None,
    ) -> Self:
        """Checks rows, and numbers their requests and clusters.

        Args:
            requests: Array-like `(N,)` of what is hashable, such as ids.
            rewards: Array-like `(N,)`, NaN where a row was not shown.
            propensities: Array-like `(N,)`, the probability with which the
                log showed the row, above 0 and up to 1; where there is a
                reward. Elsewhere they do not count.
            chances: Array-like `(N,)` from 0 to 1, the probability with which
                the policy shows the row.
            predicted: Array-like `(N,)` of finite numbers, for the doubly
                robust estimate. None unless given.
            clusters: Array-like `(N,)` of what is hashable: requests of one
                cluster, such as a user, may depend on each other. That of its
                first row is the request's. Each request is one unless given.
            largest_weight: Weights are cut off there, which trades variance
                for bias. Not cut off unless given.

        Raises:
            ValueError: A value is none of these, no row was shown, or lengths
                differ.
        """
        codes, names = coded(np.asarray(requests))
        rewards, propensities, chances = (
            np.asarray(values, np.float64)
            for values in (rewards, propensities, chances)
        )
        model = None if predicted is None else np.asarray(predicted, np.float64)
        shown = ~np.isnan(rewards)
        for name, column in (
            ("rewards", rewards),
            ("propensities", propensities),
            ("chances", chances),
            ("predicted", model),
        ):
            check_length(name, column, len(codes))
        _check("rewards", rewards, ~np.isinf(rewards), "finite numbers, or NaN")
        known = (propensities > 0) & (propensities <= 1)
        expected = "numbers above 0 and up to 1 for each reward"
        _check("propensities", propensities, ~shown | known, expected)
        probable = (chances >= 0) & (chances <= 1)
        _check("chances", chances, probable, "probabilities from 0 to 1")
        if model is not None:
            _check("predicted", model, np.isfinite(model), "finite numbers")
        if not shown.any():
            raise ValueError(
                "rewards: expected one of at least one row. Received: none"
            )
        weights = np.zeros(len(codes))
        weights[shown] = chances[shown] / propensities[shown]
        if largest_weight is not None:
            weights = np.minimum(weights, largest_weight)
        of_requests = np.arange(len(names), dtype=np.int32)
        if clusters is not None:
            check_length("clusters", np.asarray(clusters), len(codes))
            of_rows, _ = coded(np.asarray(clusters))
            _, first = np.unique(codes, return_index=True)
            of_requests = of_rows[first]
        return cls(
            codes,
            len(names),
            shown,
            np.where(shown, rewards, 0.0),
            weights,
            chances,
            model,
            of_requests,
        )

    def by_request(self, values: np.ndarray) -> Numbers:
        """Sums of rows' values `(N,)` by request, `(R,)`."""
        sums = np.bincount(self.requests, values, self.num_requests)
        return sums.astype(np.float64)

    @property
    def effective_rows(self) -> float:
        """How many shown rows of equal weight would be as precise.

        (Σ w)² / Σ w²
        """
        squares = float((self.weights**2).sum())
        return float(self.weights.sum()) ** 2 / squares if squares else 0.0


def _check(
    name: str, column: Numbers, valid: npt.NDArray[np.bool_], expected: str
) -> None:
    if not valid.all():
        row = int(np.flatnonzero(~valid)[0])
        raise ValueError(
            f"{name}, row {row + 1} (counted from 1): expected {expected}. "
            f"Received: {column[row]}"
        )


def top_chances(
    scores: npt.ArrayLike, requests: npt.ArrayLike, top: int = 1
) -> Numbers:
    """Returns how probably a ranking shows each row: those of the best scores.

    Args:
        scores: Array-like `(N,)`.
        requests: Array-like `(N,)` of what the rows are ranked within.
        top: How many rows of a request are shown. Defaults to 1.

    Returns:
        Float64 `(N,)`: 1 for the best rows, 0 for others; of rows with the
        score of the last place, each with the same probability.

    Example:
    >>> top_chances([0.3, 0.9, 0.3, 0.1], [7, 7, 7, 7], top=2).tolist()
    [0.5, 1.0, 0.5, 0.0]
    """
    check_positive("top", top)
    scores = np.asarray(scores)
    unlabelled = np.zeros(len(scores))
    rows = ScoredRows.of(unlabelled, scores, np.asarray(requests))
    assert rows.groups is not None, "given"
    order = np.lexsort((-rows.scores, rows.groups))
    groups, ranked = rows.groups[order], rows.scores[order]
    new_group = np.r_[True, groups[1:] != groups[:-1]]
    new_tie = new_group | np.r_[True, ranked[1:] != ranked[:-1]]
    place = np.arange(len(order))
    first = np.maximum.accumulate(np.where(new_group, place, 0))
    tie = np.cumsum(new_tie) - 1
    sizes = np.bincount(tie, minlength=1)[tie]
    better = np.maximum.accumulate(np.where(new_tie, place, 0)) - first
    chances = np.empty(len(order))
    chances[order] = np.clip((top - better) / sizes, 0.0, 1.0)
    return chances
