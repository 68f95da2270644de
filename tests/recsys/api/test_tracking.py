"""Trainings on record in experiment trackers; nothing outside is asked."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import recsys
from recsys import RunError
from recsys.cli import run as command_line
from recsys.files.json_files import JsonObject
from recsys.training.tracking.tracked_run import numbers
from tests.recsys.api.interruptions import interrupt_at

Settings = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.once("torch")


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_SILENT", "true")


def train_in_two_parts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, track: str
) -> tuple[JsonObject, JsonObject]:
    """Returns `tracking.json` after the first of two epochs, and metrics."""
    fields = settings(Path("run"), epochs=2, patience=2, track=track)
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=1, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    first = json.loads(Path("run/tracking.json").read_text())
    return first, recsys.train(fields, resume=True)


def test_mlflow_has_parameters_epochs_metrics_and_files(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that was interrupted and resumed: one run of MLflow."""
    mlflow = pytest.importorskip("mlflow")
    first, metrics = train_in_two_parts(settings, monkeypatch, "mlflow")
    assert (first["tracker"], first["epochs"]) == ("mlflow", 1)
    client = mlflow.MlflowClient(Path("mlruns").absolute().as_uri())
    experiment = client.get_experiment_by_name("recsys")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_id == first["id"]
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    config = json.loads(Path("run/config.json").read_text())
    assert run.data.params["num_experts"] == str(config["num_experts"])
    assert run.data.params["track"] == "mlflow"
    history = pd.read_csv("run/history.csv")
    logged = client.get_metric_history(first["id"], "val_loss")
    assert [metric.step for metric in logged] == [1, 2]
    assert [m.value for m in logged] == pytest.approx([*history["val_loss"]])
    for path, value in numbers(metrics).items():
        assert run.data.metrics[path.replace("@", "_")] == value
    files = {file.path for file in client.list_artifacts(first["id"])}
    assert {
        *("config.json", "history.csv", "metrics.json", "model_card.md"),
        "plots",
    } <= files
    plots = client.list_artifacts(first["id"], "plots")
    assert "plots/loss_curves.png" in {file.path for file in plots}


def test_wandb_has_parameters_epochs_metrics_and_files(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both parts of a resumed run have one id, which a server merges."""
    pytest.importorskip("wandb")
    first, metrics = train_in_two_parts(settings, monkeypatch, "wandb")
    assert (first["tracker"], first["epochs"]) == ("wandb", 1)
    records = sorted(
        Path("wandb").glob(f"offline-run-*/run-{first['id']}.wandb")
    )
    before, after = map(_written, records, ["val_loss", "model_card.md"])
    losses = pd.read_csv("run/history.csv")["val_loss"]
    for content, own, other in ((before, 0, 1), (after, 1, 0)):
        assert _value(content, "val_loss") == pytest.approx(losses[own])
        assert str(losses[other]).encode() not in content
    config = json.loads(Path("run/config.json").read_text())
    assert _value(before, "num_experts") == config["num_experts"]
    for path, value in [*numbers(metrics).items()][:3]:
        assert _value(after, path) == pytest.approx(value)
    for name in ("metrics.json", "plots/loss_curves.png", "model_card.md"):
        assert name.encode() in after


def _written(file: Path, name: str) -> bytes:
    """The content of a file that wandb's own process writes.

    `finish` returns when that process has a run's last record, but what was
    buffered of the file follows later.
    """
    for _ in range(60):
        content = file.read_bytes()
        if name.encode() in content:
            break
        time.sleep(1)
    return content


def _value(content: bytes, name: str) -> float:
    """The number behind a name: protocol buffers hold both as texts."""
    found = re.search(
        re.escape(name.encode()) + rb'["\x00-\x1f\x80-\xff]{2,4}([-\d.e]+)',
        content,
    )
    at = content.find(name.encode())
    assert found is not None, (name, len(content), at, content[at:][:60])
    return float(found[1])


def test_a_tracker_that_refuses_is_one_clear_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://")
    with pytest.raises(RunError, match="`track`: mlflow refuses the run: "):
        recsys.train(settings(Path("run"), track="mlflow"))


def test_a_package_that_is_missing(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(
        recsys.config.trackers.TRACKERS, "wandb", "no_such_package_wandb:X"
    )
    data = str(settings(Path("run"))["data"])
    words = ["train", "--data", data, "--out", "run", "--track", "wandb"]
    assert command_line(words) == 1
    assert "is missing. Install the extra" in capfd.readouterr().err
    assert not Path("run").exists()
