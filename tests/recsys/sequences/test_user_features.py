"""Towers that see features of users beside their histories."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.api.export_two_stage import export_two_stage
from recsys.data import Schema
from recsys.data.formats.table import write_table
from recsys.exporting import export_format
from recsys.features.feature import FittedFeature
from recsys.features.feature import sharing_last
from recsys.retrieval.user_features import encode_looked_up
from recsys.retrieval.user_features import features_of_users
from recsys.runs.run import Run
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.serving.formats import FORMATS
from recsys.training.tower_training import TowerTraining
from tests.made_once import made_once
from tests.recsys.sequences.conftest import LARGE
from tests.recsys.sequences.conftest import fields

ITEMS = 12
WAYS, SPEEDS = (-1, 1), (1, 3)  # Back and forth around a circle of items.
SPLITS = {"train": slice(0, 6), "validation": slice(6, 7), "test": slice(7, 8)}
IdOf = Callable[[int], Any]
AS_TEXT: IdOf = "i{}".format
AS_INTEGER: IdOf = LARGE.__add__


def write_data(folder: Path, id_of: IdOf, varies: bool = False) -> Path:
    """Users who go around a circle; only their features say which way.

    Args:
        folder: Where to, which is not there yet.
        id_of: Ids of users, items and ways.
        varies: Whether the way is another in each row of some user.
    """
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = []
    for user in range(200):
        way, speed = rng.choice(WAYS), rng.choice(SPEEDS)
        places = (rng.integers(ITEMS) + way * speed * np.arange(8)) % ITEMS
        items = [id_of(int(place)) for place in places]
        for place, item in enumerate(items):
            turned = varies and user == 0 and place % 2
            rows.append(
                {
                    "user": id_of(100 + user),
                    "item": item,
                    "way": id_of(int(-way if turned else way) + 1),
                    "speed": float(speed),
                    "hour": float(rng.integers(24)),
                    "history": items[max(0, place - 4) : place],
                    "place": place,
                    "chosen": 1.0,
                }
            )
    table = pd.DataFrame(rows)
    for split, places in SPLITS.items():
        chosen = table["place"].between(places.start, places.stop - 1)
        part = table[chosen].reset_index(drop=True)
        write_table(part, folder / f"{split}.parquet")
    description = {
        "name": "circle",
        "features": {
            "user": "id",
            "item": "id",
            "way": "id",
            "speed": "number",
            "hour": "number",
            "history": {"type": "sequence", "of": "item", "length": 4},
        },
        "tasks": {"chosen": "binary"},
        "time": "place",
        "user": "user",
        "item": "item",
        "item_features": [],
    }
    (folder / "dataset.json").write_text(json.dumps(description))
    return folder


def train(data: Path, out: Path) -> None:
    options = {"tower_epochs": 20, "tower_patience": 20, "tower_width": 32}
    recsys.train(fields(data, out, **options))


@pytest.fixture(
    scope="module", params=[AS_TEXT, AS_INTEGER], ids=["texts", "integers"]
)
def id_of(request: pytest.FixtureRequest) -> IdOf:
    of_place: IdOf = request.param
    return of_place


@pytest.fixture(scope="module")
def data(id_of: IdOf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind = type(id_of(0)).__name__
    return made_once(
        tmp_path_factory,
        f"ways-{kind}",
        lambda folder: write_data(folder, id_of),
    )


@pytest.fixture(scope="module")
def run(
    id_of: IdOf, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    kind = type(id_of(0)).__name__
    return Run(
        made_once(
            tmp_path_factory,
            f"run-of-ways-{kind}",
            lambda out: train(data, out),
        )
    )


def retrieval_of(run: Run) -> SequenceRetrieval:
    retrieval = run.load_two_tower().retrieval
    assert isinstance(retrieval, SequenceRetrieval)
    return retrieval


def first_item(run: Run, id_of: IdOf, place: int, **given: Any) -> Any:
    """What somebody gets who is not known, by history and features."""
    features = {"history": [id_of(place)], **given}
    found = recsys.recommend(run.folder, id_of(999), 1, features=features)
    return found["item"].iloc[0]


def plain(item: Any) -> Any:
    """A served id, of which texts are bytes."""
    return item.decode() if isinstance(item, bytes) else item


@pytest.mark.slow
@pytest.mark.traced_once("jax")
def test_a_stranger_gets_what_fits_the_features(run: Run, id_of: IdOf) -> None:
    assert retrieval_of(run).num_user_ids == {"way": 3, "speed": 3}
    for way in WAYS:
        for speed in SPEEDS:
            received = first_item(
                run, id_of, 5, way=id_of(way + 1), speed=float(speed)
            )
            assert received == id_of((5 + way * speed) % ITEMS)


@pytest.mark.slow
@pytest.mark.traced_once("jax")
def test_a_user_has_the_features_of_the_training_split(
    run: Run, data: Path, id_of: IdOf
) -> None:
    validation = pd.read_parquet(data / "validation.parquet")
    for user in range(4):
        found = recsys.recommend(
            run.folder, id_of(100 + user), 1, exclude_seen=False
        )
        assert found["item"].iloc[0] == validation["item"].iloc[user]


@pytest.mark.slow
@pytest.mark.once("tensorflow")
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="starts processes of its own; once is enough",
)
@pytest.mark.parametrize("format", FORMATS)
def test_two_stages_take_the_features(
    run: Run, id_of: IdOf, tmp_path: Path, format: str
) -> None:
    folder = export_two_stage(
        run.folder, tmp_path / "served", top=1, candidates=5, format=format
    )
    serve = export_format(format).load(folder)
    dtype = object if id_of is AS_TEXT else np.int64
    for way in WAYS:
        given = {"way": id_of(way + 1), "speed": 3.0}
        (item,) = serve(
            {
                "user": np.array([id_of(999)], dtype),
                "history": np.array([[id_of(5)]], dtype),
                "way": np.array([given["way"]], dtype),
                "speed": np.array([given["speed"]], np.float32),
                "seen": np.array([[id_of(5)]], dtype),
            }
        )["item"][0]
        expected = first_item(run, id_of, 5, **given)
        assert plain(item) == expected


@pytest.mark.slow
@pytest.mark.once("torch")
def test_what_was_saved_measures_the_same(run: Run, data: Path) -> None:
    expected = run.read_metrics()["test"]["retrieval"]
    received = recsys.evaluate(run.folder, data)["retrieval"]
    assert expected["recall@3"] > 0.9
    for name in ("recall@3", "ndcg@3"):
        assert received[name] == pytest.approx(expected[name], abs=1e-6)


@pytest.mark.slow
@pytest.mark.once("torch")
def test_further_items_change_nothing_for_users(
    run: Run, id_of: IdOf, tmp_path: Path
) -> None:
    write_table(pd.DataFrame({"item": [id_of(50)]}), tmp_path / "new.parquet")
    recsys.add_items(run.folder, tmp_path / "new.parquet", tmp_path / "run")
    grown = Run(tmp_path / "run")
    for way in WAYS:
        given = {"way": id_of(way + 1), "speed": 3.0}
        expected = first_item(run, id_of, 2, **given)
        assert first_item(grown, id_of, 2, **given) == expected


@pytest.mark.slow
@pytest.mark.once("torch")
def test_a_further_day_has_the_features_of_the_first(
    run: Run, id_of: IdOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There, the way is not the same in all rows of a user, and is kept.
    second = write_data(tmp_path / "day2", id_of, varies=True)
    started: list[TowerTraining] = []

    def stop(training: TowerTraining, *_: Any, **__: Any) -> None:
        started.append(training)
        raise KeyboardInterrupt

    monkeypatch.setattr(TowerTraining, "fit", stop)
    with pytest.raises(KeyboardInterrupt):
        recsys.train(
            {
                "data": str(second),
                "warm_start": str(run.folder),
                "out": str(tmp_path / "run"),
            }
        )
    before, after = retrieval_of(run), started[0].retrieval
    assert after.user_features == ["way", "speed"]
    pairs = zip(
        before.query_tower.users.weights,
        after.query_tower.users.weights,
        strict=True,
    )
    for theirs, ours in pairs:
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.slow
@pytest.mark.once("torch")
def test_without_features_of_users_there_is_no_table(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", AS_TEXT)
    description = json.loads((data / "dataset.json").read_text())
    for name in ("way", "speed"):
        del description["features"][name]
    (data / "dataset.json").write_text(json.dumps(description))
    recsys.train(fields(data, tmp_path / "run", tower_epochs=1))
    retrieval = retrieval_of(Run(tmp_path / "run"))
    assert retrieval.user_features == []
    assert retrieval.query_tower.users is None


ROWS = pd.DataFrame(
    {
        "user": [7, 8, 7, 9, 8, 7],
        "item": [1, 2, 3, 1, 2, 4],
        "age": [30.0, np.nan, 30.0, 50.0, np.nan, 30.0],
        "likes": [["a"], [], ["a"], ["b", "a"], [], ["a"]],
        "hour": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "shop": [1] * 6,
        "price": [9.0, 8.0, 9.0, 9.0, 8.0, 9.0],
    }
)
TASKS = {"click": "binary"}
KINDS: dict[str, Any] = {
    "user": "id",
    "item": "id",
    "age": "number",
    "likes": "ids",
    "hour": "number",
    "shop": "id",
    "price": "number",
}


@pytest.mark.parametrize("as_id", [str, LARGE.__add__])
def test_a_feature_of_a_user_is_the_same_in_all_rows(as_id: IdOf) -> None:
    rows = ROWS.assign(user=ROWS["user"].map(as_id))
    schema = Schema("shop", KINDS, TASKS)
    fitted: dict[str, FittedFeature] = {}
    for name in sharing_last(schema.features):
        fitted[name] = schema.features[name].fit([rows[name]], fitted)
    found = features_of_users(rows, schema, fitted, {"price"})
    assert list(found) == ["age", "likes"]
    # The number by its bucket, of which 0 is that of a missing one.
    assert found["age"][1:].tolist() == [1, 0, 2]
    assert found["likes"][1:].tolist() == [[1, -1], [-1, -1], [2, 1]]
    ages = encode_looked_up(fitted["age"], pd.Series([np.nan, 50.0, 30.0]))
    assert ages.tolist() == [0, 2, 1]
    del fitted["user"]
    anonymous = {name: KINDS[name] for name in KINDS if name != "user"}
    assert not features_of_users(
        rows, Schema("shop", anonymous, TASKS), fitted, ()
    )
