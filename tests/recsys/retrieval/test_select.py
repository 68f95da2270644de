"""The epoch that is kept, chosen by what the towers find."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import recsys
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import load
from recsys.measuring.measure_retrieval import measure_retrieval
from recsys.models.build import build_model
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run
from recsys.training.callbacks.retrieval_index import update_index
from recsys.training.callbacks.retrieval_validation import RetrievalValidation
from recsys.training.callbacks.retrieval_validation import check_counting_rows
from recsys.training.resolve_config import resolve_config
from tests.recsys.api.histories import read_history
from tests.recsys.api.interruptions import interrupt_at
from tests.recsys.retrieval.id_kinds import of_texts

Fields = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.once("torch")


def built(fields: Fields, films: Dataset) -> tuple[TwoTower, ResolvedConfig]:
    given = TrainConfig(**fields(Path("out"), retrieval_exclude_seen=True))
    config = resolve_config(given, films.schema)
    ranker = build_model(config, films)
    assert isinstance(ranker, TwoTower)
    update_index(ranker)
    return ranker, config


@pytest.mark.parametrize("excluded", [True, False])
def test_logs_are_what_is_measured_in_the_end(
    excluded: bool, fields: Fields, films: Dataset
) -> None:
    ranker, config = built(fields, films)
    config = dataclasses.replace(config, retrieval_exclude_seen=excluded)
    logs: dict[str, Any] = {}
    RetrievalValidation(ranker, films, config).on_epoch_end(0, logs)
    measured = measure_retrieval(ranker, films, "validation", config)
    expected = measured["retrieval"]
    names = ("ndcg@5", "recall@5", "user_ndcg@5", "user_recall@5")
    assert logs == {f"val_retrieval_{n}": expected[n] for n in names}
    # Of another order than with the items that users have seen, or without.
    config = dataclasses.replace(config, retrieval_exclude_seen=not excluded)
    others = measure_retrieval(ranker, films, "validation", config)
    assert others["retrieval"]["ndcg@5"] != expected["ndcg@5"]


def test_of_a_large_split_the_same_rows_in_each_epoch(
    fields: Fields, films: Dataset
) -> None:
    ranker, config = built(fields, films)
    callback = RetrievalValidation(ranker, films, config, most_rows=40)
    first: dict[str, Any] = {}
    callback.on_epoch_end(0, first)
    again: dict[str, Any] = {}
    callback.on_epoch_end(1, again)
    expected = measure_retrieval(
        ranker, films, "validation", config, most_rows=40
    )
    assert first == again
    assert first["val_retrieval_ndcg@5"] == expected["retrieval"]["ndcg@5"]
    assert 0 < expected["retrieval"]["rows"] < 40


def test_each_epoch_is_measured_with_the_vectors_of_then(
    fields: Fields, films: Dataset
) -> None:
    ranker, config = built(fields, films)
    callback = RetrievalValidation(ranker, films, config)
    logs: dict[str, Any] = {}
    callback.on_epoch_end(0, logs)
    ranker.retrieval.update_index(0 * ranker.retrieval.vectors)
    constant: dict[str, Any] = {}
    callback.on_epoch_end(1, constant)
    assert constant != logs


@pytest.mark.parametrize("most_rows", [1, 40, 1000])
def test_a_streamed_split_has_the_same_rows(
    most_rows: int, fields: Fields, films: Dataset, films_folder: Path
) -> None:
    ranker, config = built(fields, films)
    streamed = load(str(films_folder), streaming=True)
    some, others = (
        measure_retrieval(
            ranker, data, "validation", config, most_rows=most_rows
        )["retrieval"]
        for data in (films, streamed)
    )
    assert some["rows"] == others["rows"]
    for part in ("popular", "diversity"):
        assert some.pop(part) == pytest.approx(others.pop(part))
    assert some == pytest.approx(others)


def test_no_row_to_choose_by(fields: Fields, films: Dataset) -> None:
    ranker, _ = built(fields, films)
    rows = films.split("validation").assign(watch=0.0)
    none = dataclasses.replace(
        films, splits=films.splits | {"validation": rows}
    )
    message = "validation split: expected rows that count for retrieval, to "
    with pytest.raises(DataError, match=message) as caught:
        check_counting_rows(ranker, none, "watch")
    assert str(caught.value).endswith("none, with retrieval_label='watch'")


@pytest.mark.slow
@of_texts
def test_the_best_epoch_of_the_towers_is_kept(
    fields: Fields, tmp_path: Path
) -> None:
    metrics = recsys.train(fields(tmp_path / "run", epochs=5))
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    assert metrics == json.loads((tmp_path / "run/metrics.json").read_text())
    best = history["val_retrieval_ndcg@5"].argmax()
    value = history["val_retrieval_ndcg@5"][best]
    assert metrics["selected"] == {
        "by": "val_retrieval_ndcg@5",
        "epoch": best + 1,
        "value": value,
    }
    measured = metrics["validation"]["retrieval"]["ndcg@5"]
    assert measured == pytest.approx(value, rel=1e-5)
    # Not the epoch that the tasks would have kept.
    assert history["val_loss"].argmin() != best


@pytest.mark.slow
@of_texts
def test_it_is_resumed_with_what_was_the_best(
    fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"epochs": 4, "patience": 2, "learning_rate": 0.05}
    whole = recsys.train(fields(tmp_path / "whole", **changes))
    parts = fields(tmp_path / "parts", **changes)
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=2, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(parts)
    resumed = recsys.train(parts, resume=True)
    pd.testing.assert_frame_equal(
        read_history(Run(tmp_path / "parts")),
        read_history(Run(tmp_path / "whole")),
    )
    assert resumed["selected"] == whole["selected"]
    assert (
        resumed["validation"]["retrieval"] == whole["validation"]["retrieval"]
    )


@pytest.mark.slow
@of_texts
def test_a_metric_of_a_task(fields: Fields, tmp_path: Path) -> None:
    metrics = recsys.train(fields(tmp_path, select="watch_auc", epochs=3))
    history = pd.read_csv(tmp_path / "history.csv")["val_watch_auc"]
    assert metrics["selected"]["epoch"] == history.argmax() + 1
    measured = metrics["validation"]["tasks"]["watch"]["auc"]
    assert measured == pytest.approx(history.max(), rel=1e-5)


def test_an_unknown_metric_is_refused_before_training(
    fields: Fields, tmp_path: Path
) -> None:
    received = re.escape("Received: select='click_auc'")
    with pytest.raises(ValueError, match=f"`select` must be .*{received}$"):
        recsys.train(fields(tmp_path / "run", select="click_auc"))
    assert not (tmp_path / "run" / "config.json").exists()
