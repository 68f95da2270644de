"""Classes that are texts, from the training to what is served."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import DataError
from recsys.data import read_table
from recsys.data import write_table
from tests.recsys.conftest import NewRun
from tests.recsys.conftest import Settings

pytestmark = pytest.mark.slow

CLASSES = ["colour", "price", "too big"]
COLUMNS = [f"why_{name}" for name in CLASSES]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class follows from the user; every seventh is not known."""
    user = np.arange(240) % 12
    why = pd.Series(CLASSES)[user % 3].reset_index(drop=True)
    rows = pd.DataFrame({"user": user, "why": why.mask(user % 7 == 6)})
    schema = recsys.Schema("shop", {"user": "id"}, {"why": "multiclass"})
    folder = tmp_path_factory.mktemp("shop") / "data"
    recsys.dataset_from_table(rows, schema).write(folder)
    return folder


@pytest.fixture(scope="module")
def trained(shop: Path, new_run: NewRun) -> Path:
    """The folder of a finished run; not to be changed."""
    fields: Settings = {"gate": "softmax", "head_units": [], "epochs": 12}
    return new_run(data=str(shop), learning_rate=0.05, **fields)


@pytest.mark.once("torch")
def test_predictions_are_named_by_the_classes(
    trained: Path, shop: Path, tmp_path: Path
) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())["test"]
    assert metrics["tasks"]["why"]["accuracy"] > 0.9
    assert recsys.evaluate(trained, shop)["tasks"]["why"] == {
        name: pytest.approx(value, rel=1e-5)
        for name, value in metrics["tasks"]["why"].items()
    }
    found = recsys.load_ranker(trained).predict(
        pd.DataFrame({"user": [0, 1, 2]})
    )
    assert [*found] == COLUMNS
    assert found.to_numpy().argmax(axis=1).tolist() == [0, 1, 2]
    recsys.predict(trained, shop / "test.parquet", tmp_path / "out.csv")
    table = read_table(tmp_path / "out.csv")
    assert [*table] == ["user", "why", *COLUMNS]
    known = table[table["why"].notna()]
    shares = known[COLUMNS].astype("float64")
    likeliest = shares.idxmax(axis=1).str.removeprefix("why_")
    right = likeliest == known["why"]
    assert right.mean() == metrics["tasks"]["why"]["accuracy"]


@pytest.mark.once("torch")
def test_data_with_other_classes_do_not_fit(
    trained: Path, shop: Path, tmp_path: Path
) -> None:
    (tmp_path / "dataset.json").write_text(
        '{"name": "x", "features": {"user": "id"}, '
        '"tasks": {"why": "multiclass"}}'
    )
    for split in ("train", "validation", "test"):
        rows = pd.DataFrame({"user": [1, 2], "why": ["price", "colour"]})
        write_table(rows, tmp_path / f"{split}.csv")
    with pytest.raises(DataError) as caught:
        recsys.evaluate(trained, tmp_path)
    assert str(caught.value) == (
        f"data set 'x' of {tmp_path / 'dataset.json'}: expected 'why' declared "
        "as {'classes': ['colour', 'price', 'too big'], 'type': 'multiclass'}, "
        "as in training. Received: {'classes': ['colour', 'price'], 'type': "
        "'multiclass'}"
    )
    text = (shop / "dataset.json").read_text()
    (tmp_path / "dataset.json").write_text(text)
    metrics = recsys.evaluate(trained, tmp_path)
    assert metrics["tasks"]["why"]["accuracy"] == 0.5  # Of the first.


@pytest.mark.once("tensorflow")
def test_exports_come_with_the_classes(
    settings: Callable[..., Settings],
    train_quickly: Callable[[Settings], object],
    shop: Path,
    tmp_path: Path,
) -> None:
    import onnx

    trained = tmp_path / "run"
    train_quickly(settings(trained, data=str(shop), gate="softmax"))
    for form in ("tf_saved_model", "onnx"):
        recsys.export(trained, tmp_path / form, format=form)
        extra = tmp_path / form / "1" / "assets.extra"
        names = json.loads((extra / "classes.json").read_text())
        assert names == {"why": CLASSES}
    file: Any = onnx.load(tmp_path / "onnx" / "1" / "model.onnx")
    (told,) = file.metadata_props
    assert (told.key, json.loads(told.value)) == ("classes", {"why": CLASSES})
