"""Rerankers beside their definitions in NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.retrieval.rerank import RERANKERS
from recsys.retrieval.rerank import check_rerank
from recsys.retrieval.rerank import cosine_similarity
from recsys.retrieval.rerank import relevance
from recsys.retrieval.rerank import reranked
from recsys.retrieval.rerank import shortfall
from recsys.retrieval.rerank.dpp import DPP
from recsys.retrieval.rerank.mmr import MMR
from recsys.retrieval.rerank.reranker import Reranker


def candidates(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, 20))
    return relevance(rng.normal(size=count)), cosine_similarity(vectors)


Value = Callable[[np.ndarray, np.ndarray, float, list[int], int], float]


def mmr_value(
    gains: np.ndarray,
    similarity: np.ndarray,
    d: float,
    chosen: list[int],
    i: int,
) -> float:
    nearest = max((similarity[i, j] for j in chosen), default=0.0)
    return float((1 - d) * gains[i] - d * nearest)


def dpp_value(
    gains: np.ndarray,
    similarity: np.ndarray,
    d: float,
    chosen: list[int],
    i: int,
) -> float:
    """The logarithm of the determinant of a whole kernel."""
    quality = np.exp((1 - d) / (2 * d) * gains)
    kernel = quality[:, None] * (1 + similarity) / 2 * quality
    part = np.ix_([*chosen, i], [*chosen, i])
    return float(np.linalg.slogdet(kernel[part])[1])


@pytest.mark.parametrize(
    ("rerank", "value"), [(MMR, mmr_value), (DPP, dpp_value)]
)
@given(
    st.integers(1, 12),
    st.integers(1, 14),
    st.floats(0.05, 1),
    st.integers(0, 99),
)
@settings(max_examples=40)
def test_each_item_is_the_best_beside_those_before(
    rerank: type[Reranker],
    value: Value,
    count: int,
    top: int,
    diversity: float,
    seed: int,
) -> None:
    gains, similarity = candidates(count, seed)
    places = reranked(rerank, gains, similarity, top, diversity)
    assert len(places) == len(set(places)) == min(top, count)
    for step, place in enumerate(places):
        before = places[:step]
        values = {
            i: value(gains, similarity, diversity, before, i)
            for i in set(range(count)) - set(before)
        }
        # Of nearly equal ones, rounding decides.
        assert values[place] >= max(values.values()) - 1e-9


def test_mmr_by_hand() -> None:
    similarity = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 1.0]])
    gains = np.array([1.0, 0.8, 0.3])
    # 0.5 * 0.8 - 0.5 * 0.9 is less than 0.5 * 0.3.
    assert reranked(MMR, gains, similarity, 2, 0.5) == [0, 2]
    assert reranked(MMR, gains, similarity, 2, 0.2) == [0, 1]


def test_the_same_item_again_adds_no_volume() -> None:
    similarity = cosine_similarity([[1, 0], [1, 0], [0, 1]])
    gains = np.array([1.0, 0.9, 0.0])
    assert reranked(DPP, gains, similarity, 3, 0.1) == [0, 2, 1]


@pytest.mark.parametrize("name", RERANKERS)
def test_without_diversity_relevance_decides(name: str) -> None:
    gains, similarity = candidates(9, 0)
    order = np.argsort(-gains).tolist()
    kind = RERANKERS[name]
    assert reranked(kind, gains, similarity, 5, 0.0) == order[:5]
    nothing = np.zeros(0)
    assert reranked(kind, nothing, np.zeros((0, 0)), 5, 0.5) == []


@pytest.mark.parametrize("name", RERANKERS)
def test_more_diversity_takes_items_further_apart(name: str) -> None:
    distances = []
    for diversity in (0.0, 0.9):
        total = 0.0
        for seed in range(20):
            gains, similarity = candidates(30, seed)
            found = reranked(RERANKERS[name], gains, similarity, 5, diversity)
            assert len(set(found)) == 5
            total += 1 - similarity[np.ix_(found, found)].mean()
        distances.append(total)
    assert distances[1] > 1.1 * distances[0]


@pytest.mark.parametrize("name", RERANKERS)
def test_a_list_of_other_items_falls_short(name: str) -> None:
    gains, similarity = candidates(9, 0)
    found = reranked(RERANKERS[name], gains, similarity, 5, 0.4)

    def falls_short(places: list[int], slack: float) -> bool:
        kind = RERANKERS[name]
        return shortfall(kind, gains, similarity, places, 0.4, slack) > 1e-9

    assert not falls_short(found, 0.0)
    assert falls_short(found[::-1], 0.001)
    other = next(place for place in range(9) if place not in found)
    assert falls_short([*found[:4], other], 0.0)
    assert not falls_short([*found[:4], other], 9.0)


def test_relevance_of_scores_and_similarity_of_nothing() -> None:
    assert relevance([3.0, 3.0]).tolist() == [1.0, 1.0]
    assert relevance([]).tolist() == []
    assert cosine_similarity([[0.0, 0.0], [3.0, 4.0]]).tolist() == [
        [0.0, 0.0],
        [0.0, 1.0],
    ]
    with pytest.raises(ValueError, match="mmr, dpp"):
        check_rerank("mmrr", 0.3)
    with pytest.raises(ValueError, match="from 0 to 1"):
        check_rerank("dpp", 1.5)
