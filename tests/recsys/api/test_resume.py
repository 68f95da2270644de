"""Trainings that are stopped, and those that go on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pandas as pd
import pytest

import recsys
from recsys import RunError
from recsys.runs.run import Run
from tests.recsys.api.histories import read_history
from tests.recsys.api.interruptions import interrupt_at
from tests.recsys.api.interruptions import train_and_copy

Settings = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def impatient(settings: Settings) -> dict[str, Any]:
    """Settings of a run that stops because it gets worse."""
    fields = settings(
        Path(),
        epochs=12,
        learning_rate=0.5,
        rate_decay=0.7,
        patience=2,
        standardize_targets=False,
    )
    return {name: fields[name] for name in fields if name != "out"}


@pytest.fixture(scope="module")
def stopped(
    impatient: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of an impatient run; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "stopped"
    recsys.train({**impatient, "out": folder})
    return folder


@pytest.mark.once("torch")
def test_best_weights_are_kept_when_patience_is_over(stopped: Path) -> None:
    losses = pd.read_csv(stopped / "history.csv")["val_loss"]
    assert 3 <= len(losses) == losses.idxmin() + 3 < 12
    metrics = json.loads((stopped / "metrics.json").read_text())
    assert metrics["validation"]["loss"] == pytest.approx(losses.min())


@pytest.mark.once("torch")
def test_resumed_run_ends_as_an_uninterrupted_one(
    stopped: Path,
    impatient: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {**impatient, "out": tmp_path / "parts"}
    run = Run(tmp_path / "parts")
    history = read_history(stopped)
    assert set(history["averaged"]) == {0, 1}
    epochs_before = len(history) - 2
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=epochs_before, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    assert len(pd.read_csv(run.history)) == epochs_before
    assert list(json.loads(run.metrics.read_text())) == ["validation"]
    assert (run.plots / "loss_curves.png").is_file()
    keras.utils.set_random_seed(99)
    metrics = recsys.train(fields, resume=True)
    pd.testing.assert_frame_equal(read_history(run), history, rtol=1e-6)
    pd.testing.assert_frame_equal(
        pd.read_csv(run.weights),
        pd.read_csv(stopped / "weights.csv"),
        rtol=1e-5,
    )
    expected = json.loads((stopped / "metrics.json").read_text())
    assert metrics["test"]["loss"] == pytest.approx(
        expected["test"]["loss"], rel=1e-6
    )
    assert not run.checkpoint.exists()


@pytest.mark.once("torch")
def test_accumulators_of_adagrad_are_resumed(
    settings: Settings, tmp_path: Path
) -> None:
    fields = settings(tmp_path / "whole", optimizer="adagrad", epochs=2)
    parts = {**fields, "out": str(tmp_path / "parts")}
    metrics = train_and_copy(fields, {(1, 1): tmp_path / "parts"})
    with pytest.raises(ValueError, match="`optimizer` must be what the run"):
        recsys.train({**parts, "optimizer": "adam"}, resume=True)
    again = recsys.train(parts, resume=True)
    assert again["test"]["loss"] == pytest.approx(
        metrics["test"]["loss"], rel=1e-6
    )


@pytest.mark.traced_once("jax")
def test_tables_that_are_trained_by_rows_are_resumed(
    settings: Settings, tmp_path: Path
) -> None:
    """In the middle of training, with all that is kept for each row."""
    fields = settings(
        tmp_path / "whole",
        table_optimizer="lazy-adam",
        table_learning_rate=0.1,
        epochs=2,
    )
    parts = {**fields, "out": str(tmp_path / "parts")}
    metrics = train_and_copy(fields, {(1, 1): tmp_path / "parts"})
    again = recsys.train(parts, resume=True)
    assert again["test"]["loss"] == pytest.approx(
        metrics["test"]["loss"], rel=1e-6
    )
    model = Run(tmp_path / "parts").load_model()
    assert not any("moments" in variable.path for variable in model.variables)


@pytest.mark.once("torch")
def test_interrupted_first_epoch_leaves_a_model(
    settings: Settings,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which goes on with the same configuration and the same data alone."""
    own = shutil.copytree(data, tmp_path / "data")
    fields = settings(tmp_path / "run", data=str(own))
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=0, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    assert Run(tmp_path / "run").load_model().tasks
    with pytest.raises(ValueError, match="`k` must be what the run was"):
        recsys.train({**fields, "k": 1}, resume=True)
    shutil.copy(own / "validation.parquet", own / "train.parquet")
    with pytest.raises(RunError, match=r"changed: train\.parquet"):
        recsys.train(fields, resume=True)
    shutil.copy(data / "train.parquet", own)
    recsys.train(fields, resume=True)
    assert len(pd.read_csv(tmp_path / "run" / "history.csv")) == 1


@pytest.mark.once("torch")
def test_finished_run_is_not_resumed(run: Path, settings: Settings) -> None:
    fields = settings(run, task_weights={"watch": 0.9})
    with pytest.raises(RunError, match="finished already"):
        recsys.train(fields, resume=True)


@pytest.mark.once("torch")
def test_resuming_nothing(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no folder of that name"):
        recsys.train(settings(tmp_path / "run"), resume=True)
    with pytest.raises(RunError, match=r"a folder without config\.json"):
        recsys.train(settings(tmp_path), resume=True)


@pytest.mark.once("torch")
def test_a_search_is_resumed_in_either_phase(
    settings: Settings, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {
        "gate": "top-k+",
        "epochs": 3,
        "search_epochs": 2,
        "patience": 9,
        "seed": 1,  # Whose matrix is no permutation yet after the first epoch.
    }
    copies = {(epoch, 1): tmp_path / f"parts-{epoch}" for epoch in (1, 2)}
    uninterrupted = train_and_copy(
        settings(tmp_path / "whole", **fields), copies
    )
    whole = read_history(tmp_path / "whole")
    distances = whole["permutation_distance"]
    assert distances[0] > 0
    assert (distances[2:] == 0).all()
    found = pytest.approx(distances[1])
    assert uninterrupted["permutation_distance"] == found
    for parts in copies.values():
        metrics = recsys.train(settings(parts, **fields), resume=True)
        resumed = read_history(parts)
        pd.testing.assert_frame_equal(resumed, whole, rtol=1e-5)
        assert metrics["permutation_distance"] == found
