import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import recsys
from recsys import DataError
from recsys import Dataset
from recsys import RunError
from recsys import Schema
from recsys.cli import run as cli

pytestmark = pytest.mark.once("torch")


@pytest.mark.slow
def test_run_is_evaluated_as_it_was_in_training(run: Path, data: Path) -> None:
    written = json.loads((run / "metrics.json").read_text())
    for split in ("validation", "test"):
        metrics = recsys.evaluate(run, data, split)
        assert _flat(metrics) == pytest.approx(_flat(written[split]))


@pytest.mark.slow
def test_other_data_are_refused(
    run: Path, tiny: Dataset, tmp_path: Path
) -> None:
    schema = Schema(
        "other", {"user": "id", "film": "id", "age": "id"}, tiny.schema.tasks
    )
    splits = {name: frame.assign(age=1) for name, frame in tiny.splits.items()}
    Dataset(schema, splits).write(tmp_path / "other")
    with pytest.raises(DataError, match=r"'age' of type number.*Received: id"):
        recsys.evaluate(run, tmp_path / "other")


@pytest.mark.slow
def test_unknown_split(run: Path, data: Path) -> None:
    with pytest.raises(DataError, match="'weekend'"):
        recsys.evaluate(run, data, "weekend")


def test_folder_without_a_run(tmp_path: Path, data: Path) -> None:
    with pytest.raises(RunError, match=r"without config\.json"):
        recsys.evaluate(tmp_path, data)


@pytest.mark.slow
def test_cuts_are_evaluated_as_if_they_were_all(
    run: Path, tiny: Dataset, tmp_path: Path
) -> None:
    """Numbers at their quartiles, ids one by one, the unknown ones apart."""
    test = tiny.splits["test"].reset_index(drop=True)
    test.loc[:4, "user"] = 99
    folder = tmp_path / "data"
    Dataset(tiny.schema, {**tiny.splits, "test": test}).write(folder)
    by_user = recsys.evaluate(run, folder, by="user")["by"]["user"]
    assert list(by_user)[-2:] == ["4 others", "unknown"]
    counts = [cut["rows"] for cut in by_user.values()]
    assert sum(counts) == len(test)
    assert counts[:8] == sorted(counts[:8], reverse=True)
    alone = {**tiny.splits, "test": test[:5]}
    Dataset(tiny.schema, alone).write(tmp_path / "alone")
    expected = _flat(recsys.evaluate(run, tmp_path / "alone"))
    cold = _flat(by_user["unknown"])
    of_all = ("balance", "routing", "dead_experts")  # No cut has these.
    cold |= {
        name: expected[name]
        for name in expected
        if any(part in name for part in of_all)
    }
    assert expected == pytest.approx(cold, nan_ok=True)
    by_age = recsys.evaluate(run, folder, by="age")["by"]["age"]
    assert [cut["rows"] for cut in by_age.values()] == [9, 9, 8, 9, 5]
    assert list(by_age)[-1] == "missing"


@pytest.mark.slow
def test_intervals_are_told_of_all_rows_and_of_each_cut(
    run: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "metrics.json"
    arguments = ["evaluate", "--run", str(run), "--data", str(data)]
    arguments += ["--intervals", "20", "--by", "user", "--out", str(out)]
    assert cli(arguments) == 0
    metrics = json.loads(out.read_text())
    watch = metrics["tasks"]["watch"]
    low, high = watch["auc_interval"]
    assert low < watch["auc"] < high
    shown = f"{watch['auc']:.4f} [{low:.4f}, {high:.4f}]"
    assert shown in capsys.readouterr().out
    for cut in metrics["by"]["user"].values():
        assert "auc_interval" in cut["tasks"]["watch"]
    again = recsys.evaluate(run, data, intervals=20)["tasks"]["watch"]
    assert again["auc_interval"] == [low, high]


@pytest.mark.slow
def test_intervals_take_at_least_one_draw(run: Path, data: Path) -> None:
    with pytest.raises(ValueError, match="`intervals` must be at least 1"):
        recsys.evaluate(run, data, intervals=0)


@pytest.mark.slow
def test_no_cut_by_what_is_no_feature(run: Path, data: Path) -> None:
    with pytest.raises(DataError, match=r"'uzer' \(did you mean 'user'\?\)"):
        recsys.evaluate(run, data, by="uzer")


def _flat(metrics: dict[str, Any]) -> dict[str, float]:
    return pd.json_normalize(metrics).iloc[0].to_dict()
