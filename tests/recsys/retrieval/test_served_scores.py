"""Scores of the served graph are those of the live model, in kind."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from recsys.exporting.two_stage_model import TwoStageModel
from recsys.retrieval.formula import Formula

pytestmark = pytest.mark.once("tensorflow")
LOWEST = float(np.finfo(np.float32).min)


def served(text: str, watch: list[float]) -> tuple[list[float], list[Any]]:
    """The best four of items from 1 on, of which the last is none."""
    import tensorflow as tf

    model = object.__new__(TwoStageModel)
    model.formula = Formula(text, ["w"])
    model.top = 4
    model._vectors = None  # No score of the retrieval.
    model._rerank = None
    model._ids = tf.constant(["", "a", "b", "c"])
    columns = {"w": tf.constant([watch], tf.float32)}
    predicted: Any = Mock(return_value=columns)
    model._predict = predicted  # type: ignore[method-assign]
    rank = tf.function(lambda numbers: model.rank({}, numbers))
    found = rank(tf.constant([[1, 2, 3, 0]]))
    scores, ids = found["score"].numpy(), found["item"].numpy()
    return scores[0].tolist(), [id.decode() for id in ids[0]]


@pytest.mark.parametrize(
    ("text", "scores", "ids"),
    [
        ("1 / w", [2.0, -1.0, LOWEST, LOWEST], "bca"),
        ("log(w)", [np.log(np.float32(0.5))] + 3 * [LOWEST], "bac"),
        ("w^0.5", [np.sqrt(np.float32(0.5)), 0.0] + 2 * [LOWEST], "bac"),
        # Beyond float32, and back again.
        ("w * 1e200 / 1e200", [0.5, 0.0, -1.0, LOWEST], "bac"),
        ("w * 1e200", [0.0, LOWEST, LOWEST, LOWEST], "abc"),
    ],
)
def test_items_without_a_finite_score_are_last(
    text: str, scores: list[float], ids: str
) -> None:
    received, best = served(text, [0.0, 0.5, -1.0, 0.7])
    np.testing.assert_allclose(received, scores, rtol=1e-6)
    assert best == [*ids, ""]


def test_hundreds_of_terms_fit_into_a_graph() -> None:
    received, _ = served("+".join(["w"] * 500), [1.0, 2.0, 3.0, 4.0])
    assert received == [1500.0, 1000.0, 500.0, LOWEST]
