"""Classes of a table that are texts, from its files to their numbers."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import dataset_from_table
from recsys.data import load
from recsys.data import read_table
from recsys.data import write_table
from recsys.data.split_dataset import SPLITS
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.tasks import Multiclass
from recsys.tasks.task_options import typed_task_options
from tests.recsys.tasks.label_check import refusal

SCHEMA = Schema("shop", {"user": "id"}, {"why": "multiclass"})
ROWS = pd.DataFrame(
    {"user": range(4), "why": ["size", None, "colour", "price"]}
)
CLASSES = ["colour", "price", "size"]
Write = Callable[..., Path]


@pytest.fixture
def write_folder(tmp_path: Path) -> Write:
    """Writes a data folder with the labels of some splits changed."""

    def write(suffix: str = ".csv", **labels: Any) -> Path:
        (tmp_path / "dataset.json").write_text(SCHEMA.to_json())
        for name in SPLITS:
            rows = ROWS.assign(why=labels.get(name, ROWS["why"]))
            write_table(rows, tmp_path / f"{name}{suffix}")
        return tmp_path

    return write


def numbers(labels: "pd.Series[Any]") -> list[Any]:
    return [None if np.isnan(label) else int(label) for label in labels]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("streaming", [False, True])
def test_texts_are_numbered_in_their_order(
    write_folder: Write, suffix: str, streaming: bool
) -> None:
    dataset = load(write_folder(suffix), streaming=streaming)
    assert dataset.schema.tasks["why"] == Multiclass(classes=CLASSES)
    assert dataset.num_classes == {"why": 3}
    for name in SPLITS:
        labels = dataset.split(name)["why"]
        assert labels.dtype == "float64"
        assert numbers(labels) == [2, None, 0, 1]


def test_streamed_rows_are_numbered_unit_by_unit(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(SCHEMA.to_json())
    for name in SPLITS:
        (tmp_path / name).mkdir()
        for part, labels in enumerate((["b", "a"], [None, "1"], [1, 0])):
            rows = pd.DataFrame({"user": [1, 2], "why": labels})
            write_table(rows, tmp_path / name / f"{part}.parquet")
    streamed, whole = StreamedDataset.read(tmp_path), Dataset.read(tmp_path)
    assert streamed.schema == whole.schema
    assert whole.schema.tasks["why"] == Multiclass(classes=["0", "1", "a", "b"])
    stream = streamed.splits["train"]
    read = [stream.read(unit)["why"] for unit in stream.units]  # type: ignore
    expected = [[3, 2], [None, 1], [1, 0]]
    assert [numbers(labels) for labels in read] == expected
    assert numbers(whole.split("test")["why"]) == [*chain(*expected)]


def test_a_class_that_training_has_not(write_folder: Write) -> None:
    folder = write_folder(test=["size", "fit", None, "price"])
    for streaming in (False, True):
        with pytest.raises(DataError) as caught:
            load(folder, streaming=streaming)
        assert str(caught.value) == (
            f"{folder / 'test.csv'}, column 'why', data row 2 (counted from "
            "1): expected one of the classes ['colour', 'price', 'size'], or "
            "nothing. Received: 'fit'"
        )


def test_a_single_class(write_folder: Write) -> None:
    folder = write_folder(train=["size", None, "size", None])
    with pytest.raises(DataError) as caught:
        load(folder)
    assert str(caught.value) == (
        f"{folder / 'train.csv'}, column 'why': expected 2 to 100,000 classes. "
        "Received: 1: ['size']"
    )


def test_declared_classes_keep_their_order(write_folder: Write) -> None:
    folder = write_folder(validation=["size", None, None, None])
    classes = ["size", "price", "colour", "fit"]
    declaration = {"type": "multiclass", "classes": classes}
    schema = Schema("shop", {"user": "id"}, {"why": declaration})
    (folder / "dataset.json").write_text(schema.to_json())
    assert json.loads(schema.to_json())["tasks"] == {"why": declaration}
    for streaming in (False, True):
        dataset = load(folder, streaming=streaming)
        assert dataset.num_classes == {"why": 4}
        assert numbers(dataset.split("train")["why"]) == [0, None, 2, 1]


def test_declared_classes_that_look_like_numbers() -> None:
    kind = Multiclass(classes=["10", "9", "007"])
    for column in (
        pd.Series([9, 10], dtype="int64"),
        pd.Series([9.0, 10.0]),
        pd.Series(["9", "10"]),
    ):
        assert numbers(kind.check(column, "a.csv")) == [1, 0]
    assert numbers(kind.check(pd.Series(["007", "", None]), "a.csv")) == [
        *(2, None, None)
    ]
    message = refusal([7], kind, object)
    assert message.endswith("Received: 7")


def test_a_table_in_memory_is_written_with_its_texts(tmp_path: Path) -> None:
    rows = pd.DataFrame({"user": range(40), "why": CLASSES * 13 + [None]})
    dataset = dataset_from_table(rows, SCHEMA)
    dataset.write(tmp_path / "data")
    text = (tmp_path / "data" / "dataset.json").read_text()
    assert json.loads(text)["tasks"] == {
        "why": {"type": "multiclass", "classes": CLASSES}
    }
    stored = read_table(tmp_path / "data" / "train.parquet")
    assert set(stored["why"].dropna()) == set(CLASSES)
    again = load(tmp_path / "data")
    for name in SPLITS:
        pd.testing.assert_frame_equal(again.split(name), dataset.split(name))


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.text(
                st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1
            ),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_stored_labels_are_the_labels(texts: list[str | None]) -> None:
    column = pd.Series([*texts, "a", "b"], dtype=object, name="why")
    kind = Multiclass().learned([Multiclass().check(column, "a")], "a")
    stored = kind.as_stored(kind.check(column, "a"))
    assert [None if pd.isna(one) else one for one in stored] == [*column]
    assert kind.classes == sorted({*column.dropna()})  # type: ignore


@pytest.mark.parametrize("labels", [[1, 0, "a"], [0.5, "a"], [True, "a"]])
def test_numbers_among_texts_are_refused(labels: list[Any]) -> None:
    assert "expected a class, 0 to 99,999" in refusal(
        labels[::-1], Multiclass(), object
    )


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a"], "expected 2 to 100,000 different classes. Received: ['a']"),
        (["a", "a"], "different classes. Received: ['a', 'a']"),
        (["a", 1], "expected classes named by texts"),
        (["a", " "], "expected classes named by texts"),
        ("ab", "expected a list"),
    ],
)
def test_classes_that_cannot_be(classes: Any, message: str) -> None:
    declaration = {"type": "multiclass", "classes": classes}
    with pytest.raises(DataError) as caught:
        Schema("shop", {"user": "id"}, {"why": declaration})
    assert message in str(caught.value)
    assert "'why'" in str(caught.value)


def test_columns_of_predictions_are_named_by_the_classes() -> None:
    assert Multiclass(classes=CLASSES).columns("why", 3) == [
        *("why_colour", "why_price", "why_size")
    ]


def test_predictions_of_one_name() -> None:
    tasks = {
        "a": {"type": "multiclass", "classes": ["b_c", "d"]},
        "a_b": {"type": "multiclass", "classes": ["c", "d"]},
    }
    rows = pd.DataFrame({"user": [1, 2], "a": [0.0, 1.0], "a_b": [0.0, 1.0]})
    with pytest.raises(
        DataError, match=r"no column 'a_b_c'.* of the task 'a_b'"
    ):
        Dataset(Schema("s", {"user": "id"}, tasks), dict.fromkeys(SPLITS, rows))


def test_an_option_of_training_does_not_rename_classes() -> None:
    with pytest.raises(ValueError, match=r"must be among none.*'classes'"):
        typed_task_options({"why.classes": "a,b"}, {"why": Multiclass()})
