"""What every kind of task has in common."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras.ops import convert_to_numpy as to_numpy
from pandas.testing import assert_frame_equal

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import SoftmaxGate
from recsys.data import Dataset
from recsys.data import Schema
from recsys.features import Id
from recsys.measuring.measure import measure
from recsys.measuring.measure import trained_loss
from recsys.models.label_statistics import constant_predictions
from recsys.models.label_statistics import target_scales
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.tasks import TASKS
from recsys.tasks import Task

LABELS = np.array([0.0, 1.0, 1.0, np.nan, 0.0, 1.0])
ROWS = pd.DataFrame({"user": np.arange(len(LABELS)), "y": LABELS})
KNOWN = LABELS[~np.isnan(LABELS)]
SEVERAL = pytest.mark.parametrize("kind", [kind() for kind in TASKS.values()])


def predictions_of(kind: Task, num_rows: int) -> Any:
    """Probabilities, those of two classes where labels are classes."""
    ones = np.random.default_rng(0).uniform(0.1, 0.9, num_rows)
    if num_classes(kind) is None:
        return ones
    return np.stack([1 - ones, ones], axis=-1)


def num_classes(kind: Task) -> int | None:
    return kind.num_classes(pd.Series([0, 1], name="y"), "rows")


def small_model(kind: Task, scale: float | None = None) -> Ranker:
    """A ranker with a task `y` of a kind, for the users of `ROWS`."""
    count = num_classes(kind)
    return Ranker(
        {"user": Id().fit([ROWS["user"]])},
        {"y": kind},
        MMoE({"y": SoftmaxGate(2, seed=0)}, MLPExperts(2, 4, seed=0)),
        embedding_dim=4,
        num_classes={} if count is None else {"y": count},
        constants={"y": kind.constant(KNOWN, count)},
        target_scales={} if scale is None else {"y": scale},
    )


def test_each_is_called_what_the_registry_says() -> None:
    for name, kind in TASKS.items():
        assert kind.type == name
        assert kind().declaration == name


@pytest.mark.once("torch")
def test_labels_are_checked_without_keras() -> None:
    code = (
        "import sys, recsys.tasks; "
        "print({'keras', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    received = subprocess.run(
        command, check=True, capture_output=True, text=True
    )
    assert received.stdout.strip() == "set()"


@SEVERAL
def test_metrics_are_those_that_are_named(kind: Task) -> None:
    metrics = kind.measure(KNOWN, predictions_of(kind, len(KNOWN)))
    assert tuple(metrics) == kind.metrics
    assert kind.metrics[0] == "loss"
    known = {*kind.metrics, *kind.group_metrics(10)}
    assert {metric.name_at(10) for metric in kind.logged} < known
    assert all(isinstance(value, float) for value in metrics.values())


@SEVERAL
def test_no_row_has_no_metric(kind: Task) -> None:
    metrics = kind.measure(np.zeros(0), predictions_of(kind, 0))
    assert metrics == dict.fromkeys(kind.metrics)


@SEVERAL
def test_constant_is_the_best_of_its_form(kind: Task) -> None:
    """Neither a larger nor a smaller prediction has a smaller loss."""
    best = np.asarray(kind.constant(KNOWN, num_classes(kind)))

    def loss_of(constant: Any) -> float:
        same = np.broadcast_to(constant, (len(KNOWN), *best.shape))
        loss = kind.measure(KNOWN, same)["loss"]
        assert loss is not None
        return loss

    # The shares of two classes stay a distribution.
    shift = 0.01 * (np.array([1.0, -1.0]) if best.shape else 1.0)
    assert loss_of(best) < min(loss_of(best + shift), loss_of(best - shift))


@SEVERAL
def test_what_is_fitted_to_a_training_split(kind: Task) -> None:
    schema = Schema("shop", {"user": "id"}, {"y": kind})
    data = Dataset(schema, {"train": ROWS})
    assert data.num_classes.get("y") == num_classes(kind)
    assert constant_predictions(data) == {
        "y": kind.constant(KNOWN, num_classes(kind))
    }
    assert bool(target_scales(data)) is kind.standardizable


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
@SEVERAL
@pytest.mark.parametrize("standardised", [False, True])
def test_what_is_measured_is_what_is_trained(
    kind: Task, standardised: bool
) -> None:
    """The loss that Keras computes, over the rows that have a label."""
    if standardised and not kind.standardizable:
        return
    model = small_model(kind, 3.0 if standardised else None)
    metrics = measure(
        Scorer(model).score(ROWS),
        ROWS,
        model.tasks,
        {"y": 1.0},
        model.target_scales,
    )
    outputs = to_numpy(model(model.encode(ROWS[ROWS["y"].notna()]))["y"])
    loss = model.loss_of("y", "mean_with_sample_weight")
    expected = loss(KNOWN[:, None].astype("float32"), outputs)
    assert metrics["loss"] == pytest.approx(float(expected), rel=1e-5)
    assert trained_loss(metrics["tasks"]["y"]) == metrics["loss"]


@pytest.mark.slow
@pytest.mark.sampled(3)
@SEVERAL
def test_a_model_is_trained_and_comes_back(kind: Task, tmp_path: Path) -> None:
    model = small_model(kind)
    inputs = model.encode(ROWS[ROWS["y"].notna()])
    labels = {"y": KNOWN.astype("float32")}
    model.compile("adam", {"y": model.loss_of("y")})
    before = model.evaluate(inputs, labels, verbose=0)
    model.fit(inputs, labels, epochs=20, verbose=0)
    assert model.evaluate(inputs, labels, verbose=0) < before
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.tasks == {"y": kind}
    assert again.get_config()["tasks"] == {"y": kind.type}
    assert_frame_equal(again.predict(ROWS), model.predict(ROWS))


@pytest.mark.sampled(3)
@SEVERAL
@pytest.mark.parametrize("num_rows", [0, 1, 6])
def test_predictions_are_columns(kind: Task, num_rows: int) -> None:
    model, rows = small_model(kind), ROWS[:num_rows]
    table = model.predict(rows)
    assert list(table) == kind.columns("y", num_classes(kind))
    assert len(table) == num_rows
    assert (table.dtypes == "float64").all()
    scored = model.columns(Scorer(model).score(rows).predictions)
    assert_frame_equal(table, pd.DataFrame(scored, index=rows.index))
