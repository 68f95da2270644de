"""A folder whose training split is in several files."""

from pathlib import Path

import pandas as pd

from recsys.data import Schema
from recsys.data import write_table
from recsys.data.streaming.split_stream import SplitStream

SCHEMA = Schema(
    "films",
    {"user": "id", "age": "number", "tags": "ids"},
    {"watch": "binary"},
)
FRAME = pd.DataFrame(
    {
        "title": ["x", 'a "quoted", one', "line\nbreak", '5" inch', "y", "z"],
        "user": [3, 1, 2, 1, 3, None],
        "age": [31.5, None, 18, 4, 5, 6],
        "tags": [["a", "b"], [], ["c"], None, ["7"], ["a"]],
        "watch": [1, 0, None, 1, 0, 1],
    }
).astype({"user": "Int64"})


def write(folder: Path, suffix: str, *parts: pd.DataFrame) -> Path:
    (folder / "train").mkdir()
    (folder / "dataset.json").write_text(SCHEMA.to_json())
    for index, part in enumerate(parts):
        file = folder / "train" / f"{index}{suffix}"
        if suffix == ".parquet":
            part.to_parquet(file, index=False, row_group_size=2)
        else:
            write_table(part, file)
    for name in ("validation", "test"):
        write_table(FRAME, folder / f"{name}.parquet")
    return folder


def opened(folder: Path) -> SplitStream:
    return SplitStream(folder, "train", SCHEMA.columns, group_rows=2)
