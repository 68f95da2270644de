"""Features of items that stand once in `items`, not in each row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load
from recsys.data.formats.table import write_table
from recsys.data.item_columns import ItemColumns
from recsys.data.item_columns import joins_items
from recsys.data.load import AnyDataset
from recsys.runs.data_file import fingerprint
from tests.recsys.retrieval.id_kinds import IdKinds

SCHEMA = Schema(
    "shop",
    {
        "item": "id",
        "brand": "id",
        "price": "number",
        "tags": "ids",
        "cover": {"type": "vector", "size": 2},
    },
    {"click": "binary"},
)
JOINED = ["brand", "price", "tags", "cover"]


@pytest.fixture(params=[False, True], ids=["ints", "texts"])
def ids(request: pytest.FixtureRequest) -> IdKinds:
    return IdKinds(texts=request.param)


@pytest.fixture(params=[False, True], ids=["memory", "streaming"])
def streaming(request: pytest.FixtureRequest) -> bool:
    streams: bool = request.param
    return streams


def items_of(ids: IdKinds) -> pd.DataFrame:
    """Items 14 to 19, in another order; from 15 on, with large integers."""
    numbers = [19, 15, 16, 14, 18, 17]
    return pd.DataFrame(
        {
            "item": ids.items(numbers),
            "title": "not looked at",
            # Neighbours, which are one number in a float.
            "brand": [2**53 + number for number in numbers],
            "price": [None, *map(float, numbers[1:])],
            "tags": [[ids.user(number)] * (number % 3) for number in numbers],
            "cover": [[number, 0.5] for number in numbers],
        }
    )


def rows_of(items: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"item": items, "click": [0, 1] * (len(items) // 2)})


def write(folder: Path, items: pd.DataFrame | None, rows: pd.DataFrame) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "dataset.json").write_text(SCHEMA.to_json())
    for split in ("train", "validation", "test"):
        write_table(rows, folder / f"{split}.parquet")
    if items is not None:
        write_table(items, folder / "items.parquet")


def frame(dataset: AnyDataset) -> pd.DataFrame:
    split = dataset.split("train")
    whole = split[[*SCHEMA.features]]
    assert isinstance(whole, pd.DataFrame)
    return whole


def test_rows_have_what_is_known_of_their_items(
    ids: IdKinds, streaming: bool, tmp_path: Path
) -> None:
    numbers = [16, 15, 19, 15, 14, 17]
    items, rows = items_of(ids), rows_of(ids.items(numbers))
    write(tmp_path / "apart", items, rows)
    places = [[19, 15, 16, 14, 18, 17].index(number) for number in numbers]
    beside = items[JOINED].iloc[places].reset_index(drop=True)
    write(tmp_path / "beside", None, pd.concat([rows, beside], axis=1))
    apart, whole = (
        frame(load(tmp_path / name, streaming=streaming))
        for name in ("apart", "beside")
    )
    pd.testing.assert_frame_equal(apart, whole, check_dtype=False)
    assert apart["brand"].tolist() == [2**53 + number for number in numbers]


def test_all_is_missing_of_an_item_that_is(
    streaming: bool, tmp_path: Path
) -> None:
    ids = IdKinds(texts=True)
    write(tmp_path, items_of(ids), rows_of([ids.item(15), None]))
    known, unknown = frame(load(tmp_path, streaming=streaming)).to_dict(
        "records"
    )
    assert (known["price"], list(known["tags"])) == (15, [])
    assert pd.isna(unknown["brand"])
    assert np.isnan(unknown["price"])
    assert len(unknown["tags"]) == len(unknown["cover"]) == 0


def test_an_item_that_is_not_there(
    ids: IdKinds, streaming: bool, tmp_path: Path
) -> None:
    """A neighbour of one that is, in a float or but for a NUL."""
    items = items_of(ids)
    items = items[items["item"] != ids.item(17)]
    write(tmp_path, items, rows_of(ids.items([16, 17])))
    message = rf"train.parquet, column 'item', data row 2.*{tmp_path}/items.par"
    with pytest.raises(DataError, match=message):
        frame(load(tmp_path, streaming=streaming))


def test_what_a_split_has_itself_counts(
    streaming: bool, tmp_path: Path
) -> None:
    ids = IdKinds(texts=False)
    rows = rows_of(ids.items([15, 16])).assign(price=[1.0, 2.0])
    write(tmp_path, items_of(ids), rows)
    read = frame(load(tmp_path, streaming=streaming))
    assert read["price"].tolist() == [1, 2]
    assert read["cover"].map(list).tolist() == [[15, 0.5], [16, 0.5]]


def test_files_of_fields(streaming: bool, tmp_path: Path) -> None:
    """In texts, `007` is no `7`."""
    (tmp_path / "dataset.json").write_text(SCHEMA.to_json())
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.csv").write_text("item,click\n7,0\n007,1\n")
    (tmp_path / "items.csv").write_text(
        "item,brand,price,tags,cover\n007,a,1,x|y,1|2\n7,b,,,3|4\n"
    )
    read = frame(load(tmp_path, streaming=streaming))
    assert read["brand"].tolist() == ["b", "a"]
    assert read["cover"].map(list).tolist() == [[3, 4], [1, 2]]
    assert read["tags"].map(list).tolist() == [[], ["x", "y"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda items: items.drop(columns="cover"), "train.*column 'cover'"),
        (lambda items: items.drop(columns="item"), "items.*column 'item'"),
        (lambda items: pd.concat([items, items[:1]]), "items.*each item once"),
        (lambda items: items.assign(price="x"), "items.*'price'.*finite"),
    ],
    ids=["column", "item", "twice", "value"],
)
def test_a_file_that_does_not_fit(
    change: Any, message: str, streaming: bool, tmp_path: Path
) -> None:
    ids = IdKinds(texts=True)
    write(tmp_path, change(items_of(ids)), rows_of(ids.items([15, 16])))
    with pytest.raises(DataError, match=message):
        frame(load(tmp_path, streaming=streaming))


def test_the_file_counts_where_rows_take_from_it(tmp_path: Path) -> None:
    ids = IdKinds(texts=True)
    items, rows = items_of(ids), rows_of(ids.items([15, 16]))
    write(tmp_path / "apart", items, rows)
    assert joins_items(tmp_path / "apart", SCHEMA)
    assert "items.parquet" in fingerprint(tmp_path / "apart")
    dataset = load(tmp_path / "apart", streaming=False)
    assert isinstance(dataset, Dataset)
    replace(dataset, items=items).write(tmp_path / "beside")
    assert not joins_items(tmp_path / "beside", SCHEMA)
    assert "items.parquet" not in fingerprint(tmp_path / "beside")


def test_without_an_item_nothing_is_joined(tmp_path: Path) -> None:
    schema = Schema("log", {"age": "number"}, {"click": "binary"})
    write_table(pd.DataFrame({"age": [1.0]}), tmp_path / "items.parquet")
    assert not ItemColumns(tmp_path, schema).names
