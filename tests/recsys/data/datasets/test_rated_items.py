import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.progress import Progress

from recsys.data import Dataset
from recsys.data.datasets.rated_items import rated_items
from recsys.data.prepare import prepare
from recsys.errors import DataError

SILENT = Progress(disable=True)
LARGE = 2**53 + 1
SPLITS = ("train", "validation", "test")
ROWS = [
    (user, LARGE + item, 1 + (user + item) % 5)
    for user in range(1, 5)
    for item in range(10)
]


def text(separator: str, end: str = "") -> str:
    return "".join(separator.join(map(str, row)) + end + "\n" for row in ROWS)


def whole(dataset: Dataset) -> pd.DataFrame:
    return pd.concat([dataset.split(split) for split in SPLITS])


@pytest.mark.parametrize("content", [text("\t", "\t7"), text("::")])
def test_every_rating_is_a_row(tmp_path: Path, content: str) -> None:
    (tmp_path / "u.data").write_text(content)
    dataset = rated_items(tmp_path, 0, SILENT, file="u.data")
    rows = whole(dataset)
    found = rows[["user", "item", "rating"]].astype("int64")
    assert sorted(map(tuple, found.to_numpy().tolist())) == ROWS
    assert (rows["like"] == (rows["rating"] >= 4)).all()
    for split in ("validation", "test"):
        counts = dataset.split(split)["user"].value_counts()
        assert counts.to_dict() == {1: 1, 2: 1, 3: 1, 4: 1}
    assert dataset.schema.user_id == "user"


def test_ratings_of_all_users_are_dealt_out_together(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text(text("\t"))
    options: dict[str, Any] = {
        **{"file": "u.data", "by": "row", "like": 5},
        **{"validation_share": 0.1, "test_share": 0.2},
    }
    drawn = [
        rated_items(tmp_path, seed, SILENT, **options) for seed in (0, 0, 1)
    ]
    for dataset in drawn:
        sizes = [len(dataset.split(split)) for split in SPLITS]
        assert sizes == [28, 4, 8]
        assert whole(dataset)["like"].sum() == 8
    tests = [one.split("test")["item"].tolist() for one in drawn]
    assert tests[0] == tests[1] != tests[2]


def test_the_file_may_be_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ml.zip", "w") as archive:
        archive.writestr("ml/u.data", text("\t"))
    rows = prepare(
        "ratings",
        tmp_path,
        tmp_path / "out",
        file="ml/u.data",
        archive="ml.zip",
    )
    assert rows == {"train": 32, "validation": 4, "test": 4}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "item"}, "`by` must be 'user' or 'row'. Received: by='item'"),
        ({"file": "no"}, "no: expected a file. Received: none of that name"),
        ({"file": "no", "archive": "a.zip"}, "expected one of the files "
         "('no', 'no', 'a.zip'). Received: none of them"),
        ({"test_share": 0.9}, "The shares of validation and test must be "
         "positive, and less than 1 together. Received: "),
        ({"validation_share": 0.001}, "u.data: expected a user with enough "
         "rows for 3 splits. Received: at most 10 rows of a user"),
    ],
)  # fmt: skip
def test_what_cannot_be_prepared_is_said(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "u.data").write_text(text("\t"))
    named = {"file": "u.data"} | options
    error = DataError if "expected" in message else ValueError
    with pytest.raises(error, match=re.escape(message)):
        rated_items(tmp_path, 0, SILENT, **named)
