from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from recsys.errors import ExportError
from recsys.exporting.two_stage import TwoStage
from recsys.retrieval.formula import Formula


def two_stages(features: list[str], task: str, index: str) -> TwoStage:
    predictions = {task: np.zeros((0, 1))}
    ranker: Any = SimpleNamespace(
        query_names=features,
        no_predictions=Mock(return_value=predictions),
        columns=Mock(return_value=predictions),
    )
    formula = Formula(f"`{task}`", [task])
    return TwoStage(ranker, formula, top=1, candidates=1, index=index)


@pytest.mark.parametrize(
    ("features", "task", "index", "received"),
    [
        (["user", "seen"], "watch", "brute-force", "seen"),
        (["user", "candidates"], "watch", "hnsw", "candidates"),
        (["user", "candidates"], "watch", "ivf", "candidates"),
        (["user"], "item", "brute-force", "item"),
        (["user"], "score", "brute-force", "score"),
    ],
)
def test_names_that_are_taken(
    features: list[str], task: str, index: str, received: str
) -> None:
    with pytest.raises(ExportError, match=rf"Received: \['{received}'\]"):
        two_stages(features, task, index)


def test_candidates_are_an_input_of_faiss_alone() -> None:
    model = two_stages(["user", "candidates"], "watch", "brute-force")
    assert set(model.inputs) == {"user", "candidates"}
