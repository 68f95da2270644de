from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.models.row_encoder import RowEncoder
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.tasks import Binary

pytestmark = pytest.mark.once("torch")

ROWS = pd.DataFrame(
    {
        "age": [31.0, 18.0, 45.0],
        "click": [1.0, 0.0, np.nan],
        "buy": [1.0, np.nan, 0.0],
        "counts": [0.5, 3.0, 2.0],
    }
)


class Model:
    def __init__(self) -> None:
        self.tasks = {"click": Binary(), "buy": Binary(after="click")}

    def encode(self, rows: pd.DataFrame) -> dict[str, np.ndarray]:
        return {"age": rows["age"].to_numpy(np.float32)}


MODEL: Any = Model()


def test_labels_that_are_missing_count_nothing() -> None:
    inputs, labels, weights = RowEncoder(MODEL)(ROWS)
    assert inputs.keys() == {"age"}
    assert inputs["age"].tolist() == [31, 18, 45]
    assert labels["click"].tolist() == [[1], [0], [0]]
    assert weights["click"].tolist() == [1, 1, 0]


def test_a_task_after_another_has_the_label_of_both() -> None:
    _, labels, weights = RowEncoder(MODEL)(ROWS)
    assert labels["buy"].tolist() == [[1], [0], [0]]
    assert weights["buy"].tolist() == [1, 1, 1]


def test_rows_count_by_their_weight() -> None:
    _, _, weights = RowEncoder(MODEL, "counts")(ROWS)
    assert weights["click"].tolist() == [0.5, 3, 0]


@pytest.mark.parametrize(
    ("label", "expected"), [("click", [0.5, 0, 0]), ("all", [0.5, 3, 2])]
)
def test_retrieval_is_told_how_much_rows_count(
    label: str, expected: list[float]
) -> None:
    inputs, _, _ = RowEncoder(MODEL, "counts", label)(ROWS)
    assert inputs[ROW_WEIGHTS].dtype == np.float32
    assert inputs[ROW_WEIGHTS].tolist() == expected
