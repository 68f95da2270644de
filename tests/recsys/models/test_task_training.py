from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys.models.task_training import TaskTraining
from recsys.tables import LazyAdam
from recsys.tables import TableEmbedding
from recsys.tables import TableOptimizer

TASKS = ("click", "price")
ROWS = 12

rng = np.random.default_rng(0)
IDS = rng.integers(0, 5, ROWS).astype("int32")
LABELS = {task: rng.normal(size=(ROWS, 1)).astype("float32") for task in TASKS}


class Scores:
    """A dense layer for each task, on the rows of a table; a loss is added."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TableEmbedding(5, 3)
        self.heads = {task: keras.layers.Dense(1) for task in TASKS}
        self.table.build()
        for head in self.heads.values():
            head.build((None, 3))
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        rows = self.table(inputs)
        if training:
            self.add_loss(0.1 * ops.mean(ops.square(rows)))
        return {task: head(rows) for task, head in self.heads.items()}


class Plain(Scores, keras.Model):
    pass


class Composed(Scores, TaskTraining):
    def loss_of(self, task: str) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()


class Noting(Composed):
    def call(self, inputs: Any, training: bool = False) -> Any:
        outputs = super().call(inputs, training)
        self.note_loss("retrieval_loss", ops.convert_to_tensor(2.0))
        self.note_loss("another", ops.convert_to_tensor(3.0))
        return outputs


def trained(model: keras.Model, optimizer: Any) -> Any:
    """The history of two epochs of three batches, and the weights after it."""
    model.compile(optimizer, loss=dict.fromkeys(TASKS, "mse"))
    found = model.fit(
        IDS, LABELS, batch_size=4, epochs=2, shuffle=False, verbose=0
    )
    return found.history, [ops.convert_to_numpy(one) for one in model.weights]


def made(kind: type[keras.Model]) -> Any:
    keras.utils.set_random_seed(1)
    return kind()


def test_without_further_ado_a_step_is_that_of_keras() -> None:
    results = [
        trained(made(kind), keras.optimizers.Adam(0.1))
        for kind in (Plain, Composed)
    ]
    (history, weights), (other, others) = results
    assert history == other
    for one, same in zip(weights, others, strict=True):
        np.testing.assert_array_equal(one, same)


def test_tables_are_trained_by_rows() -> None:
    model = made(Composed)
    table = model.table.weights[0]
    before = ops.convert_to_numpy(table).copy()
    optimizer = TableOptimizer(keras.optimizers.Adam(0.1), LazyAdam())
    model.compile(optimizer, loss=dict.fromkeys(TASKS, "mse"))
    some = IDS < 3
    labels = {task: values[some] for task, values in LABELS.items()}
    model.fit(IDS[some], labels, batch_size=64, epochs=1, verbose=0)
    changed = (ops.convert_to_numpy(table) != before).any(axis=1)
    np.testing.assert_array_equal(changed, [True, True, True, False, False])


@pytest.mark.traced_once("jax")
def test_what_the_loss_consists_of_is_logged() -> None:
    model = made(Noting)
    model.log_losses(["retrieval_loss"])
    history, _ = trained(model, keras.optimizers.SGD(0.0))
    plain, _ = trained(made(Plain), keras.optimizers.SGD(0.0))
    assert set(history) == {*plain, "total_loss", "retrieval_loss"}
    assert history["loss"] == plain["loss"]
    assert history["retrieval_loss"] == pytest.approx([2.0, 2.0])
    rows = ops.convert_to_numpy(model.table(IDS))
    added = 0.1 * np.mean(np.square(rows))
    expected = history["loss"][0] - added
    assert history["total_loss"] == pytest.approx([expected] * 2, rel=1e-5)
    assert "total_loss" not in {one.name for one in made(Plain).metrics}


@pytest.mark.traced_once("jax")
def test_what_nobody_logs_is_noted_nowhere() -> None:
    history, _ = trained(made(Noting), keras.optimizers.SGD(0.1))
    plain, _ = trained(made(Plain), keras.optimizers.SGD(0.1))
    assert history == plain
