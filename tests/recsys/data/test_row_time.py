"""A column with the time of each row, of files that were checked apart."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import write_table
from recsys.data.row_time import RowTime
from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError
from recsys.features import Number

SCHEMA = Schema("shop", {"user": "id"}, {"click": "binary"}, time="day")


def folder_with(place: Path, **times: list[Any]) -> Path:
    """A data folder with these times in its splits."""
    for split in SPLITS:
        days = times.get(split, ["2026-01-31", "2026-02-01"])
        frame = pd.DataFrame({"user": 1, "click": [0, 1], "day": days})
        write_table(frame, place / f"{split}.csv")
    (place / "dataset.json").write_text(SCHEMA.to_json())
    return place


def test_a_folder_with_times(tmp_path: Path) -> None:
    dataset = Dataset.read(folder_with(tmp_path, test=["2026-03-02"] * 2))
    days = dataset.split("test")["day"]
    assert days.tolist() == [pd.Timestamp("2026-03-02")] * 2
    assert dataset.summary()["train"].times == (
        pd.Timestamp("2026-01-31"),
        pd.Timestamp("2026-02-01"),
    )


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2026-01-31", ""], "test.csv, column 'day', data row 2 (counted from "
         "1): expected a time in each row. Received: nothing"),
        (["2026-01-31", "31/01/2026"], "data row 2 (counted from 1): expected "
         "a number, or a date"),
        ([1, 2], "test.csv, column 'day': expected times that are dates "
         "without a time zone, as in TRAIN. Received: numbers"),
    ],
)  # fmt: skip
def test_times_that_cannot_be(
    tmp_path: Path, times: list[Any], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        Dataset.read(folder_with(tmp_path, test=times))
    found = str(caught.value).replace(str(tmp_path / "train.csv"), "TRAIN")
    assert message in found


def test_a_part_without_rows_leaves_the_type_of_the_others() -> None:
    kind = RowTime()
    parts = [
        kind.check(pd.Series(texts, name="day", dtype=object), "log.csv")
        for texts in ([], ["2026-01-31"])
    ]
    whole = pd.concat(kind.unified(parts))
    assert whole.tolist() == [pd.Timestamp("2026-01-31")]
    assert whole.dtype.kind == "M"
    assert kind.unified(parts[:1])[0].empty


def test_a_feature_keeps_its_form_and_is_checked_as_a_time() -> None:
    kind = RowTime(feature=Number())
    column = pd.Series(["7", "8"], name="day")
    assert kind.check(column, "log.csv").tolist() == [7.0, 8.0]
    with pytest.raises(DataError, match="expected a time in each row"):
        kind.check(pd.Series(["7", ""], name="day"), "log.csv")
