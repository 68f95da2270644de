"""Statistics of labels as a part of the ranker, and of its trainings."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import Dataset
from recsys.data import Schema
from recsys.models.build import build_ranker
from recsys.models.label_deviations import LabelDeviations
from recsys.models.label_deviations import fill_statistics
from recsys.models.ranker import Ranker
from recsys.models.target_statistics import ROW_STATISTICS
from recsys.models.target_statistics import TargetStatistics
from recsys.runs.run import Run
from recsys.training.batches import TrainingBatches
from recsys.training.batches import create_batches
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.traced_once("tensorflow")

# Text, and integers that a float64 does not tell apart.
USERS: Any = {
    "text": ["ann", "bob", "eve", "joe"],
    "large": [2**53 + n for n in range(4)],
}


def rows_of(ids: str, count: int = 80) -> pd.DataFrame:
    """Users of whom the second likes all, the others little."""
    generator = np.random.default_rng(0)
    users = generator.integers(0, 4, count)
    liked = generator.random(count) < np.where(users == 1, 0.95, 0.1)
    return pd.DataFrame(
        {
            "user": [USERS[ids][user] for user in users],
            "item": generator.integers(0, 9, count),
            "like": liked.astype(float),
        }
    )


SCHEMA = Schema("shop", {"user": "id", "item": "id"}, {"like": "binary"})


def config_of(**fields: Any) -> ResolvedConfig:
    sizes = {"head_units": [4], "expert_units": [4]}
    fields = {"target_statistics": True, **sizes, **fields}
    return resolve_config(TrainConfig("shop", "run", **fields), SCHEMA)


def dataset_of(ids: str) -> Dataset:
    rows = rows_of(ids)
    splits = {"train": rows, "validation": rows[:20], "test": rows[20:40]}
    return Dataset(SCHEMA, splits)


def test_layer_round_trip() -> None:
    layer = TargetStatistics({"user": 3, "item": 2}, width=2)
    layer.build()
    layer.fill({"user": np.arange(6.0).reshape(3, 2)})
    inputs = {"user": np.array([2, 0]), "item": np.array([1, 1])}
    expected = [[4, 5, 0, 0], [0, 1, 0, 0]]
    assert ops.convert_to_numpy(layer(inputs)).tolist() == expected
    again = TargetStatistics.from_config(layer.get_config())
    again.build()
    again.set_weights(layer.get_weights())
    assert ops.convert_to_numpy(again(inputs)).tolist() == expected
    assert not layer.trainable_weights
    given = np.ones((2, 4), "float32")
    output = layer({**inputs, ROW_STATISTICS: given})
    assert ops.convert_to_numpy(output).tolist() == given.tolist()


def test_products_of_vectors_are_numbers_of_a_row() -> None:
    layer = TargetStatistics({"user": 2, "item": 3}, 1, 2, factors=2)
    layer.build()
    layer.fill(
        {
            "user": np.array([[0, 0, 0, 0, 0], [9, 1, 2, 3, 4]]),
            "item": np.array(
                [[0, 0, 0, 0, 0], [8, 5, 6, 7, 8], [7, 1, 1, 0, -1]]
            ),
        }
    )
    inputs = {"user": np.array([1, 1, 0]), "item": np.array([1, 2, 1])}
    expected = [[9, 8, 17, 53], [9, 7, 3, -4], [0, 8, 0, 0]]
    assert ops.convert_to_numpy(layer(inputs)).tolist() == expected
    again = TargetStatistics.from_config(layer.get_config())
    again.build()
    again.set_weights(layer.get_weights())
    assert ops.convert_to_numpy(again(inputs)).tolist() == expected
    assert layer.compute_output_shape(None) == (None, 4)


def liked_together(ids: str) -> Dataset:
    """Half of the users like half of the items, the others the others."""
    generator = np.random.default_rng(0)
    users, items = generator.integers(0, 40, (2, 2000))
    first = 2**53 if ids == "large" else 0
    rows = pd.DataFrame(
        {
            "user": first + users if ids == "large" else users.astype(str),
            "item": first + items if ids == "large" else items.astype(str),
            "like": (users % 2 == items % 2).astype(float),
        }
    )
    train, rest = rows[:1600], rows[1600:]
    splits = {"train": train, "validation": rest, "test": rest}
    return Dataset(SCHEMA, splits)


@pytest.mark.parametrize("ids", USERS)
def test_likes_by_user_and_item_together_are_in_the_products(ids: str) -> None:
    dataset = liked_together(ids)
    ranker = build_ranker(config_of(), dataset)
    train, test = dataset.split("train"), dataset.split("test")
    statistics = fill_statistics(ranker, train, None, seed=0)
    assert statistics is not None
    assert ranker.statistics is not None
    for rows, own in (
        (train, statistics(ranker.encode(train))),
        (test, ops.convert_to_numpy(ranker.statistics(ranker.encode(test)))),
    ):
        assert own.shape == (len(rows), ranker.statistics.output_width)
        liked = rows["like"].to_numpy() == 1
        assert own[liked, -1].min() > own[~liked, -1].max()


@pytest.mark.parametrize("ids", USERS)
def test_vectors_of_new_ids_go_with_those_of_known_ones(ids: str) -> None:
    monday = liked_together(ids)
    source = build_ranker(config_of(), monday)
    fill_statistics(source, monday.split("train"), None, seed=0)
    rows = monday.split("train")
    # The odd users like it.
    new: Any = "new" if ids == "text" else 2**53 + 99
    its_rows = rows[:200].assign(
        item=new, like=(rows["user"][:200].astype(int) % 2).astype(float)
    )
    later = pd.concat([rows, its_rows], ignore_index=True)
    tuesday = Dataset(
        SCHEMA, {"train": later, "validation": rows, "test": rows}
    )
    model = build_ranker(config_of(), tuesday, source)
    statistics = fill_statistics(model, later, None, seed=1, start=source)
    assert statistics is not None
    assert source.statistics is not None
    assert model.statistics is not None
    for name, before in source.statistics.held().items():
        after = model.statistics.held()[name]
        np.testing.assert_array_equal(after[: len(before)], before)
    served = ops.convert_to_numpy(model.statistics(model.encode(its_rows)))
    trained = statistics(model.encode(later))[-200:]
    liked = its_rows["like"].to_numpy() == 1
    for own in (served, trained):
        assert own[liked, -1].min() > 0 > own[~liked, -1].max()


@pytest.mark.parametrize("ids", USERS)
def test_a_row_of_each_id_is_in_the_model(ids: str) -> None:
    dataset = dataset_of(ids)
    ranker = build_ranker(config_of(), dataset)
    assert ranker.target_statistics == ["user", "item"]
    assert ranker.statistics is not None
    train = dataset.split("train")
    fill_statistics(ranker, train, None, seed=0)
    tables = LabelDeviations.of(ranker, train, None, seed=0).tables()
    for name, table in tables.items():
        held = ops.convert_to_numpy(ranker.statistics.tables[name])
        np.testing.assert_array_equal(held, table)
    # The user who likes most has the largest deviation.
    number = ranker.fitted["user"].encode(pd.Series([USERS[ids][1]]))
    assert tables["user"][:, 0].argmax() == number


@pytest.mark.parametrize("ids", USERS)
def test_training_rows_have_statistics_of_other_rows(ids: str) -> None:
    dataset, config = dataset_of(ids), config_of()
    ranker = build_ranker(config, dataset)
    train = dataset.split("train")
    statistics = fill_statistics(ranker, train, None, config.seed)
    assert statistics is not None
    batches = create_batches(train, ranker, config, None, None, statistics)
    labels = LabelDeviations.of(ranker, train, None, config.seed)
    expected = labels.of_folds()(ranker.encode(train))
    assert isinstance(batches, TrainingBatches)
    inputs = batches.arrays[0]
    np.testing.assert_array_equal(inputs[ROW_STATISTICS], expected)
    # Of a part of the rows, as streamed ones are encoded.
    part = {name: inputs[name][30:50] for name in ("user", "item")}
    np.testing.assert_array_equal(
        statistics(part, start=30), inputs[ROW_STATISTICS][30:50]
    )


@pytest.mark.once("torch")
def test_predictions_change_with_the_tables() -> None:
    dataset = dataset_of("text")
    ranker = build_ranker(config_of(), dataset)
    inputs = ranker.encode(dataset.split("test"))
    before = ops.convert_to_numpy(ranker(inputs)["like"])
    assert ranker.statistics is not None
    ranker.statistics.fill({"user": np.ones((5, 18))})
    after = ops.convert_to_numpy(ranker(inputs)["like"])
    assert np.abs(after - before).max() > 1e-4


def test_saved_model_has_them(tmp_path: Path) -> None:
    dataset = dataset_of("large")
    ranker = build_ranker(config_of(), dataset)
    ranker.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(loaded, Ranker)
    inputs = ranker.encode(dataset.split("test"))
    np.testing.assert_array_equal(
        ops.convert_to_numpy(loaded(inputs)["like"]),
        ops.convert_to_numpy(ranker(inputs)["like"]),
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("given", "preset", "rows", "expected"),
    [
        (None, "compact", 2000, True),
        (None, "compact", 1999, False),
        (None, "movielens", 2000, False),
        (True, "movielens", 80, True),
        (False, "compact", 2000, False),
    ],
)
def test_rows_and_preset_decide_unless_given(
    given: bool | None, preset: str, rows: int, expected: bool
) -> None:
    train = rows_of("text", rows)
    parts = {"validation": train[:20], "test": train[20:40]}
    dataset = Dataset(SCHEMA, {"train": train, **parts})
    config = config_of(target_statistics=given, preset=preset)
    ranker = build_ranker(config, dataset)
    assert (ranker.statistics is not None) is expected


@pytest.mark.once("torch")
def test_none_without_a_user_and_an_item() -> None:
    schema = Schema("shop", {"color": "id"}, {"like": "binary"})
    config = TrainConfig("shop", "run", target_statistics=True)
    with pytest.raises(ValueError, match="`target_statistics` must be False"):
        resolve_config(config, schema)


def write(folder: Path, rows: pd.DataFrame) -> None:
    folder.mkdir()
    (folder / "dataset.json").write_text(
        '{"name": "shop", "features": {"user": "id", "item": "id"}, '
        '"tasks": {"like": "binary"}}'
    )
    for split in ("train", "validation", "test"):
        rows.to_parquet(folder / f"{split}.parquet")


def statistics_of(run: Path) -> dict[str, np.ndarray]:
    model = Run(run).load_model()
    assert isinstance(model, Ranker)
    assert model.statistics is not None
    return {
        name: ops.convert_to_numpy(table)
        for name, table in model.statistics.tables.items()
    }


@pytest.mark.once("torch")
@pytest.mark.parametrize("ids", USERS)
def test_a_warm_start_adds_those_of_new_ids(tmp_path: Path, ids: str) -> None:
    rows = rows_of(ids)
    write(tmp_path / "monday", rows)
    new = "new" if ids == "text" else 2**53 + 4
    later = pd.concat([rows, rows[:30].assign(user=new, like=1.0)])
    write(tmp_path / "tuesday", later)
    sizes = {"head_units": [4], "expert_units": [4], "epochs": 1}
    sizes["target_statistics"] = True
    first = {"data": str(tmp_path / "monday"), "out": str(tmp_path / "a")}
    recsys.train({**first, **sizes})
    second = {"data": str(tmp_path / "tuesday"), "out": str(tmp_path / "b")}
    recsys.train({**second, "warm_start": str(tmp_path / "a"), "epochs": 1})
    before, after = (statistics_of(tmp_path / run) for run in "ab")
    np.testing.assert_array_equal(after["user"][:5], before["user"])
    # Who likes all is far from the mean, and was not known before.
    assert after["user"][5, 0] > max(0.1, after["user"][0, 0])
    # Items do not matter to likes.
    assert not after["item"].any()


def test_known_ids_keep_theirs_in_training() -> None:
    dataset = dataset_of("text")
    ranker = build_ranker(config_of(), dataset)
    train = dataset.split("train")
    fill_statistics(ranker, train, None, seed=0)
    assert ranker.statistics is not None
    held = ranker.statistics.held()
    held["user"][2] = held["user"][0]  # As of an id that came later.
    first = LabelDeviations.of(ranker, train, None, seed=0)
    own = first.of_folds().tables["user"]
    again = LabelDeviations.of(ranker, train, None, 0, held)
    table = again.of_folds().tables["user"]
    numbers = table.shape[-1]
    for fold in range(len(table)):
        expected = held["user"][:, :numbers].copy()
        expected[2] = own[fold, 2]
        np.testing.assert_array_equal(table[fold], expected)
