from typing import Any

import numpy as np
import pytest

from recsys.models.row_encoder import training_arrays
from recsys.training.batches import TrainingBatches

pytestmark = pytest.mark.once("torch")


def make(num_rows: int = 10, batch_size: int = 4, seed: int = 0) -> Any:
    rows = np.arange(num_rows)
    labels = np.where(rows % 2 == 0, 1.0 * rows, np.nan)
    return TrainingBatches(
        training_arrays({"id": rows}, {"task": labels}), batch_size, seed
    )


def ids(batches: Any) -> list[int]:
    return [id for inputs, _, _ in batches for id in inputs["id"].tolist()]


def test_rows_that_fill_no_batch_are_left_out() -> None:
    batches = make()
    assert len(batches) == 2
    assert len(set(ids(batches))) == 8


def test_fewer_rows_than_a_batch_are_one_batch() -> None:
    assert sorted(ids(make(num_rows=3))) == [0, 1, 2]


def test_labels_and_weights_belong_to_the_inputs() -> None:
    for inputs, labels, weights in make():
        assert labels["task"].shape == (4, 1)
        for id, label, weight in zip(
            inputs["id"], labels["task"][:, 0], weights["task"], strict=True
        ):
            expected = (id, 1.0) if id % 2 == 0 else (0.0, 0.0)
            assert (label, weight) == expected


def test_order_depends_on_epoch_and_seed_alone() -> None:
    batches = make()
    first = ids(batches)
    batches.shuffle(1)
    second = ids(batches)
    assert second != first
    batches.shuffle(0)
    assert ids(batches) == first
    assert ids(make(seed=1)) != first
    later = make()
    later.shuffle(1)
    assert ids(later) == second


def test_buffer_keeps_distant_rows_apart() -> None:
    rows = {"id": np.arange(1000)}
    labels = {"task": np.zeros(1000)}
    batches = TrainingBatches(
        training_arrays(rows, labels), 10, seed=0, shuffle_buffer=20
    )
    first = ids(batches)
    assert first != sorted(first)
    assert max(first[:10]) < 30
    batches.shuffle(1)
    assert sorted(ids(batches)) == list(range(1000)) != ids(batches) != first


def test_types() -> None:
    _, labels, weights = make()[0]
    assert labels["task"].dtype == weights["task"].dtype == np.float32


def test_weights_of_rows_are_those_of_each_task_that_has_a_label() -> None:
    rows = np.arange(3)
    labels = {"a": np.array([1.0, np.nan, 0.0]), "b": np.array([2.0, 3.0, 4.0])}
    weights = np.array([0.5, 3.0, 0.0])
    batches = TrainingBatches(
        training_arrays({"id": rows}, labels, weights), 3, seed=0
    )
    inputs, _, weighed = batches[0]
    of_rows = weights[inputs["id"]].astype("float32")
    known = ~np.isnan(labels["a"][inputs["id"]])
    np.testing.assert_array_equal(weighed["b"], of_rows)
    np.testing.assert_array_equal(weighed["a"], of_rows * known)
    assert weighed["a"].dtype == np.float32
