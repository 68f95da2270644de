"""Smaller models of trained runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys import Dataset
from recsys import RunError
from recsys.cli import run as command
from recsys.runs.run import Run

pytestmark = pytest.mark.slow
once = pytest.mark.once("torch")


def kernels(run: Path) -> dict[str, np.ndarray]:
    """The experts' weights by name, and the names' ends alone."""
    experts = recsys.load_model(run).mixture.experts
    return {w.name: ops.convert_to_numpy(w) for w in experts.weights}


@once
def test_a_run_with_fewer_experts_is_read_by_all_commands(
    run: Path, data: Path, tiny: Dataset, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    metrics = recsys.compress(run, data, small, experts=2, int8=True)
    assert metrics == json.loads((small / "metrics.json").read_text())
    for split in ("validation", "test"):
        measured = recsys.evaluate(small, data, split)["tasks"]
        for task, values in metrics[split]["tasks"].items():
            assert measured[task]["loss"] == pytest.approx(values["loss"])
    before, after = kernels(run), kernels(small)
    assert after["kernel_0"].dtype == np.int8
    assert after["kernel_0"].shape == (2, *before["kernel_0"].shape[1:])
    # The two experts that are left are among the four.
    values = after["kernel_0"] * after["scale_0"][:, None]
    for expert in values:
        distances = np.abs(before["kernel_0"] - expert).max(axis=(1, 2))
        assert distances.min() <= after["scale_0"].max()
    rows = tiny.split("test")
    predicted = recsys.load_ranker(small).predict(rows)
    assert not predicted.equals(recsys.load_ranker(run).predict(rows))
    config = Run(small).read_config()
    assert (config.num_experts, config.k) == (2, 2)
    assert config.task_weights == Run(run).read_config().task_weights


@once
def test_the_command_prunes_alone(
    run: Path,
    data: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "small"
    words = ["--run", str(run), "--data", str(data), "--out", str(out)]
    words += ["--importance", "output"]
    assert command(["compress", *words, "--experts", "3"]) == 0
    shown = capfd.readouterr().out
    assert "4 experts before, 3 after" in shown
    assert f"The smaller model is in {out}" in shown
    before, after = kernels(run), kernels(out)
    kept = [
        expert
        for expert in range(4)
        if (before["kernel_0"][expert] == after["kernel_0"][:, :])
        .all((1, 2))
        .any()
    ]
    assert len(kept) == 3
    np.testing.assert_array_equal(before["bias_0"][kept], after["bias_0"])
    report = ["report", str(out), "--out", str(tmp_path / "report")]
    assert command(report) == 0


@once
def test_eight_bits_hardly_change_predictions(
    run: Path, data: Path, tiny: Dataset, tmp_path: Path
) -> None:
    recsys.compress(run, data, tmp_path / "small", int8=True)
    rows = tiny.split("test")
    pd.testing.assert_frame_equal(
        recsys.load_ranker(run).predict(rows),
        recsys.load_ranker(tmp_path / "small").predict(rows),
        atol=0.02,
    )
    assert Run(tmp_path / "small").read_config().num_experts == 4


@pytest.mark.once("tensorflow")
def test_a_smaller_model_is_exported(
    settings: Callable[..., Any],
    train_quickly: Callable[[Any], object],
    data: Path,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    train_quickly(settings(run, gate="comet", k=2))
    recsys.compress(run, data, tmp_path / "small", experts=2, int8=True)
    # It raises an error unless the file predicts what the model does.
    recsys.export(tmp_path / "small", tmp_path / "served")


@once
def test_experts_of_tasks_are_only_quantized(
    new_run: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    run = new_run(architecture="cgc", epochs=1)
    with pytest.raises(RunError, match="architecture mmoe or moe"):
        recsys.compress(run, data, tmp_path / "pruned", experts=2)
    recsys.compress(run, data, tmp_path / "small", int8=True)
    model = recsys.load_model(tmp_path / "small")
    assert any(weight.dtype == "int8" for weight in model.weights)


@once
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"experts": None}, ValueError, "`experts` or `int8` must be given"),
        ({"experts": 1}, ValueError, "at least 2, and fewer than the run's 4"),
        ({"experts": 4}, ValueError, "fewer than the run's 4 experts"),
        ({"experts": 0}, ValueError, "`experts` must be at least 1"),
        ({"experts": 2.0}, TypeError, "`experts` must be an integer"),
        ({"run": "nowhere"}, RunError, "nowhere"),
        ({"data": "nowhere"}, recsys.DataError, "nowhere"),
    ],
)
def test_wrong_arguments(
    changes: dict[str, Any],
    error: type[Exception],
    message: str,
    run: Path,
    data: Path,
    tmp_path: Path,
) -> None:
    arguments = {"run": run, "data": data, "experts": 2, **changes}
    with pytest.raises(error, match=message):
        recsys.compress(out=tmp_path / "small", **arguments)
    assert not (tmp_path / "small").exists()


@once
def test_nothing_is_written_over(run: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="new or empty"):
        recsys.compress(run, data, tmp_path, experts=2)


@once
def test_an_interruption_leaves_nothing(
    run: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recsys.api.compress.write_outcome", press)
    with pytest.raises(KeyboardInterrupt):
        recsys.compress(run, data, tmp_path / "small", experts=2)
    assert not list(tmp_path.iterdir())
