"""Runs whose tasks are weighed as training goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.config.weightings import WEIGHTINGS
from recsys.runs.run import Run
from tests.recsys.api.interruptions import train_and_copy

Settings = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_resumed_run_ends_as_an_uninterrupted_one(
    name: str, settings: Settings, tmp_path: Path
) -> None:
    """And its files are those of any run, with a weight of each task."""
    fields = settings(
        tmp_path / "whole", weighting=name, epochs=3, patience=3, seed=3
    )
    parts = {**fields, "out": str(tmp_path / "parts")}
    metrics = train_and_copy(fields, {(2, 1): tmp_path / "parts"})
    with pytest.raises(ValueError, match="`weighting` must be what the run"):
        recsys.train({**parts, "weighting": "fixed"}, resume=True)
    keras.utils.set_random_seed(99)
    again = recsys.train(parts, resume=True)
    assert again["test"]["loss"] == pytest.approx(
        metrics["test"]["loss"], rel=1e-6
    )
    whole, resumed = (
        pd.read_csv(tmp_path / run / "history.csv").drop(columns="seconds")
        for run in ("whole", "parts")
    )
    pd.testing.assert_frame_equal(resumed, whole, rtol=1e-5)
    columns = whole[["watch_task_weight", "rating_task_weight"]]
    assert not np.allclose(columns.iloc[-1], 0.5, rtol=1e-6)
    fixed = 0.5 * (whole["val_watch_loss"] + whole["val_rating_loss"])
    np.testing.assert_allclose(whole["val_loss"], fixed, rtol=1e-9)
    config = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert config["weighting"] == name


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "changes",
    [
        {"architecture": "moe"},
        {"architecture": "cgc", "task_experts": 2},
        {"architecture": "ple", "task_experts": 2},
        {"architecture": "home", "task_experts": 2},
        {"architecture": "stem", "task_experts": 2},
        {"architecture": "shared-bottom"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_gradnorm_knows_what_every_architecture_shares(
    changes: dict[str, Any], settings: Settings, tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    fields = settings(run.folder, weighting="gradnorm", epochs=1, **changes)
    recsys.train(fields)
    history = pd.read_csv(run.history)
    assert abs(history["watch_task_weight"][0] - 0.5) > 1e-6


@pytest.mark.once("torch")
def test_a_task_of_weight_0_is_not_weighed(
    settings: Settings, tmp_path: Path
) -> None:
    fields = settings(
        tmp_path / "run",
        weighting="uncertainty",
        epochs=1,
        task_weights={"watch": 1.0, "rating": 0.0},
    )
    recsys.train(fields)
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    assert "rating_task_weight" not in history
