"""A log whose rows have groups and weights, from its file to its metrics."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.data import write_table
from recsys.errors import DataError
from tests.recsys.conftest import NewRun
from tests.recsys.conftest import Settings

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

OPTIONS: Settings = {
    "train": "log.csv",
    "ids": "*",
    "binary": "click",
    "regression": "price",
    "exclude": "session",
    "group": "session",
    "weight": "importance",
}


def rows(num_rows: int) -> pd.DataFrame:
    """Odd items are clicked in rows that weigh 2; others are lies of 0."""
    rng = np.random.default_rng(0)
    user, item, session = rng.integers(0, 12, (3, num_rows))
    lies = rng.random(num_rows) < 0.6
    return pd.DataFrame(
        {
            "user": user,
            "item": item,
            "session": [f"s{number}" for number in session],
            "click": np.where(lies, 1 - item % 2, item % 2),
            "price": np.where(lies, 9.0, item),
            "importance": np.where(lies, 0.0, 2.0),
        }
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    write_table(rows(800), folder / "log.csv")
    recsys.prepare("table", folder, folder / "data", **OPTIONS)
    return folder / "data"


@pytest.fixture(scope="module")
def trained(shop: Path, new_run: NewRun) -> Path:
    """The folder of a finished run; not to be changed."""
    fields: Settings = {"gate": "softmax", "epochs": 8, "patience": 8}
    return new_run(data=str(shop), metrics_k=3, learning_rate=0.05, **fields)


def test_prepare_keeps_the_columns(shop: Path) -> None:
    schema = json.loads((shop / "dataset.json").read_text())
    assert schema["features"] == {"user": "id", "item": "id"}
    assert (schema["group"], schema["weight"]) == ("session", "importance")
    train = recsys.load(shop).split("train")
    assert list(train)[-2:] == ["session", "importance"]
    assert train["session"].str.startswith("s").all()


def test_only_rows_that_weigh_are_learned(trained: Path, shop: Path) -> None:
    """Where most labels are wrong, but weigh nothing, the others decide."""
    test = json.loads((trained / "metrics.json").read_text())["test"]["tasks"]
    assert test["click"]["auc"] > 0.95
    weighing = recsys.load(shop).split("train")
    weighing = weighing[weighing["importance"] > 0]
    constants = recsys.load_model(trained).constants
    assert constants["click"] == pytest.approx(weighing["click"].mean())
    assert constants["price"] == pytest.approx(weighing["price"].mean())


def test_metrics_within_groups_are_told(trained: Path, shop: Path) -> None:
    test = json.loads((trained / "metrics.json").read_text())["test"]["tasks"]
    groups = ["gauc", "ndcg@3", "recall@3", "hit_rate@3", "mrr"]
    assert list(test["click"])[-6:] == [*groups, "constant"]
    assert test["click"]["gauc"] > test["click"]["constant"]["gauc"] == 0.5
    assert not set(groups) & set(test["price"])
    assert recsys.evaluate(trained, shop)["tasks"]["click"] == {
        name: pytest.approx(value, rel=1e-5)
        for name, value in test["click"].items()
    }
    history = pd.read_csv(trained / "history.csv")
    assert "val_click_gauc" in history


def test_k_of_an_evaluation(trained: Path, shop: Path) -> None:
    click = recsys.evaluate(trained, shop, metrics_k=1)["tasks"]["click"]
    assert click["ndcg@1"] == click["hit_rate@1"]
    assert "ndcg@3" not in click
    with pytest.raises(ValueError, match="`metrics_k` must be at least 1"):
        recsys.evaluate(trained, shop, metrics_k=0)


def test_cuts_have_groups_and_weights(trained: Path, shop: Path) -> None:
    metrics = recsys.evaluate(trained, shop, by="item")["by"]["item"]
    for cut in metrics.values():
        assert "mrr" in cut["tasks"]["click"]


def test_predictions_need_neither(trained: Path, tmp_path: Path) -> None:
    table = pd.DataFrame({"user": [1, 2], "item": [3, 4]})
    write_table(table, tmp_path / "new.csv")
    out = tmp_path / "scored.csv"
    assert recsys.predict(trained, tmp_path / "new.csv", out) == 2


@pytest.mark.parametrize("role", ["group", "weight"])
def test_a_column_that_is_not_there(tmp_path: Path, role: str) -> None:
    write_table(rows(40), tmp_path / "log.csv")
    with pytest.raises(DataError, match=r"expected a column 'sesion'\."):
        recsys.prepare(
            "table", tmp_path, tmp_path / "data", **OPTIONS | {role: "sesion"}
        )


def test_a_description_tells_group_and_weight_itself(tmp_path: Path) -> None:
    write_table(rows(40), tmp_path / "log.csv")
    content = {
        "name": "shop",
        "features": {"user": "id"},
        "tasks": {"click": "binary"},
        "group": "user",
    }
    (tmp_path / "columns.json").write_text(json.dumps(content))
    options = {"train": "log.csv", "schema": "columns.json"}
    with pytest.raises(ValueError, match=r"and weight$"):
        recsys.prepare(
            "table", tmp_path, tmp_path / "a", **options, weight="importance"
        )
    recsys.prepare("table", tmp_path, tmp_path / "b", **options)
    assert recsys.load(tmp_path / "b").schema.group == "user"
