"""What every kind of task has in common."""

import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import SoftmaxGate
from recsys.data import Dataset
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.data import Schema
from recsys.data.load import AnyDataset
from recsys.features import Id
from recsys.models.image_classifier import ImageClassifier
from recsys.models.label_statistics import constant_predictions
from recsys.models.label_statistics import target_scales
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.tasks import TASKS
from recsys.tasks import Task
from recsys.training.measure import measure
from recsys.training.measure import trained_loss

LABELS = np.array([0.0, 1.0, 1.0, np.nan, 0.0, 1.0])
USERS = pd.DataFrame({"user": np.arange(len(LABELS))})
SEVERAL = pytest.mark.parametrize("kind", [kind() for kind in TASKS.values()])


def predictions_of(kind: Task, num_rows: int) -> Any:
    """Probabilities, those of two classes where labels are classes."""
    ones = np.random.default_rng(0).uniform(0.1, 0.9, num_rows)
    if num_classes(kind) is None:
        return ones
    return np.stack([1 - ones, ones], axis=-1)


def num_classes(kind: Task) -> int | None:
    return kind.num_classes(pd.Series([0, 1], name="y"), "rows")


def small_model(kind: Task, scale: float | None = None) -> MultiTaskModel:
    """A model with a task `y` of a kind, for rows that `inputs` makes."""
    count = num_classes(kind)
    constant = kind.constant(LABELS[~np.isnan(LABELS)], count)
    fitted: dict[str, Any] = {
        "constants": {"y": constant},
        "target_scales": {} if scale is None else {"y": scale},
    }
    gates = {"y": SoftmaxGate(2, seed=0)}
    if kind.of_tables:
        users = Id().fit([USERS["user"]])
        mixture = MMoE(gates, MLPExperts(2, 4, seed=0))
        return Ranker({"user": users}, {"y": kind}, mixture, 4, **fitted)
    layers = [keras.layers.Flatten() for _ in range(2)]
    classes = {} if count is None else {"y": count}
    mixture = MMoE(gates, layers)
    shape = (1, 2, 1)
    return ImageClassifier(shape, {"y": kind}, mixture, (), classes, **fitted)


def rows_of(kind: Task) -> Any:
    """Rows with an input each, and labels `y`; one of a table is missing."""
    if kind.of_tables:
        return USERS.assign(y=LABELS)
    pixels = np.arange(2 * len(LABELS), dtype=np.uint8)
    images = pixels.reshape(-1, 1, 2, 1)
    return Images.of(images, {"y": np.nan_to_num(LABELS)})


def data_of(kind: Task) -> AnyDataset:
    """A data set to train on with these rows."""
    splits = {"train": rows_of(kind)}
    if kind.of_tables:
        return Dataset(Schema("shop", {"user": "id"}, {"y": kind}), splits)
    schema = Schema("shop", {"image": "image"}, {"y": kind})
    return ImageDataset(schema, splits, {})


def labels_of(rows: Any) -> Any:
    """The labels that are not missing, and where they are."""
    labels = rows["y"].to_numpy(np.float64)
    known = ~np.isnan(labels)
    return labels[known], known


def test_each_is_called_what_the_registry_says() -> None:
    for name, kind in TASKS.items():
        assert kind.type == name
        assert kind().declaration == name


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
    labels = LABELS[~np.isnan(LABELS)]
    metrics = kind.measure(labels, predictions_of(kind, len(labels)))
    assert tuple(metrics) == kind.metrics
    assert kind.metrics[0] == "loss"
    assert set(kind.scores) < set(kind.metrics)
    assert all(isinstance(value, float) for value in metrics.values())


@SEVERAL
def test_no_row_has_no_metric(kind: Task) -> None:
    metrics = kind.measure(np.zeros(0), predictions_of(kind, 0))
    assert metrics == dict.fromkeys(kind.metrics)


@SEVERAL
def test_constant_is_the_best_of_its_form(kind: Task) -> None:
    """Neither a larger nor a smaller prediction has a smaller loss."""
    labels = LABELS[~np.isnan(LABELS)]
    best = np.asarray(kind.constant(labels, num_classes(kind)))

    def loss_of(constant: Any) -> float:
        same = np.broadcast_to(constant, (len(labels), *best.shape))
        loss = kind.measure(labels, same)["loss"]
        assert loss is not None
        return loss

    # The shares of two classes stay a distribution.
    shift = 0.01 * (np.array([1.0, -1.0]) if best.shape else 1.0)
    assert loss_of(best) < min(loss_of(best + shift), loss_of(best - shift))


@SEVERAL
def test_a_scale_is_had_only_where_it_is_meant(kind: Task) -> None:
    data = data_of(kind)
    assert bool(target_scales(data)) is kind.standardizable
    count = num_classes(kind)
    classes = {} if count is None else {"y": count}
    np.testing.assert_allclose(
        constant_predictions(data, classes)["y"],
        kind.constant(labels_of(data.split("train"))[0], count),
    )


@SEVERAL
@pytest.mark.parametrize("standardised", [False, True])
def test_what_is_measured_is_what_is_trained(
    kind: Task, standardised: bool
) -> None:
    """The loss that Keras computes, over the rows that have a label."""
    if standardised and not kind.standardizable:
        return
    scale = 3.0 if standardised else None
    model, rows = small_model(kind, scale), rows_of(kind)
    scores = Scorer(model).score(rows)
    metrics = measure(
        scores, rows, model.tasks, {"y": 1.0}, model.target_scales
    )
    labels, known = labels_of(rows)
    outputs = to_numpy(model(model.encode(rows))["y"])
    loss = model.loss_of("y", "mean_with_sample_weight")
    expected = loss(labels[:, None].astype("float32"), outputs[known])
    assert metrics["loss"] == pytest.approx(float(expected), rel=1e-5)
    assert trained_loss(metrics["tasks"]["y"]) == metrics["loss"]


@SEVERAL
def test_a_model_is_trained_and_comes_back(kind: Task, tmp_path: Any) -> None:
    model, rows = small_model(kind), rows_of(kind)
    labels, known = labels_of(rows)
    inputs = {name: x[known] for name, x in model.encode(rows).items()}
    model.compile("adam", {"y": model.loss_of("y")})
    before = model.evaluate(inputs, {"y": labels}, verbose=0)
    model.fit(inputs, {"y": labels}, epochs=20, verbose=0)
    after = model.evaluate(inputs, {"y": labels}, verbose=0)
    assert after < before
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.tasks == {"y": kind}
    assert again.get_config()["tasks"] == {"y": kind.type}
    np.testing.assert_allclose(
        to_numpy(again(inputs)["y"]), to_numpy(model(inputs)["y"]), rtol=1e-5
    )
