"""Rerankers beside their definitions in NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.retrieval.rerank import RERANKERS
from recsys.retrieval.rerank import check_rerank
from recsys.retrieval.rerank import cosine_similarity
from recsys.retrieval.rerank import relevance
from recsys.retrieval.rerank.dpp import dpp
from recsys.retrieval.rerank.mmr import mmr


def candidates(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, 20))
    return relevance(rng.normal(size=count)), cosine_similarity(vectors)


def greedy_mmr(
    gains: np.ndarray, similarity: np.ndarray, top: int, d: float
) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < min(top, len(gains)):
        values = {}
        for i in set(range(len(gains))) - set(chosen):
            nearest = max((similarity[i, j] for j in chosen), default=0.0)
            values[i] = (1 - d) * gains[i] - d * nearest
        chosen.append(max(values, key=lambda i: values[i]))
    return chosen


def greedy_dpp(
    gains: np.ndarray, similarity: np.ndarray, top: int, d: float
) -> list[int]:
    """Determinants of whole kernels."""
    quality = np.exp((1 - d) / (2 * d) * gains)
    kernel = quality[:, None] * (1 + similarity) / 2 * quality
    chosen: list[int] = []
    while len(chosen) < min(top, len(gains)):
        values = {}
        for i in set(range(len(gains))) - set(chosen):
            part = np.ix_([*chosen, i], [*chosen, i])
            values[i] = np.linalg.slogdet(kernel[part])[1]
        chosen.append(max(values, key=lambda i: values[i]))
    return chosen


@given(
    st.integers(1, 12),
    st.integers(1, 14),
    st.floats(0.05, 1),
    st.integers(0, 99),
)
@settings(max_examples=40)
def test_they_choose_as_they_are_defined(
    count: int, top: int, diversity: float, seed: int
) -> None:
    gains, similarity = candidates(count, seed)
    assert mmr(gains, similarity, top, diversity) == greedy_mmr(
        gains, similarity, top, diversity
    )
    assert dpp(gains, similarity, top, diversity) == greedy_dpp(
        gains, similarity, top, diversity
    )


def test_mmr_by_hand() -> None:
    similarity = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 1.0]])
    gains = np.array([1.0, 0.8, 0.3])
    # 0.5 * 0.8 - 0.5 * 0.9 is less than 0.5 * 0.3.
    assert mmr(gains, similarity, 2, 0.5) == [0, 2]
    assert mmr(gains, similarity, 2, 0.2) == [0, 1]


def test_the_same_item_again_adds_no_volume() -> None:
    similarity = cosine_similarity([[1, 0], [1, 0], [0, 1]])
    gains = np.array([1.0, 0.9, 0.0])
    assert dpp(gains, similarity, 3, 0.1) == [0, 2, 1]


@pytest.mark.parametrize("name", RERANKERS)
def test_without_diversity_relevance_decides(name: str) -> None:
    gains, similarity = candidates(9, 0)
    order = np.argsort(-gains).tolist()
    assert RERANKERS[name](gains, similarity, 5, 0.0) == order[:5]
    nothing = np.zeros(0)
    assert RERANKERS[name](nothing, np.zeros((0, 0)), 5, 0.5) == []


@pytest.mark.parametrize("name", RERANKERS)
def test_more_diversity_takes_items_further_apart(name: str) -> None:
    distances = []
    for diversity in (0.0, 0.9):
        total = 0.0
        for seed in range(20):
            gains, similarity = candidates(30, seed)
            found = RERANKERS[name](gains, similarity, 5, diversity)
            assert len(set(found)) == 5
            total += 1 - similarity[np.ix_(found, found)].mean()
        distances.append(total)
    assert distances[1] > 1.1 * distances[0]


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
