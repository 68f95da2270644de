"""Metrics that are added as CONTRIBUTING.md says, and nothing else."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.commands.metrics_table import print_metrics
from recsys.data import Dataset
from recsys.data import Schema
from recsys.files.json_files import read_json
from recsys.measuring.curves import read_history
from recsys.metrics import IN_GROUPS
from recsys.metrics import RETRIEVAL_METRICS
from recsys.metrics import TASK_METRICS
from recsys.metrics import Metric
from recsys.metrics import PositionGains
from recsys.metrics import hit_rate

pytestmark = pytest.mark.once("torch")

RECIPE = Path(__file__).parents[3] / "CONTRIBUTING.md"
FIELDS = {
    "gate": "top-k",
    "num_experts": 2,
    "k": 1,
    "embedding_dim": 2,
    "expert_units": [2],
    "head_units": [2],
    "epochs": 2,
    "metrics_k": 3,
    "retrieval": True,
    "select": "watch_my_metric",
}


def precision(k: int) -> PositionGains:
    """The share of the first k that are right answers."""
    return PositionGains(np.full(k, 1 / k), np.ones_like)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe's metric, one within groups and one of the retrieval."""
    _, _, recipe = RECIPE.read_text().partition("## How to add a metric")
    file, line = re.findall(r"   ```python\n(.*?)   ```", recipe, re.DOTALL)[:2]
    module: dict[str, Any] = {"Metric": Metric}
    exec(re.sub("^   ", "", file, flags=re.MULTILINE), module)
    mine = eval(line.strip(), module)
    group = Metric("first_hit", hit_rate, "First hit", at_k=True)
    for of, metric in (("binary", mine), (IN_GROUPS, group)):
        monkeypatch.setitem(TASK_METRICS, of, [*TASK_METRICS[of], metric])
    monkeypatch.setitem(RETRIEVAL_METRICS, "precision", precision)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users and items with ids as texts, and above 2^53."""
    schema = Schema(
        "grouped",
        {"user": "id", "item": "id"},
        {"watch": "binary", "stars": "regression"},
        group="user",
    )
    rng = np.random.default_rng(0)

    def rows(count: int) -> pd.DataFrame:
        user, item = rng.integers(0, 6, (2, count))
        return pd.DataFrame(
            {
                "user": [f"u{number}" for number in user],
                "item": item + 2**53 + 1,
                "watch": ((user + item) % 2).astype(float),
                "stars": 1.0 + item,
            }
        )

    sizes = {"train": 80, "validation": 30, "test": 30}
    folder = tmp_path_factory.mktemp("data") / "grouped"
    Dataset(schema, {name: rows(size) for name, size in sizes.items()}).write(
        folder
    )
    return folder


@pytest.mark.slow
def test_they_are_wherever_metrics_are(
    grouped: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "run"
    metrics = recsys.train(
        {"data": str(grouped), "out": str(folder), "task_weights": {}, **FIELDS}
    )
    in_progress = capsys.readouterr().out
    assert re.search(r"^Epoch 1/2 .*  val_watch_my_metric ", in_progress, re.M)
    assert read_json(folder / "metrics.json") == metrics
    mine, group = "my_metric", "first_hit@3"
    assert metrics["selected"]["by"] == f"val_watch_{mine}"
    for split in ("validation", "test"):
        watch = metrics[split]["tasks"]["watch"]
        # The constant is the share of ones of the training split.
        assert abs(watch["constant"][mine]) < 0.2
        assert watch[group] == watch["hit_rate@3"]
        of_items = metrics[split]["retrieval"]
        assert of_items["precision@3"] == pytest.approx(
            of_items["recall@3"] / 3
        )
        assert 0 < of_items["popular"]["user_precision@3"] <= 1
        assert mine not in metrics[split]["tasks"]["stars"]
    history = read_history(folder / "history.csv")
    logged = {f"val_watch_{mine}", f"val_watch_{group}"}
    assert {*logged, "val_retrieval_user_precision@3"} <= {*history}
    print_metrics({"test": metrics["test"]})
    shown = capsys.readouterr().out
    for title in ("My metric", "First hit@3", "user_precision@3"):
        assert title in shown
    found = recsys.evaluate(folder, grouped, intervals=5)["tasks"]["watch"]
    for name in (mine, group):
        low, high = found[f"{name}_interval"]
        assert low <= high


@pytest.mark.slow
def test_a_comparison_has_what_is_compared(
    grouped: Path, tmp_path: Path
) -> None:
    from recsys.reporting.comparison_table import comparison_table
    from recsys.reporting.planned_run import PlannedRun

    fields = {"data": str(grouped), "out": str(tmp_path / "run"), **FIELDS}
    recsys.train(fields)
    result = PlannedRun.of("", "tiny", fields).result()
    assert result is not None
    names = {"watch my_metric", "retrieval precision@3"}
    assert names <= result.keys()
    assert "watch first_hit@3" not in result
    header, *_ = comparison_table(pd.DataFrame([result])).splitlines()
    assert names <= {cell.strip() for cell in header.split("|")}
