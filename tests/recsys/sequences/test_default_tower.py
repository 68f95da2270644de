"""Which tower a retrieval has that names none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import load
from recsys.runs.run import Run
from recsys.training.resolve_with_data import resolve_with_data
from tests.recsys.sequences.conftest import fields
from tests.recsys.sequences.test_tower_options import with_likes


@pytest.mark.once("torch")
def test_a_log_is_read_in_order_and_its_last_items_too(
    folder: Path, tmp_path: Path
) -> None:
    given = fields(folder, tmp_path / "run", tower=None, refit=None)
    metrics = recsys.train(given)
    run, named = Run(tmp_path / "run"), Run(tmp_path / "named")
    config = run.read_config()
    assert (config.tower, config.ranker) == ("transformer", False)
    assert config.refit
    # What was decided is decided for whoever repeats it.
    assert resolve_with_data(config, load(folder)) == config
    changes = {"tower": "transformer", "refit": True, "out": str(named.folder)}
    assert recsys.train({**given, **changes}) == metrics
    figures = [pd.read_csv(r.tower_history) for r in (run, named)]
    pd.testing.assert_frame_equal(*figures)
    # Without a refit, it has not seen what users did after the training split.
    first = Run(tmp_path / "first")
    alone = recsys.train({**given, "out": str(first.folder), "refit": False})
    assert not first.read_config().refit
    assert alone["validation"] == metrics["validation"]
    assert alone["test"] != metrics["test"]


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "given",
    [
        {"tower": "dense"},
        {"select": "retrieval"},
        {"retrieval_loss": "bpr"},
        {"retrieval_loss_options": {"num_negatives": 3}},
        {"retrieval_dim": 8},
        {"retrieval_correction": "training"},
        {"retrieval_ids": "embeddings"},
        {"retrieval_penalty": 0.1},
        {"retrieval_weight": 0.5},
        {"distribute": "data"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_an_option_of_dense_towers_has_them(
    given: dict[str, Any], data: Path
) -> None:
    config = TrainConfig(
        **fields(data, Path("run"), **{"tower": None, **given})
    )
    resolved = resolve_with_data(config, load(data))
    assert (resolved.tower, resolved.sequence_tower) == ("dense", None)
    assert resolve_with_data(resolved, load(data)) == resolved


@pytest.mark.once("torch")
def test_a_refit_of_the_tower_leaves_the_tasks(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    likes = with_likes(folder, tmp_path / "likes")
    first, run = Run(tmp_path / "first"), Run(tmp_path / "refitted")
    given = {"tower": None, "epochs": 1, "unknown_rate": 0.0}
    before = recsys.train(fields(likes, first.folder, **given))
    given["refit"] = None
    metrics = recsys.train(fields(likes, run.folder, **given))
    assert metrics["validation"] == before["validation"]
    assert metrics["test"]["tasks"] == before["test"]["tasks"]
    assert metrics["test"]["retrieval"] != before["test"]["retrieval"]
    again = recsys.evaluate(run.folder, likes)
    assert again["retrieval"] == metrics["test"]["retrieval"]
    # Without more rows, the second training is the first.
    monkeypatch.setattr(
        Dataset, "with_validation_in_training", lambda dataset: dataset
    )
    out = tmp_path / "same"
    assert recsys.train(fields(likes, out, **given)) == before


@pytest.mark.once("torch")
def test_a_gate_of_the_tower_asks_for_a_transformer(data: Path) -> None:
    given = fields(data, Path("run"), tower=None, tower_gate="top-k")
    drawn = replace(
        load(data),
        splits=dict.fromkeys(load(data).splits, load(data).splits["train"]),
    )
    for dataset in (load(data), drawn):  # The second is in no order.
        resolved = resolve_with_data(TrainConfig(**given), dataset)
        assert (resolved.tower, resolved.tower_gate) == ("transformer", "top-k")
        assert resolve_with_data(resolved, dataset) == resolved


@pytest.mark.once("torch")
def test_labels_that_differ_have_a_ranker_behind_the_tower(data: Path) -> None:
    given = load(data)
    train = given.splits["train"]
    mixed = train.assign(chosen=np.arange(len(train)) % 2)
    labels = replace(given, splits={**given.splits, "train": mixed})
    config = TrainConfig(**fields(data, Path("run"), tower=None))
    resolved = resolve_with_data(config, labels)
    assert (resolved.tower, resolved.ranker) == ("transformer", True)
    assert not resolved.refit_towers
    # The labels of the validation split are for a calibration.
    by_default = resolve_with_data(replace(config, refit=None), labels)
    assert (by_default.refit, by_default.refit_towers) == (False, True)
    refitted = resolve_with_data(replace(config, refit=True), labels)
    assert (refitted.refit, refitted.refit_towers) == (True, False)
    # The tasks have their own defaults, and not those beside two towers.
    assert (resolved.epochs, resolved.select) == (10, "tasks")


@pytest.mark.once("torch")
def test_logs_without_histories_have_dense_towers(data: Path) -> None:
    given = load(data)
    features = {
        name: kind
        for name, kind in given.schema.features.items()
        if name != "history"
    }
    bare = replace(given, schema=replace(given.schema, features=features))
    config = TrainConfig(**fields(data, Path("run"), tower=None))
    resolved = resolve_with_data(config, bare)
    assert (resolved.tower, resolved.epochs) == ("dense", 50)


@pytest.mark.once("torch")
def test_a_tower_is_for_retrieval(data: Path, tmp_path: Path) -> None:
    given = fields(data, tmp_path / "run", tower="dense", retrieval=False)
    with pytest.raises(ValueError, match="`retrieval` must be True with tower"):
        TrainConfig(**given)
    open_ = TrainConfig(**{**given, "tower": None})
    assert resolve_with_data(open_, load(data)).tower is None
