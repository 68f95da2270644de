from typing import Any

import keras
import numpy as np
import pytest

from recsys.models.feeding import InputBatches
from recsys.models.feeding import feed
from recsys.models.traced_once import TracedOnce


class Doubled(TracedOnce):
    """Says with how many rows it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.called_with: list[int | None] = []
        self.built = True

    def call(self, inputs: dict[str, Any]) -> Any:
        self.called_with.append(inputs["x"].shape[0])
        return 2 * inputs["x"]


def predicted(model: Doubled, num_rows: int, batch_size: int) -> np.ndarray:
    x = np.arange(num_rows, dtype="float32")[:, None]
    batches = feed(InputBatches({"x": x}, batch_size))
    return np.asarray(model.predict(batches, verbose=0))


@pytest.mark.parametrize("num_rows", [1, 4, 5, 8])
def test_it_predicts_every_row(num_rows: int) -> None:
    np.testing.assert_array_equal(
        predicted(Doubled(), num_rows, 4)[:, 0], 2 * np.arange(num_rows)
    )


on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow traces twice"
)


@on_tensorflow
def test_it_is_traced_once_for_batches_of_all_sizes() -> None:
    model = Doubled()
    for num_rows, batch_size in ((5, 2), (7, 3), (1, 1)):
        predicted(model, num_rows, batch_size)
    assert model.called_with == [None]
    model.make_predict_function()
    predicted(model, 5, 2)
    assert model.called_with == [None]
    model.make_predict_function(force=True)
    predicted(model, 5, 2)
    assert model.called_with == [None, None]


@on_tensorflow
def test_it_runs_eagerly_where_it_is_told_to() -> None:
    model = Doubled()
    model.run_eagerly = True
    np.testing.assert_array_equal(
        predicted(model, 5, 2)[:, 0], 2 * np.arange(5)
    )
    assert model.called_with == [2, 2, 1]
