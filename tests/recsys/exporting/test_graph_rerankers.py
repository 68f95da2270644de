"""Rerankers in a graph of TensorFlow beside those in NumPy."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.exporting.graph_rerankers import GRAPH_RERANKERS
from recsys.exporting.graph_rerankers import GraphReranking
from recsys.retrieval.rerank import RERANKERS
from recsys.retrieval.rerank.diverse_rows import diverse_rows
from recsys.retrieval.rerank.diverse_rows import is_diverse

pytestmark = pytest.mark.once("tensorflow")

WIDTH = 3  # Items of more have no volume beside that many others.


@cache
def compiled(rerank: str, diversity: float, top: int) -> Any:
    """A graph for any number of queries and candidates."""
    import tensorflow as tf

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None), tf.float64),
            tf.TensorSpec((None, None), tf.bool),
            tf.TensorSpec((None, None, WIDTH), tf.float32),
        ]
    )
    def places(scores: Any, scored: Any, vectors: Any) -> Any:
        reranking = GraphReranking(rerank, diversity, lambda _: vectors, top)
        return reranking(scores, scored, None)

    return places


@pytest.mark.parametrize("rerank", RERANKERS)
@given(
    st.integers(0, 2**32),
    st.integers(0, 4),
    st.integers(5, 9),
    st.sampled_from([0.0, 0.3, 1.0]),
)
@settings(max_examples=40, deadline=None)
def test_lists_are_those_of_numpy(
    rerank: str, seed: int, queries: int, count: int, diversity: float
) -> None:
    """Some candidates have no score; some are the same item, or have none."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(queries, count, WIDTH)).astype(np.float32)
    vectors[:, 1] = vectors[:, 0]
    vectors[:, 2] = 0.0
    scores = -np.sort(-rng.normal(size=(queries, count)), axis=1)
    scored = np.arange(count) < rng.integers(0, count + 1, (queries, 1))
    received = compiled(rerank, diversity, 5)(scores, scored, vectors).numpy()
    assert received.shape == (queries, 5)
    for row in range(queries):
        table = pd.DataFrame(
            {
                "score": np.where(scored[row], scores[row], np.nan),
                "place": np.arange(count),
            }
        )
        wanted = diverse_rows(table, vectors[row], rerank, diversity, 5)
        places = received[row].tolist()
        if places != wanted["place"].tolist():  # Of equal items, another one.
            assert is_diverse(table, vectors[row], places, rerank, diversity, 5)


def test_every_reranker_is_there() -> None:
    assert GRAPH_RERANKERS.keys() == RERANKERS.keys()


@pytest.mark.parametrize("rerank", RERANKERS)
def test_what_is_no_list_of_a_reranker(rerank: str) -> None:
    scores = [0.9, 0.8, 0.2, np.nan]
    table = pd.DataFrame({"score": scores})
    vectors = np.array([[1, 0], [1, 0.1], [0, 1], [0, 1]])
    for places, expected in (
        ([0, 2, 1], True),
        ([0, 1, 2], False),
        ([0, 2], False),
        ([0, 2, None], False),
        ([0, 3, 2], False),
    ):
        received = is_diverse(table, vectors, places, rerank, 0.6, 3)
        assert received == expected, places
    nothing = pd.DataFrame({"score": [np.nan, np.nan]})
    assert is_diverse(nothing, vectors[:2], [0, 1], rerank, 0.6, 3)
