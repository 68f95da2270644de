"""Metrics of whole lists beside loops over their definitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.metrics import LIST_METRICS
from recsys.metrics.recommended_lists import RecommendedLists
from recsys.metrics.recommended_lists import best_items


def drawn(seed: int, queries: int = 5) -> RecommendedLists:
    rng = np.random.default_rng(seed)
    items = np.stack([rng.permutation(8)[:3] for _ in range(queries)])
    items[0, rng.integers(0, 3) :] = -1
    weights = rng.uniform(0.5, 2, queries)
    weights[-1] = 0.0
    counts = rng.integers(0, 9, 8).astype(float)
    return RecommendedLists(items, weights, counts, rng.normal(size=(8, 4)))


def means(lists: RecommendedLists, values: list[float | None]) -> float | None:
    known = [
        (value, weight)
        for value, weight in zip(values, lists.weights, strict=True)
        if value is not None and weight
    ]
    if not known:
        return None
    numbers, weights = np.transpose(known)
    return float(np.average(numbers, weights=weights))


def novelty(lists: RecommendedLists) -> float | None:
    total = lists.counts.sum() + 8
    values = []
    for row in lists.items:
        bits = [-np.log2((lists.counts[i] + 1) / total) for i in row if i >= 0]
        values.append(float(np.mean(bits)) if bits else None)
    return means(lists, values)


def coverage(lists: RecommendedLists) -> float:
    kept = lists.items[lists.weights > 0].ravel().tolist()
    return len(set(kept) - {-1}) / 8


def intra_list_distance(lists: RecommendedLists) -> float | None:
    values = []
    for row in lists.items:
        distances = []
        for i, j in itertools.combinations([i for i in row if i >= 0], 2):
            a, b = lists.vectors[i], lists.vectors[j]
            lengths = np.linalg.norm(a) * np.linalg.norm(b)
            distances.append(1 - a @ b / lengths)
        values.append(float(np.mean(distances)) if distances else None)
    return means(lists, values)


REFERENCES = {
    "novelty": novelty,
    "coverage": coverage,
    "intra_list_distance": intra_list_distance,
}


@pytest.mark.parametrize("name", LIST_METRICS)
@given(seed=st.integers(0, 999))
@settings(max_examples=20)
def test_every_metric_is_what_it_says(name: str, seed: int) -> None:
    lists = drawn(seed)
    assert LIST_METRICS[name](lists) == pytest.approx(REFERENCES[name](lists))


@pytest.mark.parametrize("name", LIST_METRICS)
def test_without_lists(name: str) -> None:
    nothing = RecommendedLists(
        np.zeros((0, 3), np.int64), np.zeros(0), np.zeros(0), np.zeros((0, 2))
    )
    assert LIST_METRICS[name](nothing) is None


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 999))
@settings(max_examples=30)
def test_best_items(count: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 3, (4, count)).astype(float)
    rows, items = np.nonzero(rng.random((4, count)) < 0.3)
    found = best_items(scores, k, (rows, items + 1))
    for row in range(4):
        gone = set(items[rows == row])
        left = [i for i in range(count) if i not in gone]
        wanted = sorted(left, key=lambda i: -scores[row, i])[:k]
        padded = wanted + [-1] * (min(k, count) - len(wanted))
        # Which of equal ones are taken is open, but not their scores.
        got = found[row].tolist()
        assert [i < 0 for i in got] == [i < 0 for i in padded]
        assert not gone & set(got)
        np.testing.assert_array_equal(
            scores[row, [i for i in got if i >= 0]], scores[row, wanted]
        )
