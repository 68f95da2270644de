"""Towers that learn from all rows of a user at once."""

import shutil
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from scipy.sparse import csr_array

import recsys
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.features import Hash
from recsys.models import two_tower_retrieval
from recsys.models.build import build_model
from recsys.models.two_tower import TwoTower
from recsys.retrieval.query_role import EncodedColumns
from recsys.retrieval.retrieval import ROW_ITEMS
from recsys.retrieval.retrieval import ROW_QUERIES
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.retrieval.user_queries import user_queries
from recsys.runs.run import Run
from recsys.training import user_batches
from recsys.training.batches import TrainingBatches
from recsys.training.batches import create_batches
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config
from recsys.training.user_batches import UserBatches
from tests.examples import examples
from tests.recsys.retrieval.id_kinds import of_one_kind
from tests.recsys.retrieval.id_kinds import of_texts

Fields = Callable[..., dict[str, Any]]
Arrays = Mapping[str, np.ndarray]


def without_history(films: Dataset) -> Dataset:
    """Films of which queries have the user and their age alone."""
    kinds = {**films.schema.features}
    del kinds["history"]
    schema = replace(films.schema, features=kinds)
    return Dataset(schema, films.splits, items=films.items)


def built(
    fields: Fields, dataset: Dataset, **changes: Any
) -> tuple[TwoTower, ResolvedConfig]:
    given = TrainConfig(**fields(Path("out"), select="parts", **changes))
    config = resolve_config(given, dataset.schema)
    ranker = build_model(config, dataset)
    assert isinstance(ranker, TwoTower)
    return ranker, config


def loss_of(ranker: TwoTower, inputs: Arrays) -> float:
    """What a step of the towers adds."""
    given = {name: ops.convert_to_tensor(inputs[name]) for name in inputs}
    with ranker.only("towers"):
        ranker(given, training=True)
    return float(ops.convert_to_numpy(sum(ranker.retrieval.losses)))


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}])
def test_the_loss_is_that_of_the_rows(
    fields: Fields, films: Dataset, options: dict[str, float]
) -> None:
    data = without_history(films)
    ranker, config = built(
        fields,
        data,
        retrieval_loss="full-softmax",
        retrieval_loss_options=options,
        retrieval_penalty=0.3,
        retrieval_weight=0.5,
        unknown_rate=0.0,
    )
    train = data.split("train")
    with ranker.only("towers"):
        batches = create_batches(train, ranker, config, None)
    assert isinstance(batches, UserBatches)
    rows = create_batches(train, ranker, config, None)
    assert isinstance(rows, TrainingBatches)
    of_users, of_rows = (
        loss_of(ranker, inputs) for inputs in (batches[0][0], rows.arrays[0])
    )
    np.testing.assert_allclose(of_users, of_rows, rtol=1e-5)


@pytest.mark.once("torch")
@examples(30)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 9))
def test_an_epoch_has_users_once_with_all_their_rows(
    seed: int, size: int
) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.3, (20, 7)).astype(np.float32)
    counts[0] = counts[:, 0] = 0  # What is unknown.
    counts[3, 2] = 1
    ages = rng.integers(0, 9, 20)
    queries = {"user": np.arange(20, dtype=np.int32), "age": ages}
    batches = UserBatches(csr_array(counts), queries, ["like"], seed, size)
    batches.shuffle(epoch=3)
    found = np.zeros_like(counts)
    parts = [batches[index] for index in range(len(batches))]
    for inputs, labels, weights in parts:
        users = inputs["user"]
        np.testing.assert_array_equal(inputs["age"], ages[users])
        where = users[inputs[ROW_QUERIES]], inputs[ROW_ITEMS]
        np.add.at(found, where, inputs[ROW_WEIGHTS])
        assert {name: values.shape for name, values in inputs.items()} == {
            name: values.shape for name, values in parts[0][0].items()
        }
        assert not labels["like"].any()
        assert not weights["like"].any()
    users = np.concatenate([inputs["user"] for inputs, _, _ in parts])
    assert len(users) == len(set(users))
    num_users = np.count_nonzero(counts.sum(axis=1))
    assert len(users) == num_users - num_users % batches.batch_size
    np.testing.assert_array_equal(found[users], counts[users])
    batches.shuffle(epoch=3, skip=1)
    again = [batches[index][0]["user"] for index in range(len(batches))]
    assert np.array_equal(
        [*again], [inputs["user"] for inputs, _, _ in parts[1:]]
    )


@pytest.mark.once("torch")
def test_streams_have_the_same_batches(
    fields: Fields, films: Dataset, tmp_path: Path
) -> None:
    data = without_history(films)
    data.write(tmp_path)
    ranker, config = built(fields, data)
    streamed = StreamedDataset.read(tmp_path)
    with ranker.only("towers"):
        batches, others = (
            create_batches(each.split("train"), ranker, config, None)
            for each in (data, streamed)
        )
    assert isinstance(others, UserBatches)
    assert len(batches) == len(others) > 0
    for name, values in batches[0][0].items():
        np.testing.assert_array_equal(others[0][0][name], values)


@pytest.mark.once("torch")
def test_the_default_is_by_what_queries_are_made_of(
    fields: Fields, films: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loss(data: Dataset, **changes: Any) -> str:
        return str(built(fields, data, **changes)[0].retrieval.loss.type)

    data = without_history(films)
    assert loss(data) == "full-softmax"
    assert loss(films) == "softmax"  # A history differs from row to row.
    assert loss(data, retrieval_loss="softmax") == "softmax"
    # Users without vectors of their own.
    assert loss(data, retrieval_ids="embeddings") == "softmax"
    hashed = {**data.schema.features, "user": Hash(buckets=50)}
    schema = replace(data.schema, features=hashed)
    assert loss(Dataset(schema, data.splits)) == "softmax"
    options = {"retrieval_loss_options": {"temperature": 0.5}}
    assert loss(data, **options) == "softmax"
    together = fields(Path("out"), select="retrieval")
    config = resolve_config(TrainConfig(**together), data.schema)
    assert config.retrieval_loss == "softmax"
    monkeypatch.setattr(two_tower_retrieval, "MOST_ITEMS", 29)
    assert loss(data) == "softmax"


@pytest.mark.once("torch")
def test_vectors_are_wide_where_ids_have_many_rows(
    fields: Fields, films: Dataset
) -> None:
    def width(rows: int, **changes: Any) -> int:
        train = films.split("train")
        picked = train.sample(rows, replace=True, random_state=0)
        # All twelve users and all thirty films.
        picked = pd.concat([train, picked], ignore_index=True)
        data = Dataset(films.schema, {**films.splits, "train": picked})
        return int(built(fields, data, **changes)[0].retrieval.dim)

    assert width(42 * 50 - 601) == 64
    assert width(42 * 50 - 600) == 128
    assert width(42 * 50 - 600, retrieval_dim=7) == 7


@pytest.mark.once("torch")
def test_queries_are_of_the_user_where_no_feature_varies(
    films: Dataset, fields: Fields
) -> None:
    ranker, _ = built(fields, films)
    train = films.split("train").copy()
    columns = EncodedColumns(train, ranker.fitted)
    queries = user_queries(columns, "user", ["age"])
    assert queries is not None
    encoded = ranker.encode(train)
    for name, values in queries.items():
        np.testing.assert_array_equal(values[encoded["user"]], encoded[name])
    assert user_queries(columns, "user", ["age", "history"]) is None
    train.loc[train.index[-1], "age"] += 1.0
    changed = EncodedColumns(train, ranker.fitted)
    assert user_queries(changed, "user", ["age"]) is None


@pytest.mark.slow
@pytest.mark.once("torch")
@of_texts
def test_it_goes_on_within_an_epoch(
    fields: Fields,
    films: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_batches, "FEWEST_USERS", 2)
    without_history(films).write(tmp_path / "films")
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    given = {"data": str(tmp_path / "films"), "select": "parts"}
    given |= {"epochs": 3, "checkpoint_steps": 2, "learning_rate": 0.003}
    given |= {"refit": False}

    def copy(self: FiniteLoss, at: int, logs: Any = None) -> None:
        stage = whole.checkpoint / "towers" / "checkpoint"
        if stage.is_dir() and (self.epoch, at) == (1, 4):
            shutil.copytree(whole.folder, killed.folder)

    with monkeypatch.context() as patch:
        patch.setattr(FiniteLoss, "on_train_batch_begin", copy)
        metrics = recsys.train(fields(whole.folder, **given))
    assert whole.load_two_tower().retrieval.loss.type == "full-softmax"
    assert recsys.train(fields(killed.folder, **given), resume=True) == metrics
    pd.testing.assert_frame_equal(
        pd.read_csv(killed.tower_history), pd.read_csv(whole.tower_history)
    )
    losses = pd.read_csv(whole.tower_history)["loss"]
    assert losses.iloc[-1] < losses[0]


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimizer", ["adam", "lazy-adam"])
def test_towers_learn_whose_films_are_whose(
    fields: Fields, films: Dataset, optimizer: str
) -> None:
    data = without_history(films)
    ranker, config = built(fields, data, table_optimizer=optimizer)
    train = data.split("train")
    with ranker.only("towers"):
        compile_model(ranker, config)
        batches = create_batches(train, ranker, config, None)
        assert isinstance(batches, UserBatches)
        logs = ranker.fit(batches, epochs=30, shuffle=False, verbose=0)
    losses = logs.history["retrieval_loss"]
    # Of thirty films, a user watches ten.
    assert losses[0] > np.log(25)
    assert losses[-1] < np.log(15)


def chosen_films(films: Dataset) -> Dataset:
    """The films that users have watched, and no others."""
    data = without_history(films)
    tasks = {"watch": data.schema.tasks["watch"]}
    schema = replace(data.schema, tasks=tasks)
    splits = {}
    for name in data.splits:
        split = data.split(name)
        watched = split[split["watch"] == 1].drop(columns="rating")
        splits[name] = watched.reset_index(drop=True)
    return Dataset(schema, splits, items=data.items)


@pytest.mark.slow
@pytest.mark.once("torch")
@of_one_kind("refit", [False, True])
def test_labels_that_are_all_the_same_train_no_ranker(
    fields: Fields, films: Dataset, refit: bool, tmp_path: Path
) -> None:
    data = chosen_films(films)
    data.write(tmp_path / "films")
    run = Run(tmp_path / "run")
    given = {"data": str(tmp_path / "films"), "select": "parts"}
    given |= {"learning_rate": 0.01, "epochs": 10, "refit": refit}
    metrics = recsys.train(fields(run.folder, **given))
    assert run.read_config().ranker is False
    assert not run.history.exists()
    assert "selected" not in metrics
    history = pd.read_csv(run.tower_history)
    best = history["val_ndcg@5"].argmax()
    assert metrics["selected_towers"]["epoch"] == best + 1
    found = metrics["validation"]["retrieval"]
    assert found["ndcg@5"] > 1.5 * found["popular"]["ndcg@5"]
    user = data.split("test")["user"].iloc[0]
    assert len(recsys.recommend(run.folder, user, top=4)) == 4
    # What towers see of films is trained with them, if by nothing else.
    ranker = run.load_two_tower()
    tables = {
        name: ranker.embeddings[name].embeddings for name in ("genres", "item")
    }
    with ranker.only("towers"):
        trained = {name for name in tables if tables[name].trainable}
    assert trained == {"genres"}


@pytest.mark.once("torch")
def test_a_ranker_is_needed_where_towers_are_trained_with_it(
    fields: Fields, films: Dataset, tmp_path: Path
) -> None:
    films.write(tmp_path / "films")
    given = fields(tmp_path / "run", data=str(tmp_path / "films"))
    message = "`ranker` must be True, or left out, without towers that are"
    with pytest.raises(ValueError, match=message):
        recsys.train(given | {"ranker": False})
