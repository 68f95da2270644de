"""Adaptive task weights within `fit`, against NumPy on quadratics."""

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys.config.weightings import WEIGHTINGS
from recsys.models.task_training import TaskTraining
from recsys.tables import LazyAdam
from recsys.tables import TableEmbedding
from recsys.tables import TableOptimizer
from recsys.training.callbacks.weight_history import TaskWeightHistory
from recsys.training.compile_model import create_weighting
from recsys.weighting.pcgrad import PCGrad
from recsys.weighting.task_weighting import TaskWeighting
from tests.recsys.weighting import reference

TASKS = reference.TASKS
KERNEL, BIASES = np.array([0.5, -1.0, 2.0]), np.array([0.3, -0.2])
BATCH, STEPS, EPOCHS = 8, 3, 4
UNEQUAL = {"click": 0.7, "price": 0.3}

rng = np.random.default_rng(0)
X = rng.normal(size=(BATCH * STEPS, 3)).astype("float32")
# The tasks pull in opposite directions, so that gradients conflict.
LABELS = np.stack([X @ [1.0, 2.0, 0.0], X @ [-3.0, -2.0, 4.0]], axis=1)


class TwoTasks(TaskTraining):
    """x @ kernel + bias of each task."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = self.add_weight(shape=(3, 1), name="kernel")
        self.biases = [
            self.add_weight(shape=(1,), name=f"{task}_bias") for task in TASKS
        ]
        self.kernel.assign(KERNEL[:, None])
        for bias, value in zip(self.biases, BIASES, strict=True):
            bias.assign([value])
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        shared = ops.matmul(inputs, self.kernel)
        return {
            task: shared + bias
            for task, bias in zip(TASKS, self.biases, strict=True)
        }

    def loss_of(self, task: str) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()


def compiled(
    name: str | None,
    weights: dict[str, float] | None = None,
    optimizer: keras.optimizers.Optimizer | None = None,
) -> TwoTasks:
    model = TwoTasks()
    weights = weights or dict.fromkeys(TASKS, 1.0)
    model.compile(
        optimizer or keras.optimizers.SGD(reference.RATE),
        loss={task: model.loss_of(task) for task in TASKS},
        loss_weights=weights,
    )
    if name is not None:
        model.weighting = create_weighting(
            name,
            weights,
            shared_weights=[model.kernel],
            squared_errors=["price"],
        )
        model.weighting.build(model.optimizer)
    return model


def fit(model: keras.Model, epochs: int = EPOCHS, first: int = 0) -> Any:
    callbacks = []
    if model.weighting is not None:
        callbacks = [TaskWeightHistory(model.weighting)]
    labels = {task: LABELS[:, i, None] for i, task in enumerate(TASKS)}
    return model.fit(
        X,
        labels,
        batch_size=BATCH,
        epochs=epochs,
        initial_epoch=first,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
    ).history


@cache
def fitted(name: str) -> tuple[TwoTasks, dict[str, list[float]]]:
    """A model after `fit`, which no test may change, and its history."""
    model = compiled(name, UNEQUAL)
    return model, fit(model)


def parameters(model: TwoTasks) -> Any:
    return np.concatenate(
        [ops.convert_to_numpy(v).ravel() for v in model.trainable_variables]
    )


def followed(
    direction: Callable[..., Any], weights: tuple[float, float] = (1.0, 1.0)
) -> Any:
    """The parameters after as many steps of descent as `fit` takes."""
    quadratics = reference.Quadratics(KERNEL, BIASES)
    for epoch in range(EPOCHS):
        for start in range(0, len(X), BATCH):
            x, y = X[start : start + BATCH], LABELS[start : start + BATCH]
            step = direction(
                np.array(weights) * quadratics.losses(x, y),
                np.array(weights)[:, None] * quadratics.gradients(x, y),
                epoch,
            )
            quadratics.parameters -= reference.RATE * step
    return quadratics.parameters


REFERENCES: dict[str, Callable[[], Callable[..., Any]]] = {
    "uncertainty": lambda: reference.Uncertainty([False, True]),
    "gradnorm": lambda: reference.GradNorm(shared=3),
    "dwa": reference.DynamicWeightAverage,
    "pcgrad": lambda: reference.pcgrad(lambda i: [1 - i]),
}


def fixed(losses: Any, gradients: Any, epoch: int) -> Any:
    return gradients.sum(axis=0)


@pytest.mark.parametrize(
    "equal", [False, pytest.param(True, marks=pytest.mark.once("torch"))]
)
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_fit_follows_the_reference(name: str, equal: bool) -> None:
    model, _ = fitted(name)
    weights = (UNEQUAL["click"], UNEQUAL["price"])
    if equal:
        model, weights = compiled(name), (1.0, 1.0)
        fit(model)
    expected = followed(REFERENCES[name](), weights)
    np.testing.assert_allclose(parameters(model), expected, rtol=2e-4)
    assert not np.allclose(expected, followed(fixed, weights), rtol=1e-2)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_logged_loss_has_the_fixed_weights(name: str) -> None:
    """As that of the validation, whatever the step follows."""
    _, history = fitted(name)
    assert history["loss"] == pytest.approx(
        0.7 * np.array(history["click_loss"])
        + 0.3 * np.array(history["price_loss"]),
        rel=1e-5,
    )
    assert set(history) == {
        "loss",
        *(f"{task}_loss" for task in TASKS),
        *(f"{task}_task_weight" for task in TASKS),
    }


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_task_of_weight_0_takes_no_part(name: str) -> None:
    model = compiled(name, {"click": 1.0, "price": 0.0})
    history = fit(model)
    assert "price_task_weight" not in history
    values = parameters(model)
    assert np.isfinite(values).all()
    assert values[-1] == np.float32(BIASES[1])  # Only the price uses it.


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_state_is_the_optimizers(name: str) -> None:
    """Another process goes on where this one stopped, model and optimizer."""
    whole = compiled(name, optimizer=keras.optimizers.Adam(0.1))
    fit(whole)
    first = compiled(name, optimizer=keras.optimizers.Adam(0.1))
    fit(first, epochs=2)
    second = compiled(name, optimizer=keras.optimizers.Adam(0.1))
    for model in (first, second):
        model.optimizer.build(model.trainable_variables)
    states = [[*m.variables, *m.optimizer.variables] for m in (first, second)]
    for mine, theirs in zip(*states, strict=True):
        theirs.assign(ops.convert_to_numpy(mine))
    history = fit(second, first=2)
    np.testing.assert_array_equal(parameters(second), parameters(whole))
    assert len(history["click_task_weight"]) == EPOCHS - 2


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_model_has_no_state_of_it(name: str) -> None:
    plain, (weighed, _) = compiled(None), fitted(name)
    assert [v.name for v in weighed.variables] == [
        v.name for v in plain.variables
    ]


def test_mean_weights_of_the_epoch_are_logged() -> None:
    _, history = fitted("dwa")
    clicks, prices = (
        np.array(history[f"{task}_task_weight"]) for task in TASKS
    )
    np.testing.assert_allclose(clicks[:2], 0.7, rtol=1e-6)
    np.testing.assert_allclose(clicks / 0.7 + prices / 0.3, 2, rtol=1e-5)
    assert abs(clicks[2] - 0.7) > 1e-3


def weighing(
    weighting: TaskWeighting, losses: Any, gradients: Any = None
) -> Any:
    weighting.build(keras.optimizers.SGD(0.1))
    products = None if gradients is None else gradients @ gradients.T
    return ops.convert_to_numpy(weighting.step(losses, products))


def test_pcgrad_follows_one_of_the_orders() -> None:
    """Of three tasks, where the order says what comes out."""
    gradients = np.array(
        [[1.0, 0.2, 0.0], [-0.9, 0.5, 0.1], [-0.4, -0.9, 0.3]], "float32"
    )
    orders = ((0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (0, 2, 1), (2, 0, 1))
    possible = [
        reference.pcgrad(
            lambda i, chosen=chosen: orders[chosen[i]]  # type: ignore[misc]
        )(None, gradients, 0)
        for chosen in np.ndindex(6, 6, 6)
    ]
    found = set()
    for seed in range(8):
        weighting = PCGrad(dict.fromkeys("abc", 1.0), seed=seed)
        direction = weighing(weighting, np.ones(3), gradients) @ gradients
        errors = np.abs(np.array(possible) - direction).max(axis=1)
        assert errors.min() < 1e-5
        found.add(int(errors.argmin()))
    assert len(found) > 1


def test_gradients_that_agree_are_left_alone() -> None:
    gradients = np.array([[1.0, 0.5], [0.5, 1.0]], "float32")
    factors = weighing(PCGrad(dict.fromkeys("ab", 1.0)), [1.0, 1.0], gradients)
    np.testing.assert_array_equal(factors, 1)


def test_gradnorm_without_a_label_of_a_task_at_first() -> None:
    weighting = create_weighting(
        "gradnorm",
        dict.fromkeys(TASKS, 1.0),
        shared_weights=[keras.Variable([1.0])],
    )
    weighting.build(keras.optimizers.SGD(0.1))
    for losses in ([1.0, 0.0], [0.5, 2.0], [0.4, 1.0]):
        factors = weighting.step(losses, np.diag(losses))
        assert np.isfinite(ops.convert_to_numpy(factors)).all()


def test_gradnorm_keeps_factors_above_0() -> None:
    """A step of descent of 0.1 times a norm of 100 would lead below."""
    weighting = create_weighting(
        "gradnorm",
        dict.fromkeys(TASKS, 1.0),
        shared_weights=[keras.Variable([1.0])],
    )
    weighing(weighting, [1.0, 1.0], np.diag([1.0, 100.0]))
    factors = ops.convert_to_numpy(weighting.factors)
    assert 0 < factors[1] < 1e-5
    assert factors.sum() == pytest.approx(2)


def test_gradnorm_needs_shared_weights() -> None:
    with pytest.raises(ValueError, match="`shared_weights` must be at least"):
        create_weighting("gradnorm", dict.fromkeys(TASKS, 1.0))


def test_temperature_is_above_0() -> None:
    with pytest.raises(ValueError, match="`temperature` must be above 0"):
        create_weighting("dwa", {"click": 1.0}, temperature=0.0)


class TwoTasksOfIds(TaskTraining):
    """The rows of two lookups of one table, times a kernel of each task."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TableEmbedding(20, 3)
        self.heads = {task: keras.layers.Dense(1) for task in TASKS}
        self.table.build()
        for head in self.heads.values():
            head.build((None, 3))
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        rows = self.table(inputs[:, 0]) * self.table(inputs[:, 1])
        return {task: head(rows) for task, head in self.heads.items()}

    def loss_of(self, task: str) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_tables_by_rows_are_weighed_as_whole_ones(name: str) -> None:
    """In one step, from no moments, lazy Adam is Adam.

    Not Keras's own on TensorFlow: it squares the parts of a row that is looked
    up several times, which a `TableOptimizer` sums first.
    """
    ids = np.random.default_rng(1).integers(0, 6, (BATCH, 2)).astype("int32")
    labels = {task: LABELS[:BATCH, i, None] for i, task in enumerate(TASKS)}
    trained = []
    for by_rows in (False, True):
        keras.utils.set_random_seed(3)
        model = TwoTasksOfIds()
        adam = keras.optimizers.Adam(0.1, epsilon=1e-2)
        model.compile(
            TableOptimizer(
                adam, LazyAdam(epsilon=1e-2), 0 if by_rows else 1000
            ),
            loss={task: model.loss_of(task) for task in TASKS},
        )
        model.weighting = create_weighting(
            name,
            dict.fromkeys(TASKS, 1.0),
            shared_weights=[model.table._embeddings],
        )
        model.weighting.build(model.optimizer)
        model.fit(ids, labels, batch_size=BATCH, epochs=1, verbose=0)
        trained.append([ops.convert_to_numpy(v) for v in model.variables])
    for whole, rows in zip(*trained, strict=True):
        np.testing.assert_allclose(rows, whole, rtol=1e-4, atol=1e-6)
