import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import Dataset
from recsys import Schema
from recsys.api.fit_baselines import best_simple_models
from recsys.baselines import RANKING
from recsys.cli import run as run_cli
from recsys.reporting.baselines import baseline_runs
from recsys.reporting.results import results
from recsys.reporting.trained import read_trained
from tests.recsys.baselines.cases import ids

# What a simple model predicts is the same on every backend.
pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]

FIELDS: dict[str, Any] = {
    "epochs": 1,
    "num_experts": 4,
    "task_weights": {"like": 0.7, "stars": 0.3},
}


@pytest.fixture(params=[False, True], ids=["large ids", "text ids"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data folder of users who like every third item."""
    rng = np.random.default_rng(0)

    def frame(rows: int) -> pd.DataFrame:
        users, items = rng.integers(0, 20, rows), rng.integers(0, 15, rows)
        return pd.DataFrame(
            {
                "user": ids(users, request.param),
                "item": ids(items, request.param),
                "like": (items % 3 == users % 3).astype(float),
                "stars": users % 5 + rng.normal(size=rows),
            }
        )

    schema = Schema(
        "log",
        {"user": "id", "item": "id"},
        {"like": "binary", "stars": "regression"},
    )
    splits = {"train": frame(300), "validation": frame(80), "test": frame(80)}
    Dataset(schema, splits).write(tmp_path / "data")
    return tmp_path / "data"


def test_simple_models_stand_beside_the_run(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    metrics = recsys.train({"data": folder, "out": out, **FIELDS})
    table = recsys.fit_baselines(out)
    assert table["model"].tolist() == ["this run", *RANKING]
    losses = table.set_index("model")["test loss"]
    assert losses["this run"] == metrics["test"]["loss"]
    # Weights and scales are the run's: the constants are worth the same.
    for name in RANKING:
        found = recsys.evaluate(out / "baselines" / name, folder)
        assert found["loss"] == pytest.approx(losses[name])
        constant = metrics["test"]["constant"]["loss"]
        assert found["constant"]["loss"] == pytest.approx(constant)
    validation = table.set_index("model")["validation loss"]
    (line,) = best_simple_models(table)
    best = validation.drop("this run").idxmin()
    assert f": {best}, test loss {losses[best]:.4f} (run " in line
    # A report has them below the run.
    section = results(read_trained([out]), simple=baseline_runs(out))
    assert section is not None
    rows = {row[0]: row[2] for row in section.tables[0].rows}
    assert list(rows) == ["comet", *sorted(RANKING)]
    assert rows["bias"] == f"{100 * losses['bias']:.2f}"


def test_the_command_names_the_best(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ModuleNotFoundError("no lightgbm")

    monkeypatch.setattr(RANKING["gbdt"], "fit", missing)
    out = tmp_path / "run"
    words = ["train", "--data", str(folder), "--out", str(out), "--epochs", "1"]
    words += ["--retrieval", "--metrics-k", "5", "--baselines"]
    words += ["--retrieval-exclude-seen-targets"]
    assert run_cli(words) == 0
    printed = capsys.readouterr().out
    assert "gbdt is left out: no lightgbm" in printed
    assert "Best simple model by validation loss: " in printed
    assert "Best simple model by validation ndcg: " in printed
    names = {path.name for path in (out / "baselines").iterdir()}
    assert names == {
        "bias",
        "biased-mf",
        "linear",
        "popular",
        "item-knn",
        "ease",
    }
    table = recsys.fit_baselines(out)  # What is there is not fitted again.
    popular = recsys.evaluate(out / "baselines" / "popular", folder)
    configs = {
        name: json.loads((out / "baselines" / name / "config.json").read_text())
        for name in names
    }
    assert configs["popular"]["exclude_seen_targets"] is True
    # They see as many rows as the towers, or the tasks, which are not refitted.
    refitted = {name for name in names if configs[name]["refit"]}
    assert refitted == {"popular", "item-knn", "ease"}
    ndcg = table.set_index("model")["test ndcg"]
    assert ndcg["popular"] == popular["retrieval"]["user_ndcg@5"]


def test_there_must_be_a_training(tmp_path: Path) -> None:
    with pytest.raises(recsys.RunError):
        recsys.fit_baselines(tmp_path)
