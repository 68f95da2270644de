"""Classes as labels of a table, from its file to the model that serves it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import DataError
from recsys.data import write_table
from recsys.runs.run import Run
from tests.recsys.conftest import NewRun
from tests.recsys.conftest import Settings

pytestmark = pytest.mark.slow


def rows(num_rows: int, seed: int) -> pd.DataFrame:
    """The reason follows from the user; where nobody clicks, none is known."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 12, (2, num_rows))
    click = (item % 2).astype(int)
    reason = pd.Series(user % 3).astype("Int64").mask(click == 0)
    return pd.DataFrame(
        {"user": user, "item": item, "click": click, "reason": reason}
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that `recsys prepare table` makes."""
    folder = tmp_path_factory.mktemp("shop")
    write_table(rows(600, 0), folder / "log.csv")
    recsys.prepare(
        "table",
        folder,
        folder / "data",
        train="log.csv",
        ids="user,item",
        binary="click",
        multiclass="reason",
    )
    return folder / "data"


@pytest.fixture(scope="module")
def trained(shop: Path, new_run: NewRun) -> Path:
    """The folder of a finished run; not to be changed."""
    fields: Settings = {"gate": "softmax", "head_units": [], "epochs": 10}
    return new_run(data=str(shop), learning_rate=0.03, **fields)


@pytest.mark.once("torch")
def test_the_schema_and_the_labels(shop: Path) -> None:
    dataset = recsys.load(shop)
    assert json.loads(dataset.schema.to_json())["tasks"] == {
        "click": "binary",
        "reason": "multiclass",
    }
    assert dataset.num_classes == {"reason": 3}
    assert dataset.split("train")["reason"].isna().any()


@pytest.mark.once("torch")
def test_classes_are_learned(trained: Path, shop: Path) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())["test"]
    reason = metrics["tasks"]["reason"]
    assert reason["accuracy"] > 0.9
    assert reason["constant"]["accuracy"] < 0.6
    assert recsys.evaluate(trained, shop)["tasks"]["reason"] == {
        name: pytest.approx(value, rel=1e-5) for name, value in reason.items()
    }
    history = pd.read_csv(trained / "history.csv")
    assert "val_reason_accuracy" in history


@pytest.mark.once("torch")
def test_a_column_for_each_class(
    trained: Path, shop: Path, tmp_path: Path
) -> None:
    recsys.predict(trained, shop / "test.parquet", tmp_path / "out.csv")
    table = pd.read_csv(tmp_path / "out.csv")
    classes = ["reason_0", "reason_1", "reason_2"]
    expected = ["user", "item", "click_label", "reason", "click", *classes]
    assert list(table) == expected
    np.testing.assert_allclose(table[classes].sum(axis=1), 1, rtol=1e-5)
    known = table[table["reason"].notna()]
    right = known[classes].to_numpy().argmax(axis=1) == known["reason"]
    metrics = json.loads((trained / "metrics.json").read_text())["test"]
    accuracy = metrics["tasks"]["reason"]["accuracy"]
    assert right.mean() == pytest.approx(accuracy)


@pytest.mark.once("tensorflow")  # It writes exports of any backend.
def test_the_export_returns_each_class(
    settings: Callable[..., Settings],
    train_quickly: Callable[[Settings], object],
    shop: Path,
    tmp_path: Path,
) -> None:
    tf = pytest.importorskip("tensorflow")
    trained = tmp_path / "run"
    train_quickly(settings(trained, data=str(shop), gate="softmax"))
    recsys.export(trained, tmp_path / "export")
    loaded = tf.saved_model.load(str(tmp_path / "export" / "1"))
    frame = recsys.load(shop).split("test")[:20]
    outputs = loaded.signatures["serving_default"](
        user=tf.constant(frame["user"].to_numpy()),
        item=tf.constant(frame["item"].to_numpy()),
    )
    assert outputs["click"].shape == (20,)
    predicted = recsys.load_model(trained).predict(frame)
    expected = predicted[["reason_0", "reason_1", "reason_2"]]
    np.testing.assert_allclose(outputs["reason"], expected, rtol=1e-4)


@pytest.mark.once("torch")
def test_data_with_more_classes_do_not_fit(
    trained: Path, shop: Path, tmp_path: Path
) -> None:
    dataset = recsys.load(shop)
    splits: dict[str, Any] = {
        name: split.assign(reason=[3.0] + [0.0] * (len(split) - 1))
        for name, split in dataset.splits.items()
    }
    recsys.Dataset(dataset.schema, splits).write(tmp_path / "more")
    with pytest.raises(DataError) as caught:
        recsys.evaluate(trained, tmp_path / "more")
    file = tmp_path / "more" / "dataset.json"
    assert str(caught.value) == (
        f"data set {dataset.schema.name!r} of {file}: expected one of 3 "
        "classes of 'reason', as in training. Received: a class 3"
    )


@pytest.mark.once("torch")
def test_pruning_keeps_the_classes(trained: Path) -> None:
    model = Run(trained).load_ranker()
    pruned = model.with_mixture(model.mixture)
    assert pruned.num_classes == {"reason": 3}
