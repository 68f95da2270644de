from typing import Any

import numpy as np
import pytest

from recsys.metrics import RETRIEVAL_METRICS
from recsys.metrics.ranks import Ranks


def gains(ranks: Ranks, name: str, k: int) -> Any:
    return ranks.mean_gains(RETRIEVAL_METRICS[name](k).gains)


# Item 1 is best, then 3, then 2.
SCORES = np.array([[0.9, 0.1, 0.5]])


@pytest.mark.parametrize(("item", "rank"), [(1, 1), (3, 2), (2, 3)])
def test_by_hand(item: int, rank: int) -> None:
    ranks = Ranks.of(SCORES.copy(), np.array([item]))
    assert ranks.above.tolist() == [rank - 1]
    assert gains(ranks, "recall", 2).tolist() == [float(rank <= 2)]
    expected = 1 / np.log2(1 + rank) if rank <= 2 else 0.0
    np.testing.assert_allclose(gains(ranks, "ndcg", 2), expected)


def test_several_items_of_a_row() -> None:
    scores = np.array([[0.9, 0.1, 0.5], [0.2, 0.2, 0.7]], np.float32)
    rows, items = np.array([1, 0, 1, 0]), np.array([1, 2, 3, 0])
    ranks = Ranks.within(scores, rows, items)
    assert ranks.above.tolist() == [1, 2, 0, 3]
    assert ranks.tied.tolist() == [2, 1, 1, 0]


def test_ties_count_their_expected_value() -> None:
    ranks = Ranks.of(np.zeros((1, 4)), np.array([2]))
    np.testing.assert_allclose(gains(ranks, "recall", 1), 1 / 4)
    np.testing.assert_allclose(
        gains(ranks, "ndcg", 2), (1 + 1 / np.log2(3)) / 4
    )


def test_an_item_that_is_not_in_the_catalogue_is_not_found() -> None:
    ranks = Ranks.of(SCORES.copy(), np.array([0]))
    assert (
        gains(ranks, "recall", 3).tolist()
        == gains(ranks, "ndcg", 3).tolist()
        == [0.0]
    )


def test_excluded_items_are_no_candidates_but_for_that_of_the_row() -> None:
    scores = np.repeat(SCORES, 2, axis=0)
    excluded = np.array([0, 1, 1]), np.array([1, 1, 2])
    ranks = Ranks.of(scores, np.array([3, 2]), excluded)
    # Row 0: 3 is first without 1. Row 1: 2 is looked for, and behind 3.
    assert ranks.above.tolist() == [0, 1]


def test_an_excluded_item_of_the_row_may_be_one_that_is_not_found() -> None:
    scores = np.repeat(SCORES, 3, axis=0)
    excluded = np.array([0, 1, 2]), np.array([1, 1, 3])
    items = np.array([1, 3, 0])
    ranks = Ranks.of(scores, items, excluded, keep_targets=False)
    assert gains(ranks, "recall", 3).tolist() == [0.0, 1.0, 0.0]
    assert ranks.above.tolist() == [3, 0, 3]


def test_against_numpy() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(200, 30))
    items = generator.integers(1, 31, 200)
    ranks = Ranks.of(scores.copy(), items)
    order = np.argsort(-scores, axis=1) + 1
    positions = (order == items[:, None]).argmax(axis=1)
    for k in (1, 5, 30):
        np.testing.assert_array_equal(gains(ranks, "recall", k), positions < k)
        expected = np.where(positions < k, 1 / np.log2(positions + 2), 0)
        np.testing.assert_allclose(gains(ranks, "ndcg", k), expected)
