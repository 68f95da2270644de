"""The metrics once more, as slow as their definitions, and rows to try."""

from collections.abc import Callable
from collections.abc import Sequence
from itertools import pairwise
from itertools import permutations
from math import log
from math import log2
from statistics import fmean
from typing import Any
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from recsys.metrics import ScoredRows


class Row(NamedTuple):
    label: int
    score: float
    group: str
    weight: float


# Few different scores, so that many tie; all are exact in float32.
SCORES = st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0])
GROUPS = st.sampled_from("abc")


def rows_of(
    weights: st.SearchStrategy[float], most: int = 12
) -> st.SearchStrategy[list[Row]]:
    row = st.builds(Row, st.integers(0, 1), SCORES, GROUPS, weights)
    return st.lists(row, max_size=most)


UNWEIGHTED = rows_of(st.just(1.0))
REPEATED = rows_of(st.integers(0, 3).map(float))
WEIGHTED = rows_of(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 37.5]))
# All orders of these are gone through.
FEW = rows_of(st.just(1.0), most=6)


def scored(
    rows: Sequence[Row], *, groups: bool = True, weights: bool = True
) -> ScoredRows:
    return ScoredRows.of(
        [row.label for row in rows],
        [row.score for row in rows],
        [row.group for row in rows] if groups else None,
        [row.weight for row in rows] if weights else None,
    )


def close(expected: float | None) -> Any:
    """What equals a metric to 12 digits, or `None` where it is none."""
    if expected is None:
        return None
    return pytest.approx(expected, rel=1e-12, abs=1e-12)


def auc(rows: Sequence[Row]) -> float | None:
    pairs = [
        (one.weight * other.weight, one.score, other.score)
        for one in rows
        for other in rows
        if one.label > other.label
    ]
    total = sum(weight for weight, *_ in pairs)
    if not total:
        return None
    won = sum(w * ((a > b) + (a == b) / 2) for w, a, b in pairs)
    return won / total


def by_group(rows: Sequence[Row]) -> list[list[Row]]:
    names = sorted({row.group for row in rows})
    return [[row for row in rows if row.group == name] for name in names]


def weight(rows: Sequence[Row]) -> float:
    return sum(row.weight for row in rows)


def gauc(rows: Sequence[Row]) -> float | None:
    found = [(weight(group), auc(group)) for group in by_group(rows)]
    known = [(w, value) for w, value in found if value is not None]
    total = sum(w for w, _ in known)
    return sum(w * value for w, value in known) / total if known else None


def pr_auc(rows: Sequence[Row]) -> float | None:
    positives = weight([row for row in rows if row.label])
    if not positives:
        return None
    area = recall = 0.0
    for score in sorted({row.score for row in rows}, reverse=True):
        taken = [row for row in rows if row.score >= score]
        right = weight([row for row in taken if row.label])
        if right:
            area += (right / positives - recall) * right / weight(taken)
        recall = right / positives
    return area


def log_loss(rows: Sequence[Row]) -> float | None:
    if not weight(rows):
        return None
    total = 0.0
    for row in rows:
        probability = row.score if row.label else 1 - row.score
        total -= row.weight * log(min(max(probability, 1e-7), 1 - 1e-7))
    return total / weight(rows)


def normalized_entropy(rows: Sequence[Row]) -> float | None:
    loss = log_loss(rows)
    if loss is None:
        return None
    share = weight([row for row in rows if row.label]) / weight(rows)
    if share in (0, 1):
        return None
    constant = [row._replace(score=share) for row in rows]
    expected = log_loss(constant)
    assert expected is not None
    return loss / expected


def ece(rows: Sequence[Row], bins: int) -> float | None:
    if not weight(rows):
        return None
    error = 0.0
    for index in range(bins):
        inside = [
            row
            for row in rows
            if index / bins < row.score <= (index + 1) / bins
            or (index == 0 and row.score == 0)
        ]
        positive = sum(row.weight * row.label for row in inside)
        said = sum(row.weight * row.score for row in inside)
        error += abs(positive - said)
    return error / weight(rows)


Ranked = Callable[[list[int]], float]


def ndcg(k: int) -> Ranked:
    def dcg(labels: list[int]) -> float:
        return sum(y / log2(i + 2) for i, y in enumerate(labels[:k]))

    return lambda labels: dcg(labels) / dcg(sorted(labels, reverse=True))


def recall(k: int) -> Ranked:
    return lambda labels: sum(labels[:k]) / sum(labels)


def mrr(k: int) -> Ranked:
    def value(labels: list[int]) -> float:
        position = labels.index(1) + 1
        return 1 / position if position <= k else 0.0

    return value


def hit_rate(k: int) -> Ranked:
    return lambda labels: float(any(labels[:k]))


def ranked_mean(rows: Sequence[Row], metric: Ranked) -> float | None:
    """The mean over groups of the mean over all orders that scores allow."""
    means = []
    for group in by_group(rows):
        if any(row.label for row in group):
            orders = [
                order
                for order in permutations(group)
                if all(
                    above.score >= below.score
                    for above, below in pairwise(order)
                )
            ]
            means.append(
                fmean(metric([row.label for row in order]) for order in orders)
            )
    return fmean(means) if means else None
