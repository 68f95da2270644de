"""Times of several kinds are refused alike, streamed and in memory."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data.split_dataset import SPLITS
from recsys.data.streaming.streamed_dataset import StreamedDataset

DAY = "2026-01-31"
ZONED = "2026-01-31T12:00:00Z"
STAMP = pd.Timestamp(DAY)


ALONE = Schema("log", {"click": "id"}, {"like": "binary"}, time="at")
FEATURE = Schema("log", {"at": "id"}, {"like": "binary"}, time="at")


def write(folder: Path, schema: Schema, **times: list[list[Any]]) -> Path:
    """A data folder with these times in the row groups of its splits."""
    (folder / "dataset.json").write_text(schema.to_json())
    for split in SPLITS:
        rows = [t for group in times.get(split, [[DAY]]) for t in group]
        ones = [1] * len(rows)
        table = pa.table({"at": rows, "click": ones, "like": ones})
        file = folder / f"{split}.parquet"
        parquet.write_table(table, file, row_group_size=2)
    return folder


def refusals(folder: Path) -> list[str]:
    messages = []
    for kind in (Dataset, StreamedDataset):
        with pytest.raises(DataError) as caught:
            kind.read(folder)
        messages.append(str(caught.value).removeprefix(str(folder)))
    return messages


@pytest.mark.parametrize(
    ("times", "expected", "received"),
    [
        ([["5", "6"], [DAY, DAY]], "of the same kind as in data row 1",
         repr(DAY)),
        ([[DAY, DAY], ["20260131"]], "of the same kind as in data row 1",
         "'20260131'"),
        ([[DAY, DAY], [ZONED]], "without a time zone, as in data row 1",
         repr(ZONED)),
        ([[ZONED, ZONED], [DAY]], "with a time zone, as in data row 1",
         repr(DAY)),
    ],
)  # fmt: skip
def test_two_kinds_in_a_file(
    tmp_path: Path, times: list[list[Any]], expected: str, received: str
) -> None:
    memory, streamed = refusals(write(tmp_path, ALONE, validation=times))
    assert memory == streamed
    assert memory == (
        "/validation.parquet, column 'at', data row 3 (counted from 1): "
        f"expected a time {expected}. Received: {received}"
    )


@pytest.mark.parametrize(
    ("times", "received"),
    [
        (["5", "6"], "numbers"),
        ([5, 6], "numbers"),
        ([0.5], "numbers"),
        ([ZONED], "dates with a time zone"),
        ([STAMP.tz_localize("UTC")], "dates with a time zone"),
    ],
)
def test_another_kind_in_another_file(
    tmp_path: Path, times: list[Any], received: str
) -> None:
    folder = write(tmp_path, ALONE, test=[times])
    memory, streamed = refusals(folder)
    assert memory == streamed
    assert memory == (
        "/test.parquet, column 'at': expected times that are "
        f"dates without a time zone, as in {folder / 'train.parquet'}. "
        f"Received: {received}"
    )


def test_a_feature_that_is_the_time_has_one_kind_too(tmp_path: Path) -> None:
    folder = write(tmp_path, FEATURE, test=[["5"]])
    memory, streamed = refusals(folder)
    assert memory == streamed
    assert memory.startswith("/test.parquet, column 'at': expected ")
    assert memory.endswith(". Received: numbers")


def test_texts_beside_times_are_of_one_kind(tmp_path: Path) -> None:
    folder = write(tmp_path, ALONE, validation=[[STAMP]])
    assert Dataset.read(folder).split("validation")["at"][0] == STAMP
    streamed = StreamedDataset.read(folder).split("validation")
    assert streamed["at"][0] == STAMP
