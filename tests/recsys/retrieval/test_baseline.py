import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.baselines import BASELINES
from recsys.baselines import RETRIEVAL
from recsys.baselines.ease import Ease
from recsys.cli import run as command
from recsys.data import Dataset
from recsys.errors import FileError
from recsys.errors import RunError
from tests.recsys.retrieval.id_kinds import IdKinds

pytestmark = pytest.mark.once("torch")


def options(model: str) -> dict[str, float]:
    return {
        name: min(option.first, 4) if option.is_integer else option.first
        for name, option in BASELINES[model].options.items()
    }


def fitted(data: Path, out: Path, model: str, **changes: Any) -> dict[str, Any]:
    fields = {"options": options(model), "metrics_k": 5} | changes
    return recsys.baseline({"data": data, "out": out, "model": model} | fields)


@pytest.mark.slow
@pytest.mark.parametrize("model", BASELINES)
def test_evaluate_says_what_fitting_said(
    model: str, films_folder: Path, tmp_path: Path
) -> None:
    metrics = fitted(films_folder, tmp_path / "run", model)
    written = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert written == metrics
    test = metrics["test"]
    assert set(test["tasks"]) == {"watch", "rating"}
    assert ("retrieval" in test) == (model in RETRIEVAL)
    for split in ("validation", "test"):
        again = recsys.evaluate(tmp_path / "run", films_folder, split)
        assert again == metrics[split]
    if model in RETRIEVAL:
        # A third of the films is a user's own.
        found, popular = test["retrieval"], test["retrieval"]["popular"]
        better = found["user_ndcg@5"] > popular["user_ndcg@5"]
        assert better == (model != "popular")
        assert test["tasks"]["watch"]["auc"] == 0.5
    else:
        constant = test["tasks"]["rating"]["constant"]
        assert test["tasks"]["rating"]["mse"] < constant["mse"]


def test_recommend(
    films_folder: Path, films: Dataset, ids: IdKinds, tmp_path: Path
) -> None:
    fitted(films_folder, tmp_path / "run", "ease")
    user = ids.user(4)
    train = films.split("train")
    own = train[(train["user"] == user) & (train["watch"] == 1)]["item"]
    found = recsys.recommend(tmp_path / "run", user, top=6)
    assert [*found] == ["item", "title", "score"]
    assert len(set(found["item"]) & set(ids.items(range(1, 30, 3)))) == 6
    unseen = recsys.recommend(
        tmp_path / "run", str(user), top=30, exclude_seen=True
    )
    assert not set(unseen["item"]) & set(own)
    assert len(unseen) == 30 - own.nunique()
    nobody = recsys.recommend(tmp_path / "run", ids.user(99), top=30)
    watched = train[train["watch"] == 1]["item"].value_counts()
    assert nobody["score"].tolist()[: len(watched)] == watched.tolist()
    with pytest.raises(
        ValueError, match=r"`score`, `features` and `rerank`.*'watch'"
    ):
        recsys.recommend(tmp_path / "run", user, score="watch")


def test_what_is_chosen_is_the_best_on_validation(
    films_folder: Path, tmp_path: Path
) -> None:
    metrics = fitted(films_folder, tmp_path / "run", "ease", options={})
    trials = pd.read_csv(tmp_path / "run" / "trials.csv")
    assert tuple(trials["lambda"]) == Ease.options["lambda"].grid
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    best = trials["lambda"][trials["validation"].argmax()]
    assert config["options"] == {"lambda": best}
    score = metrics["validation"]["retrieval"]["user_ndcg@5"]
    assert trials["validation"].max() == pytest.approx(score)


def test_refit_knows_the_validation_split(
    films_folder: Path, films: Dataset, tmp_path: Path
) -> None:
    once = fitted(films_folder, tmp_path / "a", "popular")
    again = fitted(films_folder, tmp_path / "b", "popular", refit=True)
    assert once["validation"] == again["validation"]
    parts = [films.split(name) for name in ("train", "validation")]
    both = pd.concat(parts)["item"].nunique()
    assert again["test"]["retrieval"]["items"] == both == 31
    assert once["test"]["retrieval"]["items"] == 30


def test_the_command(
    films_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(films_folder), "--out", str(tmp_path / "run")]
    words += ["--model", "item-knn", "--option", "neighbours=7"]
    assert command(["baseline", *words]) == 0
    printed = capsys.readouterr().out
    assert "Fitting item-knn: 12 users, 30 items, up to" in printed
    assert "Retrieval, test: recall@10" in printed
    assert "  popular: recall@10" in printed
    assert command(["baseline", *words]) == 1
    assert "which is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("first", ["i", str(2**53 + 1)])
def test_a_target_that_was_had_before_may_be_a_miss(
    tmp_path: Path, first: str
) -> None:
    """One of two users has the first item again in the test."""
    lines = ["u1 {0} 2 4 {0}", "u2 {0} 2 3 4"]
    text = "\n".join(lines).format(first)
    (tmp_path / "log.txt").write_text(text)
    data = tmp_path / "data"
    recsys.prepare("sequences", tmp_path, data, file="log.txt")
    for flags, recall in (([], 1.0), (["--exclude-seen-targets"], 0.5)):
        run = tmp_path / f"run{recall}"
        words = ["--data", str(data), "--out", str(run), "--model", "popular"]
        words += ["--refit", "--metrics-k", "4", *flags]
        assert command(["baseline", *words]) == 0
        for name in ("recall@4", "user_recall@4"):
            found = recsys.evaluate(run, data)["retrieval"]
            assert found[name] == found["popular"][name] == recall
        # Item 4 is not in the training split, and item 3 neither.
        metrics = json.loads((run / "metrics.json").read_text())
        assert metrics["validation"]["retrieval"]["recall@4"] == 0.0


def test_seen_targets_are_excluded_with_all_that_is_seen(
    tmp_path: Path,
) -> None:
    message = (
        r"`exclude_seen` must be True with exclude_seen_targets. "
        r"Received: exclude_seen=False"
    )
    with pytest.raises(ValueError, match=message):
        fitted(
            tmp_path,
            tmp_path / "run",
            "popular",
            exclude_seen=False,
            exclude_seen_targets=True,
        )


def test_memory_and_items_are_looked_at_before(
    films_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "recsys.api.baseline.free_memory"
    monkeypatch.setattr(place, lambda: 12 * 30**2 - 1)
    with pytest.raises(ValueError, match=r"of free memory.*'ease'.* 30 "):
        fitted(films_folder, tmp_path / "run", "ease")
    monkeypatch.undo()
    monkeypatch.setattr(Ease, "most_items", 29)
    with pytest.raises(ValueError, match=r"at most 29 items.*for 30 items"):
        fitted(films_folder, tmp_path / "run", "ease")
    assert not list((tmp_path / "run").glob("*"))


def test_what_is_refused(films_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`model` must be one of.*'eas'"):
        recsys.baseline({"data": films_folder, "out": "x", "model": "eas"})
    with pytest.raises(ValueError, match=r"`task_weights.*at least 0"):
        fitted(films_folder, tmp_path, "bias", task_weights={"watch": -1.0})
    with pytest.raises(ValueError, match=r"`task_weights` must be for the"):
        fitted(films_folder, tmp_path, "bias", task_weights={"click": 1.0})
    with pytest.raises(ValueError, match=r"'watch'\] or 'all'.*'rating'"):
        fitted(films_folder, tmp_path, "popular", retrieval_label="rating")
    fitted(films_folder, tmp_path / "bias", "bias")
    with pytest.raises(RunError, match=r"a run with retrieval.*'bias'"):
        recsys.recommend(tmp_path / "bias", "1")
    with pytest.raises(ValueError, match=r"`by` must be left out.*by='age'"):
        recsys.evaluate(tmp_path / "bias", films_folder, by="age")


def test_a_broken_run(films_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fitted(films_folder, run, "popular")
    np.save(run / "fitted" / "model_counts.npy", np.zeros(3))
    with pytest.raises(FileError, match=r"model_counts\.npy.*\(30\).*\(3,\)"):
        recsys.evaluate(run, films_folder)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"metrics_k": 0}))
    with pytest.raises(FileError, match=r"config\.json.*at least 1.*=0"):
        recsys.evaluate(run, films_folder)


def test_a_report_lists_baselines(films_folder: Path, tmp_path: Path) -> None:
    for model in ("ease", "bias", "biased-mf"):
        fitted(films_folder, tmp_path / "runs" / model, model)
    titles = recsys.report([tmp_path / "runs"], tmp_path / "report")
    assert titles == ["Baselines"]
    text = (tmp_path / "report" / "report.md").read_text()
    metrics = json.loads((tmp_path / "runs/ease/metrics.json").read_text())
    score = metrics["test"]["retrieval"]["user_ndcg@5"]
    (line,) = (row for row in text.splitlines() if row.startswith("| ease"))
    assert f"{score:.4f}" in line
    assert "lambda 250" in line
    assert "left out" in line
    options = "lambda-user 10, lambda-item 10"
    assert f"| bias | {options} |" in text
    assert f"| biased-mf | lambda 14, {options}, factors 4 |" in text
