import re
from itertools import chain
from typing import Any

import pytest

from recsys.commands.metrics_table import print_metrics


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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
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


@pytest.mark.parametrize("columns", [45, 80, 90])
def test_a_wide_table_is_turned_and_fits(
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    split = metrics(1.5, "rating")
    split["tasks"]["watch"] |= {
        "pr_auc": 0.375,
        "ece": 0.0625,
        "constant": {"loss": 0.625, "auc": 0.5},
    }
    split["constant"] = {"loss": 0.875}
    print_metrics({"validation": split, "test": split})
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    for shown in ("0.3750", "0.0625", "0.6250", "0.8750", "1.2247", "2.00"):
        assert text.count(shown) >= 2  # Once for each split.
    lines = [line.split() for line in text.splitlines()]
    at = lines.index(next(line for line in lines if line[:1] == ["PR-AUC"]))
    assert lines[at] == ["PR-AUC", "0.3750"]
    # The constant's stands beside what it is compared with.
    loss = next(line for line in lines if line[:1] == ["Loss"])
    assert loss[1:3] == ["0.5000", "0.6250"]


@pytest.mark.parametrize("num_tasks", [1, 2, 3, 5])
@pytest.mark.parametrize("columns", [60, 80])
def test_a_constant_stands_beside_what_it_is_compared_with(
    columns: int,
    num_tasks: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ["click", "watch", "purchase_in_a_day", "a", "b"][:num_tasks]
    task = {"loss": 0.5, "pr_auc": 0.375, "ece": 0.0625, "gauc": 0.5}
    task |= {"auc": 0.5, "accuracy": 0.75, "constant": {"loss": 0.625}}
    split = metrics(1.5, "rating")
    split |= {"tasks": dict.fromkeys(names, task), "constant": {"loss": 0.875}}
    print_metrics({"test": split})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    titles = [
        re.split("  +", line.strip())[1:]
        for line in lines
        if line.split()[:1] == ["Task"]
    ]
    assert [*chain(*titles)] == [
        *chain(*([name, "constant"] for name in [*names, "weighted total"]))
    ]
    assert all(line[-1] == "constant" for line in titles)


def test_a_narrow_table_has_a_line_for_each_task(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    print_metrics({"test": metrics(1.5, "rating")})
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line.split() for line in lines if "rating" in line)
    assert line[:3] == ["test", "rating", "1.5000"]
    assert line[-1] == "2.00"


def test_popular_stands_below_the_retrieval(
    capsys: pytest.CaptureFixture[str],
) -> None:
    popular = {"recall@10": 0.125, "user_ndcg@10": None}
    retrieval = {
        "recall@10": 0.25,
        "user_ndcg@10": 0.5,
        "rows": 1234,
        "items": 30,
        "users": 20,
        "popular": popular,
    }
    print_metrics({"test": metrics(1.0, "rating") | {"retrieval": retrieval}})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == (
        "Retrieval, test: recall@10 0.2500, user_ndcg@10 0.5000 "
        "(1,234 rows, 20 users, 30 items)"
    )
    assert lines[-1] == "  popular: recall@10 0.1250, user_ndcg@10 "


@pytest.mark.parametrize("trained", [False, True])
def test_tasks_that_say_their_constants_are_left_out(
    trained: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Beside a retrieval, as those of a baseline or without a ranker."""
    split = metrics(0.5, "rating")
    for scores in split["tasks"].values():
        scores["constant"] = dict(scores)
    if trained:
        split["tasks"]["rating"]["constant"]["loss"] = 0.7
    print_metrics({"test": split | {"retrieval": {"ndcg@10": 0.25}}})
    shown = capfd.readouterr().out
    assert "ndcg@10 0.2500" in shown
    assert ("rating" in shown) == trained
