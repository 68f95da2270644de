"""Trainings on the training and validation splits, for the best epochs."""

import os
import shutil
import signal
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from keras_moe.types import Logs
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load
from recsys.data.image_dataset import ImageDataset
from recsys.data.image_dataset import Images
from recsys.data.streaming.epoch_order import Share
from recsys.runs.run import Run
from recsys.training import refit
from recsys.training.callbacks.checkpoint import Checkpoint
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.callbacks.validation import Validation
from tests.recsys.retrieval.id_kinds import IdKinds

Fields = Callable[..., dict[str, Any]]

USERS, ITEMS = 12, 20
SCHEMA = Schema(
    "small",
    {"user": "id", "item": "id", "age": "number"},
    {"like": "binary"},
    item="item",
    user="user",
)


def write_data(folder: Path, kind: str) -> Path:
    """Rows whose validation split has an item that training has not."""
    rng = np.random.default_rng(0)
    ids = IdKinds(texts=kind == "texts")

    def rows(count: int, items: int) -> pd.DataFrame:
        user, item = (
            rng.integers(USERS, size=count),
            rng.integers(0, items, count),
        )
        return pd.DataFrame(
            {
                "user": [ids.user(number) for number in user],
                "item": ids.items(item),
                "age": rng.normal(size=count),
                "like": ((user + item) % 3 > 0).astype(float),
            }
        )

    splits = {
        "train": rows(150, ITEMS - 1),
        "validation": rows(60, ITEMS),
        "test": rows(40, ITEMS),
    }
    Dataset(SCHEMA, splits).write(folder)
    return folder


def in_two_parts(data: Path, folder: Path) -> Path:
    """The same rows, those of the validation split in training as well."""
    (folder / "train").mkdir(parents=True)
    for name in ("dataset.json", "validation.parquet", "test.parquet"):
        (folder / name).write_bytes((data / name).read_bytes())
    for number, name in enumerate(("train", "validation")):
        part = (data / f"{name}.parquet").read_bytes()
        (folder / "train" / f"{number}.parquet").write_bytes(part)
    return folder


@pytest.fixture
def fields(settings: Callable[..., dict[str, Any]]) -> Fields:
    # How many rows have an unknown id is of a validation split, which a
    # training on both splits has not.
    small = {"learning_rate": 0.05, "epochs": 3, "unknown_rate": 0.0}
    return lambda data, out, **given: settings(
        out, data=str(data), **{**small, **given}
    )


def assert_same_weights(run: Path, other: Path) -> None:
    ours, others = (Run(folder).load_model().weights for folder in (run, other))
    for variable, wanted in zip(ours, others, strict=True):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(variable),
            ops.convert_to_numpy(wanted),
            variable.path,
        )


def as_arrays(variables: Iterable[keras.Variable]) -> list[np.ndarray]:
    return [np.array(ops.convert_to_numpy(each)) for each in variables]


def validate_as(
    monkeypatch: pytest.MonkeyPatch,
    losses: Sequence[float],
    of_averages: Sequence[float] | None = None,
) -> None:
    """Has epochs validated with these losses, whatever they were.

    Those of averages are as theirs unless given.
    """
    measure, measured_epochs = Validation.on_epoch_end, list[int]()

    def measured(self: Validation, epoch: int, logs: Logs | None) -> None:
        measure(self, epoch, logs)
        assert logs is not None
        second = epoch in measured_epochs
        measured_epochs.append(epoch)
        given = of_averages if second and of_averages else losses
        logs["val_loss"] = given[epoch]

    monkeypatch.setattr(Validation, "on_epoch_end", measured)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (
            "texts",
            {
                "retrieval": True,
                "retrieval_label": "all",
                "rate_decay": 1.0,
                "select": "retrieval",
            },
        ),
        ("large", {"streaming": True, "epoch_average": 0.0}),
    ],
    ids=["retrieval", "streaming"],
)
def test_it_is_a_training_on_both_splits_for_the_best_epochs(
    kind: str, given: dict[str, Any], fields: Fields, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data", kind)
    once = recsys.train(fields(data, tmp_path / "once", **given))
    again = recsys.train(fields(data, tmp_path / "run", refit=True, **given))
    # What is learned is measured before that.
    assert again["validation"] == once["validation"]
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    best = int(history["val_loss"].argmin()) + 1
    if "selected" in again:
        best = again["selected"]["epoch"]
    refitted = pd.read_csv(tmp_path / "run" / refit.HISTORY)
    assert len(refitted) == best
    assert not any(name.startswith("val_") for name in refitted)
    both = in_two_parts(data, tmp_path / "both")
    expected = fields(both, tmp_path / "whole", **given)
    metrics = recsys.train(expected | {"epochs": best, "select": "last"})
    assert_same_weights(tmp_path / "run", tmp_path / "whole")
    assert again["test"] == metrics["test"]
    assert not (tmp_path / "run" / "refit").exists()
    evaluated = recsys.evaluate(tmp_path / "run", data)
    assert evaluated["loss"] == pytest.approx(again["test"]["loss"])
    if given.get("retrieval"):
        measured, wanted = evaluated["retrieval"], again["test"]["retrieval"]
        for part in ("popular", "diversity"):
            assert measured.pop(part) == pytest.approx(wanted.pop(part))
        assert measured == pytest.approx(wanted)


@pytest.mark.once("torch")
def test_the_learning_rate_falls_as_in_the_first_training(
    fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_data(tmp_path / "data", "texts")
    validate_as(monkeypatch, [0.5, 0.6, 0.4])
    run = tmp_path / "run"
    recsys.train(fields(data, run, refit=True, rate_decay=0.5))
    for name in ("history.csv", refit.HISTORY):
        rates = pd.read_csv(run / name)["learning_rate"]
        assert rates.tolist() == [0.05, 0.05, 0.025]


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("kind", "averaged"), [("texts", True), ("large", True), ("large", False)]
)
def test_the_average_of_epochs_is_kept_as_in_the_first_training(
    kind: str,
    averaged: bool,
    fields: Fields,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where its third epoch was the best; before, it was the other way."""
    data = write_data(tmp_path / "data", kind)
    both = in_two_parts(data, tmp_path / "both")
    epochs: list[list[np.ndarray]] = []
    finish = Checkpoint.on_epoch_end
    with monkeypatch.context() as patch:
        patch.setattr(
            Checkpoint,
            "on_epoch_end",
            lambda self, *given: (
                epochs.append(as_arrays(self.model.trainable_variables)),
                finish(self, *given),
            ),
        )
        whole = fields(both, tmp_path / "whole", select="last")
        recsys.train(whole | {"epoch_average": 0.0})
    of_weights, of_averages = [0.5, 0.45, 0.4], [0.5, 0.55, 0.3]
    if not averaged:
        of_averages = [0.5, 0.41, 0.55]
    validate_as(monkeypatch, of_weights, of_averages)
    run = Run(tmp_path / "run")
    recsys.train(fields(data, run.folder, refit=True, epoch_average=0.6))
    history = pd.read_csv(run.history)
    assert history["averaged"].tolist() == [0, not averaged, averaged]
    refitted = run.load_model().trainable_variables
    for first, second, third, weight in zip(
        *epochs, as_arrays(refitted), strict=True
    ):
        average = (first + second) / 2
        average += 0.4 * (third - average)
        expected = average if averaged else third
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.once("torch")
@pytest.mark.parametrize("kind", ["texts", "large"])
def test_what_was_seen_in_the_validation_split_is_not_recommended(
    kind: str, fields: Fields, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data", kind)
    given = {"retrieval": True, "retrieval_label": "all", "epochs": 1}
    recsys.train(fields(data, tmp_path / "run", refit=True, **given))
    rows = load(data).split("validation")
    user = rows["user"].iloc[0]
    found = recsys.recommend(tmp_path / "run", user, exclude_seen=True, top=99)
    had = set(rows.loc[rows["user"] == user, "item"])
    assert len(found)
    assert not had & set(found["item"])


@pytest.mark.once("torch")
def test_it_goes_on_after_an_interruption(
    fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first checkpoint, by Ctrl-C, and killed after that."""
    data = write_data(tmp_path / "data", "texts")
    given = {"refit": True, "checkpoint_steps": 2, "epochs": 2}
    parts = fields(data, tmp_path / "parts", **given)

    def press(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if at == 1 and (tmp_path / "parts" / "refit").is_dir():
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(FiniteLoss, "on_train_batch_begin", press)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(parts)

    def copy(self: FiniteLoss, at: int, logs: Any = None) -> None:
        refitted = (tmp_path / "whole" / "refit").is_dir()
        if refitted and (self.epoch, at) == (0, 3):
            shutil.copytree(tmp_path / "whole", tmp_path / "killed")

    with monkeypatch.context() as patch:
        patch.setattr(FiniteLoss, "on_train_batch_begin", copy)
        whole = recsys.train(fields(data, tmp_path / "whole", **given))
    for name in ("parts", "killed"):
        left = Run(tmp_path / name)
        assert left.load_model().tasks  # That of the first training.
        assert list(left.read_metrics()) == ["validation"]
        resumed = fields(data, left.folder, **given)
        assert recsys.train(resumed, resume=True) == whole
        assert_same_weights(left.folder, tmp_path / "whole")
        assert not (left.folder / "refit").exists()


@pytest.mark.once("torch")
def test_it_goes_on_from_the_same_run(fields: Fields, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", "large")
    recsys.train(fields(data, tmp_path / "first", epochs=1))
    start = {"data": str(data), "warm_start": str(tmp_path / "first")}
    out = tmp_path / "next"
    metrics = recsys.train(
        {**start, "out": str(out), "refit": True, "learning_rate": 1e-9}
    )
    first = load(data).split("train")
    known = load(data).split("test")["item"].isin(first["item"])
    for number, run in enumerate((tmp_path / "first", out)):
        test = data / "test.parquet"
        recsys.predict(run, test, tmp_path / f"{number}.csv")
    before, after = (
        pd.read_csv(tmp_path / f"{number}.csv")["like"][known]
        for number in range(2)
    )
    np.testing.assert_allclose(after, before, atol=1e-5)
    assert metrics["test"]["rows"] == 40


@pytest.mark.once("torch")
def test_several_processes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refit, "process_share", lambda config: Share(0, 2))
    config = TrainConfig(data="synthetic", out=str(tmp_path), refit=True)
    with pytest.raises(ValueError, match="`refit` must be False for several"):
        refit.check_refit(config)


@pytest.mark.once("torch")
def test_the_last_epoch_may_be_kept(fields: Fields, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", "texts")
    given = {"select": "last", "learning_rate": 3.0, "patience": 1}
    metrics = recsys.train(fields(data, tmp_path / "run", **given))
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    assert history["val_loss"].argmin() < 2  # It is not the best one.
    assert metrics["selected"] == {"by": "epoch", "epoch": 3, "value": 3.0}
    last = history["val_loss"].iloc[-1]
    assert metrics["validation"]["loss"] == pytest.approx(last)


@pytest.mark.once("torch")
def test_images_of_both_splits() -> None:
    splits = {
        name: Images.of(
            np.full((count, 2, 2, 1), count, np.uint8), {"t": range(count)}
        )
        for name, count in (("train", 3), ("validation", 2), ("test", 1))
    }
    schema = Schema("dots", {"image": "image"}, {"t": "multiclass"})
    both = ImageDataset(schema, splits, {"t": 3}).with_validation_in_training()
    train = both.split("train")
    assert train.pixels[:, 0, 0, 0].tolist() == [3, 3, 3, 2, 2]
    assert train["t"].tolist() == [0, 1, 2, 0, 1]
    assert both.split("validation") is splits["validation"]
