"""Tasks and towers, each at its own best epoch."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data.streaming.epoch_order import Share
from recsys.models.build import build_model
from recsys.models.two_tower import Part
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run
from recsys.training import resolve_config
from recsys.training.batches import create_batches
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.compile_model import compile_model
from recsys.training.resolve_with_data import resolve_with_data
from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.retrieval.id_kinds import of_texts

Fields = Callable[..., dict[str, Any]]


def values(variables: list[keras.Variable]) -> list[np.ndarray]:
    return [np.array(variable.numpy()) for variable in variables]


def ranking_weights(ranker: TwoTower) -> list[keras.Variable]:
    """Without the states of random numbers, which are not saved."""
    saved = {id(weight) for weight in ranker.weights}
    return [each for each in ranker.ranking_variables if id(each) in saved]


def assert_same(
    some: list[keras.Variable], others: list[keras.Variable]
) -> None:
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy(), one.path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", ["tasks", "towers"])
@pytest.mark.parametrize("optimizer", ["adam", "lazy-adam"])
def test_steps_of_one_part_change_nothing_else(
    fields: Fields, films: Dataset, optimizer: str, part: Part
) -> None:
    rates = {"table_optimizer": optimizer, "learning_rate": 0.003}
    given = TrainConfig(**fields(Path("out"), **rates))
    config = resolve_config.resolve_config(given, films.schema)
    ranker = build_model(config, films)
    assert isinstance(ranker, TwoTower)
    trained = list(map(id, ranker.trainable_variables))
    own = list(map(id, ranker.retrieval.trainable_variables))
    # So places in the optimizer's state are those of the tasks alone.
    assert trained[-len(own) :] == own
    before = values(ranker.trainable_variables)
    with ranker.only(part):
        compile_model(ranker, config)
        batches = create_batches(films.split("train"), ranker, config, None)
        ranker.fit(batches, epochs=2, shuffle=False, verbose=0)
    after = values(ranker.trainable_variables)
    kept = [np.array_equal(*pair) for pair in zip(before, after, strict=True)]
    of_towers = part == "tasks"
    assert kept == [(each in own) == of_towers for each in trained]
    assert list(map(id, ranker.trainable_variables)) == trained
    assert ranker.get_config()["mixture"]["config"]["trainable"]


@pytest.mark.slow
@pytest.mark.once("torch")
@of_texts
def test_the_tasks_are_those_of_their_own_best_epoch(
    fields: Fields, tmp_path: Path
) -> None:
    given = {"epochs": 4, "patience": 2, "learning_rate": 0.05}
    given["unknown_rate"] = 0.0  # Of the tasks alone, items would be unknown.
    tasks, run = Run(tmp_path / "tasks"), Run(tmp_path / "parts")
    alone = {"select": "tasks", "retrieval_weight": 0.0}
    expected = recsys.train(fields(tasks.folder, **alone, **given))
    metrics = recsys.train(fields(run.folder, select="parts", **given))
    assert metrics == json.loads(run.metrics.read_text())
    for split in ("validation", "test"):
        assert metrics[split]["tasks"] == expected[split]["tasks"]
    ranker, other = run.load_two_tower(), tasks.load_two_tower()
    assert_same(ranking_weights(ranker), ranking_weights(other))
    figures = pd.read_csv(run.tower_history)["val_ndcg@5"]
    best = figures.argmax()
    value = figures[best]
    wanted = {"by": "val_ndcg@5", "epoch": best + 1, "value": value}
    assert metrics["selected_towers"] == wanted
    assert metrics["selected"]["by"] == "val_loss"
    measured = metrics["validation"]["retrieval"]["ndcg@5"]
    assert measured == pytest.approx(value, rel=1e-5)
    assert not run.checkpoint.exists()


@pytest.mark.slow
@pytest.mark.once("torch")
@of_texts
@pytest.mark.parametrize(
    ("refit", "training"),
    [
        ({"refit": False}, "checkpoint/towers"),
        ({"refit": True}, "refit/checkpoint/towers"),
        ({}, "refit"),
    ],
    ids=["none", "all", "towers"],
)
def test_it_goes_on_where_the_towers_were(
    fields: Fields,
    refit: dict[str, Any],
    training: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    given = {"select": "parts", "epochs": 3, "checkpoint_steps": 2}
    given |= refit
    stage = whole.folder / training

    def copy(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if stage.is_dir() and (self.epoch, at) == (0, 3):
            shutil.copytree(whole.folder, killed.folder)

    with monkeypatch.context() as patch:
        patch.setattr(FiniteLoss, "on_train_batch_begin", copy)
        metrics = recsys.train(fields(whole.folder, **given))
    resumed = recsys.train(fields(killed.folder, **given), resume=True)
    assert resumed == metrics
    assert_same(killed.load_model().weights, whole.load_model().weights)
    pd.testing.assert_frame_equal(
        pd.read_csv(killed.tower_history), pd.read_csv(whole.tower_history)
    )


@pytest.mark.slow
@pytest.mark.once("torch")
@of_texts
def test_a_refit_trains_each_part_for_as_long(
    fields: Fields, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path / "run")
    given = {"select": "parts", "epochs": 3, "patience": 1, "refit": True}
    metrics = recsys.train(fields(run.folder, **given))
    epochs = metrics["selected_towers"]["epoch"]
    *_, last = re.findall(r"^Epoch .*?  ", capsys.readouterr().out, re.M)
    assert last == f"Epoch {epochs}/{epochs}  "
    refitted = pd.read_csv(run.folder / "refit_history.csv")
    history = pd.read_csv(run.history)
    assert len(refitted) == history["val_loss"].argmin() + 1


@pytest.mark.slow
@pytest.mark.once("torch")
def test_a_refit_of_the_towers_leaves_the_tasks(
    fields: Fields, films: Dataset, ids: IdKinds, tmp_path: Path
) -> None:
    given = {"select": "parts", "epochs": 3, "retrieval_exclude_seen": True}
    first, run = Run(tmp_path / "first"), Run(tmp_path / "refitted")
    before = recsys.train(fields(first.folder, refit=False, **given))
    metrics = recsys.train(fields(run.folder, **given))
    assert run.read_config().refit_towers
    assert not (run.folder / "refit").exists()
    assert metrics["validation"] == before["validation"]
    for name in ("selected", "selected_towers"):
        assert metrics[name] == before[name]
    assert metrics["test"]["tasks"] == before["test"]["tasks"]
    assert metrics["test"]["retrieval"] != before["test"]["retrieval"]
    ranker, other = run.load_two_tower(), first.load_two_tower()
    assert_same(ranking_weights(ranker), ranking_weights(other))
    seen = films.with_validation_in_training().split("train")["item"]
    known = ranker.fitted["item"].encode(seen)
    counts = np.bincount(known, minlength=ranker.retrieval.num_items + 1)
    sampling = ranker.retrieval.sampling.numpy()
    np.testing.assert_allclose(sampling, counts / counts.sum(), rtol=1e-6)
    # It is measured, calibrated and used with what the towers have seen.
    data = fields(run.folder)["data"]
    again = recsys.evaluate(run.folder, data)
    assert again["retrieval"] == metrics["test"]["retrieval"]
    recsys.calibrate(run.folder, data)
    assert run.read_metrics()["test"]["retrieval"] == again["retrieval"]
    user = ids.user(3)
    rows = films.split("validation")
    had = rows["item"][(rows["user"] == user) & (rows["watch"] == 1)]
    found = recsys.recommend(run.folder, user, top=99, exclude_seen=True)
    assert len(had)
    assert not set(had) & set(found["item"])


@pytest.mark.slow
@pytest.mark.once("torch")
@of_texts
def test_towers_are_refitted_from_where_they_began(
    fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"select": "parts", "epochs": 3, "unknown_rate": 0.0}
    first, run = Run(tmp_path / "first"), Run(tmp_path / "refitted")
    metrics = recsys.train(fields(first.folder, refit=False, **given))
    # Without more rows, the second training is the first.
    monkeypatch.setattr(
        Dataset, "with_validation_in_training", lambda dataset: dataset
    )
    assert recsys.train(fields(run.folder, **given)) == metrics
    assert_same(run.load_model().weights, first.load_model().weights)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("given", "refit", "of_towers"),
    [
        ({}, False, True),
        ({"refit": False}, False, False),
        ({"refit": True}, True, False),
        ({"refit": True, "refit_towers": True}, True, False),
        ({"refit_towers": False}, False, False),
        ({"refit": False, "refit_towers": True}, False, True),
        ({"ranker": False}, True, False),
        ({"ranker": False, "refit": False}, False, False),
        ({"select": "tasks"}, False, False),
        ({"select": "tasks", "refit_towers": True}, False, False),
        ({"retrieval": False, "select": None}, False, False),
    ],
)
def test_the_towers_are_refitted_unless_something_else_is_said(
    fields: Fields,
    films: Dataset,
    given: dict[str, Any],
    refit: bool,
    of_towers: bool,
) -> None:
    changes = {"select": "parts"} | given
    config = TrainConfig(**fields(Path("out"), **changes))
    resolved = resolve_with_data(config, films)
    assert (resolved.refit, resolved.refit_towers) == (refit, of_towers)
    recorded = TrainConfig.from_mapping(resolved.to_mapping())
    assert resolve_with_data(recorded, films) == resolved


@pytest.mark.once("torch")
def test_without_towers_there_are_none_to_be_refitted(
    fields: Fields, films: Dataset
) -> None:
    changes = {"retrieval": False, "select": None, "refit_towers": True}
    config = TrainConfig(**fields(Path("out"), **changes))
    with pytest.raises(ValueError, match="must be True with refit_towers"):
        resolve_with_data(config, films)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("features", "user", "given", "select"),
    [
        ({}, "user", {}, "parts"),
        ({}, "user", {"select": "tasks"}, "tasks"),
        ({}, "user", {"retrieval_ids": "embeddings"}, "retrieval"),
        ({"had": {"type": "ids", "of": "item"}}, "user", {}, "retrieval"),
        ({}, None, {}, "retrieval"),
    ],
)
def test_the_default_is_in_parts_where_users_have_vectors(
    features: dict[str, Any],
    user: str | None,
    given: dict[str, Any],
    select: str,
) -> None:
    ids = {"who": "id"} if user is None else {user: "id"}
    columns = {"item": "id", **ids, **features}
    schema = Schema("shop", columns, {"like": "binary"}, item="item", user=user)
    config = TrainConfig(data="shop", out="run", retrieval=True, **given)
    assert resolve_config.resolve_config(config, schema).select == select


@pytest.mark.once("torch")
def test_several_processes_train_all_in_one(
    fields: Fields, films: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        resolve_config, "process_share", lambda config: Share(0, 2)
    )
    given = TrainConfig(**fields(Path("out"), select=None))
    config = resolve_config.resolve_config(given, films.schema)
    assert config.select == "retrieval"
    given = TrainConfig(**fields(Path("out"), select="parts"))
    with pytest.raises(ValueError, match="`select` must be retrieval, or"):
        resolve_config.resolve_config(given, films.schema)
