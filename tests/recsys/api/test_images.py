"""Images through the stages that tables go through."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras.ops import convert_to_numpy as to_numpy

import recsys
from recsys import DataError
from recsys import RunError
from recsys import TrainConfig
from recsys.cli import run as command_line
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.data import Schema
from recsys.reporting.planned_run import PlannedRun
from recsys.tasks import Binary

pytestmark = pytest.mark.slow

Settings = Callable[..., dict[str, Any]]

SCHEMA = Schema(
    "tiny-images",
    {"image": "image"},
    {"brightest": "multiclass", "dark": "binary"},
)


def _rows(num_rows: int, seed: int, side: int = 16) -> Images:
    """One third of each image is bright, and a half of them are dark."""
    rng = np.random.default_rng(seed)
    brightest, dark = rng.integers(0, (3, 2), (num_rows, 2)).T
    pixels = rng.integers(0, 60, (num_rows, side, side, 1))
    for row, third in enumerate(brightest):
        pixels[row, :, 5 * third : 5 * third + 5] += 180 - 80 * dark[row]
    return Images.of(
        pixels.astype(np.uint8), {"brightest": brightest, "dark": dark}
    )


def _dataset(side: int = 16) -> ImageDataset:
    sizes = {"train": 160, "validation": 40, "test": 40}
    splits = {
        name: _rows(size, seed, side)
        for seed, (name, size) in enumerate(sizes.items())
    }
    return ImageDataset(SCHEMA, splits, {"brightest": 3})


@pytest.fixture(scope="module")
def image_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny images as a folder."""
    folder = tmp_path_factory.mktemp("data") / "images"
    _dataset().write(folder)
    return folder


@pytest.fixture(scope="module")
def image_settings(image_data: Path) -> Settings:
    """Makes the fields of a configuration that trains in seconds."""

    def make(out: Path, **changes: Any) -> dict[str, Any]:
        fields = {
            "data": str(image_data),
            "out": str(out),
            "preset": "svhn",
            "gate": "top-k",
            "num_experts": 3,
            "expert_units": [8],
            "head_units": [8],
            "batch_size": 32,
            "learning_rate": 0.01,
            "epochs": 2,
        }
        return fields | changes

    return make


@pytest.fixture(scope="module")
def image_run(
    image_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a finished run on images; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "images"
    recsys.train(image_settings(folder, epochs=6, train_rows=150))
    return folder


@pytest.mark.once("torch")
def test_run_folder_is_complete(image_run: Path) -> None:
    assert {path.name for path in image_run.iterdir()} == {
        "config.json",
        "data.json",
        "model.keras",
        "optimizer.npz",
        "metrics.json",
        "history.csv",
        "weights.csv",
        "sample.npz",
        "plots",
        "tensorboard",
    }
    assert {path.name for path in (image_run / "plots").iterdir()} == {
        "loss_curves.png",
        "load_heat_map.png",
        "experts_per_example.png",
        "calibration_dark.png",
    }


@pytest.mark.traced_once("tensorflow")
def test_learns_and_measures(image_run: Path) -> None:
    metrics = json.loads((image_run / "metrics.json").read_text())
    assert list(metrics) == ["validation", "test"]
    test = metrics["test"]
    assert test["rows"] == 40
    names = ["loss", "accuracy", "constant"]
    assert list(test["tasks"]["brightest"]) == names
    assert list(test["tasks"]["dark"]) == [*Binary().metrics, "constant"]
    assert test["tasks"]["brightest"]["accuracy"] > 0.9
    assert test["accuracy"] == pytest.approx(
        sum(task["accuracy"] for task in test["tasks"].values()) / 2
    )
    assert test["loss"] == pytest.approx(
        sum(task["loss"] for task in test["tasks"].values()) / 2
    )
    experts = test["experts_per_example_by_task"]
    assert list(experts) == ["brightest", "dark"]
    # A weight that is too small for a float is 0.
    assert all(1 <= number <= 2 for number in experts.values())
    history = pd.read_csv(image_run / "history.csv")
    assert history["val_loss"].min() == pytest.approx(
        metrics["validation"]["loss"], rel=1e-6
    )
    assert history["val_brightest_accuracy"].max() > 0.9


@pytest.mark.once("torch")
def test_pixels_may_be_wider_than_bytes(
    image_settings: Settings, tmp_path: Path
) -> None:
    """As sums of images are, which are brighter than white."""
    data = _dataset()
    metrics = []
    for name, kind in (("bytes", np.uint8), ("sums", np.uint16)):
        splits = {
            split: Images(images.pixels.astype(kind), images.labels)
            for split, images in data.splits.items()
        }
        ImageDataset(SCHEMA, splits, {"brightest": 3}).write(tmp_path / name)
        fields = {"data": str(tmp_path / name), "epochs": 1}
        settings = image_settings(tmp_path / f"{name}-run", **fields)
        metrics.append(recsys.train(settings))
    assert metrics[0] == metrics[1]


@pytest.mark.once("torch")
def test_configuration_holds_the_sizes(image_run: Path) -> None:
    config = json.loads((image_run / "config.json").read_text())
    assert config["preset"] == "svhn"
    assert (config["num_experts"], config["k"]) == (3, 2)
    assert config["expert_dropout"] == 0.0
    assert config["task_weights"] == {"brightest": 0.5, "dark": 0.5}


@pytest.mark.once("torch")
def test_loss_is_the_cross_entropy(
    image_settings: Settings, image_data: Path, tmp_path: Path
) -> None:
    """One batch: the loss of the untrained model is logged."""
    fields = image_settings(
        tmp_path / "run", batch_size=160, epochs=1, learning_rate=1e-12
    )
    recsys.train(fields)
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    metrics = recsys.evaluate(tmp_path / "run", image_data, "train")
    for task in SCHEMA.tasks:
        assert history[f"{task}_loss"][0] == pytest.approx(
            metrics["tasks"][task]["loss"], rel=1e-4
        )
    assert history["loss"][0] == pytest.approx(metrics["loss"], rel=1e-4)


@pytest.mark.traced_once("tensorflow")
def test_run_is_evaluated_as_it_was_in_training(
    image_run: Path, image_data: Path
) -> None:
    written = json.loads((image_run / "metrics.json").read_text())["test"]
    metrics = recsys.evaluate(image_run, image_data)
    received, expected = map(pd.json_normalize, (metrics, written))
    pd.testing.assert_frame_equal(received, expected, rtol=1e-6)


@pytest.mark.once("torch")
def test_other_data_are_refused(
    image_run: Path, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="'image' of type image, as in tra"):
        recsys.evaluate(image_run, data)
    _dataset(side=18).write(tmp_path / "large")
    with pytest.raises(DataError, match=r"images \(16, 16, 1\), as in train"):
        recsys.evaluate(image_run, tmp_path / "large")


@pytest.mark.once("torch")
def test_a_run_on_tables_does_not_take_images(
    run: Path, image_data: Path
) -> None:
    with pytest.raises(DataError, match="'user' of type id, as in training"):
        recsys.evaluate(run, image_data)


@pytest.mark.traced_once("tensorflow")
def test_model_is_loaded_for_python(image_run: Path) -> None:
    model = recsys.load_model(image_run)
    test = _dataset().split("test")
    outputs = model(model.encode(test))
    found = to_numpy(outputs["brightest"]).argmax(axis=1)
    metrics = json.loads((image_run / "metrics.json").read_text())["test"]
    assert (found == test["brightest"]).mean() == pytest.approx(
        metrics["tasks"]["brightest"]["accuracy"]
    )


@pytest.mark.traced_once("tensorflow")
def test_prediction_and_export_are_for_tables(
    image_run: Path, tmp_path: Path
) -> None:
    message = "expected a run on tables. Received: a run with the features"
    with pytest.raises(RunError, match=message):
        recsys.predict(image_run, tmp_path / "in.csv", tmp_path / "out.csv")
    with pytest.raises(RunError, match=message):
        recsys.load_ranker(image_run)
    if keras.backend.backend() == "tensorflow":
        with pytest.raises(RunError, match=message):
            recsys.export(image_run, tmp_path / "out")


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gate": "hash"}, "`gate` must not be 'hash', which routes by an id"),
        (
            {"architecture": "ple"},
            "`architecture` must not be 'ple' for images",
        ),
        (
            {"architecture": "home"},
            "`architecture` must not be 'home' for images",
        ),
        ({"preset": None}, "'tiny-images' in .* Received: preset='tiny"),
        ({"preset": "movielens"}, "must be one of .*'celeba'"),
        ({"k": 4}, "`k`"),
    ],
)
def test_wrong_setting_leaves_no_folder(
    changes: dict[str, Any],
    message: str,
    image_settings: Settings,
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match=message):
        recsys.train(image_settings(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


@pytest.mark.once("torch")
def test_resumed_run_ends_as_an_uninterrupted_one(
    image_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: dict[str, Any] = {
        "gate": "moesart",
        "expert_dropout": 0.2,
        "batch_size": 80,
    }
    recsys.train(image_settings(tmp_path / "whole", **fields))
    parts = image_settings(tmp_path / "parts", **fields)
    with monkeypatch.context() as patch:

        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(
            "recsys.training.callbacks.progress_line.ProgressLine.on_epoch_end",
            interrupt,
        )
        with pytest.raises(KeyboardInterrupt):
            recsys.train(parts)
    recsys.train(parts, resume=True)
    whole, resumed = (
        pd.read_csv(tmp_path / name / "history.csv").drop(columns="seconds")
        for name in ("whole", "parts")
    )
    pd.testing.assert_frame_equal(resumed, whole, rtol=1e-5)


@pytest.mark.once("torch")
def test_comparison_reports_the_accuracy(
    image_run: Path, image_settings: Settings
) -> None:
    config = TrainConfig(**image_settings(image_run))
    result = PlannedRun("", "Top-k", config).result()
    metrics = json.loads((image_run / "metrics.json").read_text())["test"]
    tasks = metrics["tasks"]
    assert result is not None
    assert result["brightest accuracy"] == tasks["brightest"]["accuracy"]
    assert result["dark auc"] == tasks["dark"]["auc"]
    assert result["dark accuracy"] == tasks["dark"]["accuracy"]
    assert result["mean accuracy"] == metrics["accuracy"]
    assert result["experts per example"] == metrics["experts_per_example"]


@pytest.mark.once("torch")
def test_command_line(
    image_settings: Settings,
    image_data: Path,
    image_run: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = image_settings(tmp_path / "run", epochs=1, train_rows=40)
    words = [
        word
        for name, value in options.items()
        for word in (
            f"--{name.replace('_', '-')}",
            str(value[0] if isinstance(value, list) else value),
        )
    ]
    assert command_line(["train", *words]) == 0
    printed = capfd.readouterr().out
    for word in ("brightest", "dark", "Accuracy", "AUC", "weighted total"):
        assert word in printed
    assert "MSE" not in printed
    arguments = ["--run", str(image_run), "--out", str(tmp_path / "out.csv")]
    arguments += ["--input", str(image_data / "test.npz")]
    assert command_line(["predict", *arguments]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "expected a run on tables" in line


# One process starts a backend for both: a run on images, and one on a table.
COMMANDS = """
import json, sys
from recsys.cli import run
for command in json.load(sys.stdin):
    assert run(command) == 0, command
"""


@pytest.mark.once("tensorflow")
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_models_are_used_under_another_backend(
    backend: str,
    image_run: Path,
    image_data: Path,
    run: Path,
    data: Path,
    warm_program: Callable[[str], Path | None],
    tmp_path: Path,
) -> None:
    out = tmp_path / "metrics.json"
    evaluate = ["evaluate", "--run", image_run, "--data", image_data]
    evaluate += ["--out", out, "--backend", backend]
    test, there = data / "test.parquet", tmp_path / "there.parquet"
    predict = ["predict", "--run", run, "--input", test, "--out", there]
    predict += ["--backend", backend]
    python, environment = Path(sys.executable), {**os.environ}
    # The other one starts with Python itself, and names of two backends.
    if backend == "torch" and (warm := warm_program(backend)):
        python, environment["KERAS_BACKEND"] = warm, backend
    subprocess.run(
        [python, "-c", COMMANDS],
        input=json.dumps([evaluate, predict], default=str),
        env=environment,
        text=True,
        check=True,
    )
    expected = json.loads((image_run / "metrics.json").read_text())["test"]
    metrics = json.loads(out.read_text())
    assert metrics["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    here = tmp_path / "here.parquet"
    recsys.predict(run, test, here)
    tables = map(pd.read_parquet, (there, here))
    pd.testing.assert_frame_equal(*tables, rtol=1e-4, atol=1e-5)
