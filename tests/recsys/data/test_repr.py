from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from recsys.data import Dataset
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.data import Schema
from recsys.data import load
from recsys.data.split_dataset import SPLITS

NAN = float("nan")
SHOP = Schema(
    "shop",
    {"user": "id", "tags": "ids"},
    {"buy": "binary", "stars": "regression", "kind": "multiclass"},
)
ROWS = pd.DataFrame(
    {
        "user": ["u", "v", "w", "x"],
        "tags": [["a"], [], ["b"], ["a"]],
        "buy": [1.0, 0.0, 0.0, NAN],
        "stars": [NAN, 3.0, 4.0, NAN],
        "kind": [0.0, 1.0, 2.0, 2.0],
    }
)
LINES = """\
  rows: train 4, validation 2, test 1
  features: user (id), tags (ids)
  tasks: buy (binary, 75.0 % labelled, mean 0.3333), stars (regression, \
50.0 % labelled, mean 3.5), kind (multiclass, 100.0 % labelled, 3 classes)"""


def shop() -> Dataset:
    splits = {"train": ROWS, "validation": ROWS[1:3], "test": ROWS[1:2]}
    return Dataset(SHOP, splits)


def test_rows_types_and_labels_are_shown() -> None:
    assert repr(shop()) == f"Dataset 'shop'\n{LINES}"


def test_of_a_streamed_data_set_too(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    shop().write(folder)
    streamed = load(folder, streaming=True)
    for file in folder.glob("*.parquet"):
        file.unlink()
    assert repr(streamed) == f"StreamedDataset 'shop'\n{LINES}"


def test_a_sample_of_it_is_described_itself(tmp_path: Path) -> None:
    shop().write(tmp_path / "shop")
    sample = load(tmp_path / "shop", streaming=True).with_train_rows(1)
    assert "rows: train 1, validation 2" in repr(sample)
    one = sample.split("train")["stars"].notna().all()
    described = "100.0 % labelled, mean" if one else "no label"
    assert f"stars (regression, {described}" in repr(sample)


def test_of_images() -> None:
    pixels = np.zeros((2, 8, 8, 1), np.uint8)
    images = Images.of(pixels, {"digit": [3, 0]})
    schema = Schema("digits", {"image": "image"}, {"digit": "multiclass"})
    splits = dict.fromkeys(("train", "validation", "test"), images)
    assert repr(ImageDataset(schema, splits, {"digit": 4})) == (
        "ImageDataset 'digits'\n"
        "  rows: train 2, validation 2, test 2\n"
        "  features: image (image)\n"
        "  tasks: digit (multiclass, 100.0 % labelled, 4 classes)"
    )


def test_a_thousand_columns_are_counted() -> None:
    names = [f"n{number}" for number in range(1000)]
    wide = replace(SHOP, features=dict.fromkeys(names, "number"))
    table = pd.concat([ROWS, pd.DataFrame(0.0, ROWS.index, names)], axis=1)
    splits = dict.fromkeys(("train", "validation", "test"), table)
    shown = repr(Dataset(wide, splits))
    assert "n0 (number), n1 (number), " in shown
    assert "n19 (number) and 980 more\n" in shown


def test_a_notebook_shows_splits_and_columns() -> None:
    schema = Schema(
        "<shop>",
        {**SHOP.features, **{f"<{number}>": "number" for number in range(30)}},
        SHOP.tasks,
    )
    rows = ROWS.assign(**{f"<{number}>": 1.0 for number in range(30)})
    shown = Dataset(schema, dict.fromkeys(SPLITS, rows))._repr_html_()
    assert "<b>Dataset</b> &lt;shop&gt;" in shown
    assert "<td>train</td><td>4</td>" in shown
    assert "<td>user</td><td>feature</td><td>id</td>" in shown
    assert "<td>&lt;0&gt;</td>" in shown
    assert "and 15 more" in shown
