from typing import Any

import pytest

from recsys.metrics_table import print_metrics


def metrics(mse: float, task: str) -> dict[str, Any]:
    scores = {"loss": mse, "mse": mse, "rmse": mse**0.5, "mae": 1.0}
    watch = {"loss": 0.5, "auc": 0.75}
    return {
        "loss": mse,
        "rows": 1_234_567,
        "tasks": {"watch": watch, task: scores},
        "experts_per_example": 2.0,
        "experts_per_example_by_task": {"watch": 2.0, task: 2.0},
    }


@pytest.mark.parametrize("columns", ["20", "80", "200"])
@pytest.mark.parametrize("mse", [123_456_789.25, 3e30])
def test_no_number_is_cut(
    mse: float,
    columns: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    task = "seconds_until_the_next_visit"
    print_metrics({"validation": metrics(mse, task)})
    text = capsys.readouterr().out
    assert "…" not in text
    for shown in (task, f"{mse:.6g}", "0.5000", "0.7500", "1,234,567 rows"):
        assert shown in text
    if mse > 1e20:
        assert f"{mse**0.5:.6g}" in text
    else:
        assert "11111.1111" in text


def test_accuracies_of_the_tasks_and_their_mean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_task = {
        task: {
            "loss": 0.5,
            "auc": 0.75,
            "accuracy": accuracy,
            "constant": {"loss": 0.6, "accuracy": accuracy - 0.25},
        }
        for task, accuracy in (("smiling", 0.875), ("young", 0.625))
    }
    split = metrics(1.0, "young") | {
        "tasks": by_task,
        "accuracy": 0.8125,
        "constant": {"loss": 0.6, "accuracy": 0.5625},
    }
    print_metrics({"validation": split})
    lines = capsys.readouterr().out.splitlines()
    shown = ["0.8750", "0.6250", "0.6250", "0.3750", "0.8125", "0.5625"]
    rows = [
        line.split()
        for line in lines
        if "0.5000" in line or "0.6000" in line or "total" in line
    ]
    assert [next(x for x in row if x in shown) for row in rows] == shown


def test_ranking_and_calibration_of_a_binary_task_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    split = metrics(1.0, "rating")
    split["tasks"]["watch"] |= {"pr_auc": 0.375, "ece": 0.0625}
    print_metrics({"test": split})
    lines = capsys.readouterr().out.splitlines()
    (header,) = (line for line in lines if "Split" in line)
    (watch,) = (line.split() for line in lines if "watch" in line)
    titles = header.split()[2:]
    shown = dict(zip(titles, watch[2:], strict=False))
    assert shown["PR-AUC"] == "0.3750"
    assert shown["ECE"] == "0.0625"


def test_an_interval_stands_behind_what_it_is_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    split = metrics(1.0, "rating")
    split["tasks"]["watch"] |= {
        "auc_interval": [0.71234, 0.79],
        "loss_interval": None,
    }
    print_metrics({"test": split})
    lines = capsys.readouterr().out.splitlines()
    (watch,) = (line for line in lines if "watch" in line)
    assert " 0.7500 [0.7123, 0.7900] " in watch
    assert " 0.5000 " in watch
