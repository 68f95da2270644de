import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.progress import Progress

from recsys.data import Dataset
from recsys.data import Schema
from recsys.data.custom_table import custom_table
from recsys.data.streaming.streamed_dataset import StreamedDataset

ROWS = "user,tags,age,click\n5.0,7.0|8.0,3.0,1.0\n,,,0.0\n-6.0,9.0,1.0,1.0\n"
KINDS = {"user": "id", "tags": "ids", "age": "number"}


def read_as_custom_table(folder: Path) -> object:
    bar = Progress(disable=True)
    named = {"train": "train.csv", "validation": "validation.csv"}
    return custom_table(
        folder, 0, bar, **named, test="test.csv", schema="dataset.json"
    )


@pytest.mark.parametrize(
    "read", [Dataset.read, StreamedDataset.read, read_as_custom_table]
)
@pytest.mark.parametrize("mixed", [False, True])
def test_ids_that_look_like_floats_are_told_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    read: Callable[[Path], object],
    mixed: bool,
) -> None:
    schema = Schema("log", KINDS, {"click": "binary"})
    (tmp_path / "dataset.json").write_text(schema.to_json())
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.csv").write_text(
            ROWS.replace(".0", "") if split == "test" else ROWS
        )
    if mixed:
        (tmp_path / "train.csv").write_text(ROWS + "6.5,7.5,1.0,1.0\n")
    with caplog.at_level(logging.WARNING):
        read(tmp_path)
    splits = ["validation"] if mixed else ["train", "validation"]
    assert caplog.messages == [
        f"{tmp_path / split}.csv, column {column!r}: the ids are texts such "
        "as '5.0', which are other ids than 5. If integers are meant, write "
        "them as such, in pandas after .astype('Int64')."
        for split in splits
        for column in ("user", "tags")
    ]
