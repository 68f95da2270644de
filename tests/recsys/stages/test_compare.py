import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import recsys
from recsys import Comparison
from recsys import RunError
from recsys import TrainConfig
from recsys.stages.comparison_table import comparison_table
from recsys.training.training_processes import TrainingProcesses

Settings = Callable[..., dict[str, Any]]

MODELS = {"Top-k": {"gate": "top-k"}, "Top-k+": {"gate": "top-k+"}}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_has_means_standard_errors_and_the_one_sided_test() -> None:
    rng = np.random.default_rng(0)
    losses = {"b": rng.normal(0.40, 0.01, 8), "b+": rng.normal(0.39, 0.02, 6)}
    results = pd.concat(
        pd.DataFrame({"setting": "", "model": model, "loss": values})
        for model, values in losses.items()
    )
    lines = comparison_table(results, {"b+": "b"}).splitlines()
    assert cells(lines[0]) == ["model", "seeds", "loss", "p"]
    for line, (model, values) in zip(lines[2:], losses.items(), strict=True):
        error = values.std(ddof=1) / len(values) ** 0.5
        mean = f"{100 * values.mean():.2f} ± {100 * error:.2f}"
        assert cells(line)[:3] == [model, str(len(values)), mean]
    # Welch's test, by hand.
    low, high = losses["b+"], losses["b"]
    parts = [v.var(ddof=1) / len(v) for v in (low, high)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 5 + parts[1] ** 2 / 7)
    p = student.cdf((low.mean() - high.mean()) / sum(parts) ** 0.5, freedom)
    assert cells(lines[2])[3] == ""
    assert float(cells(lines[3])[3]) == pytest.approx(p, rel=0.05)


def test_table_has_a_part_for_each_setting() -> None:
    results = pd.DataFrame(
        {"setting": ["first", "second"], "model": "a", "loss": [0.1, 0.2]}
    )
    first, second = comparison_table(results).split("\n\n### ")
    assert first.startswith("### first")
    assert second.startswith("second")
    assert "| a | 1 | 20.00 |" in second


def test_runs_are_all_combinations() -> None:
    comparison = Comparison(
        MODELS,
        base={"data": "synthetic", "k": 3},
        settings={"a": {"epochs": 1}, "b": {"epochs": 2, "k": 1}},
        seeds=[4, 5],
    )
    runs = comparison.runs(Path("out"), data="elsewhere")
    assert len({run.config.out for run in runs}) == 2 * 2 * 2
    (run,) = [r for r in runs if r.config.out == "out/b/Top-k+/seed-5"]
    assert (run.config.seed, run.config.epochs, run.config.k) == (5, 2, 1)
    assert (run.config.gate, run.config.data) == ("top-k+", "elsewhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"models": {}}, "`models` of a comparison must not be empty"),
        ({"models": MODELS, "seeds": []}, "`seeds` of a comparison"),
        ({"models": MODELS, "against": {"Top-k+": "x"}}, "Received: 'x'"),
        ({"models": MODELS, "seed": 1}, "the fields of a comparison must be"),
        ({}, "the fields of a comparison must be"),
    ],
)
def test_wrong_files(
    content: dict[str, Any], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        Comparison.read(file)


@pytest.mark.slow
def test_trains_what_is_missing_and_writes_the_table(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = settings(tmp_path, epochs=1)
    comparison = Comparison(MODELS, base, against={"Top-k+": "Top-k"})
    results = recsys.compare(comparison, tmp_path / "out", jobs=2)
    assert sorted(results["model"]) == list(MODELS)
    metrics = tmp_path / "out" / "Top-k" / "seed-0" / "metrics.json"
    loss = json.loads(metrics.read_text())["test"]["loss"]
    assert f"{100 * loss:.2f}" in (tmp_path / "out" / "table.md").read_text()
    written = pd.read_csv(tmp_path / "out" / "results.csv")
    assert written["loss"].tolist() == results["loss"].tolist()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished run is trained again")

    monkeypatch.setattr("subprocess.Popen", refuse)
    again = recsys.compare(comparison, tmp_path / "out")
    pd.testing.assert_frame_equal(again, results)
    other = Comparison(MODELS, {**base, "k": 1})
    with pytest.raises(RunError, match="another configuration"):
        recsys.compare(other, tmp_path / "out")


def test_a_failure_does_not_keep_the_others_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train(self: TrainingProcesses, config: TrainConfig) -> None:
        trained.append(config.gate)
        if config.gate == "top-k":
            raise RunError("Top-k does not work")

    monkeypatch.setattr(TrainingProcesses, "train", train)
    comparison = Comparison(MODELS, {"data": "synthetic"})
    with pytest.raises(RunError, match="Top-k does not work"):
        recsys.compare(comparison, tmp_path)
    assert trained == ["top-k", "top-k+"]


def test_jobs_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`jobs` must be at least 1"):
        recsys.compare(Comparison(MODELS), tmp_path, jobs=0)
