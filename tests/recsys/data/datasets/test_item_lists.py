import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from recsys.data import Dataset
from recsys.data import load
from recsys.data.datasets.item_lists import item_lists
from recsys.data.prepare import prepare
from recsys.errors import DataError

SILENT = Progress(disable=True)
LARGE = 2**53 + 1
FILES = {
    "train": f"0 7 8 {LARGE}\n1 7\n",
    "validation": "0 9\n",
    "test": f"1 {LARGE} 8\n0 {LARGE + 1}\n",
}


def write(folder: Path, files: dict[str, str]) -> dict[str, Any]:
    for split, text in files.items():
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")
    return {split: f"{split}.txt" for split in files}


def pairs(dataset: Dataset, split: str) -> list[list[Any]]:
    rows = dataset.split(split)
    assert rows["chosen"].eq(1).all()
    return rows[["user", "item"]].to_numpy().tolist()


def test_files_are_splits(tmp_path: Path) -> None:
    options = write(tmp_path, FILES)
    dataset = item_lists(tmp_path, 0, SILENT, **options)
    assert pairs(dataset, "train") == [[0, 7], [0, 8], [0, LARGE], [1, 7]]
    assert pairs(dataset, "validation") == [[0, 9]]
    assert pairs(dataset, "test") == [[1, LARGE], [1, 8], [0, LARGE + 1]]
    assert dataset.schema.user_id == "user"
    assert dataset.schema.item_id == "item"


def test_ids_are_texts_in_all_files_as_soon_as_one_is(tmp_path: Path) -> None:
    options = write(tmp_path, FILES | {"test": "0 é\n1 8\n"})
    dataset = item_lists(tmp_path, 0, SILENT, **options)
    assert pairs(dataset, "train")[2] == [0, str(LARGE)]
    assert pairs(dataset, "validation") == [[0, "9"]]
    assert pairs(dataset, "test") == [[0, "é"], [1, "8"]]


def test_validation_is_drawn_of_each_user(tmp_path: Path) -> None:
    lines = "".join(
        f"u{user} {' '.join(map(str, range(10)))}\n" for user in range(3)
    )
    options = write(tmp_path, {"train": lines, "test": "u0 11\nu1 12\n"})
    drawn = []
    for seed in (0, 0, 1):
        dataset = item_lists(
            tmp_path, seed, SILENT, validation_share=0.2, **options
        )
        validation = dataset.split("validation")
        assert validation["user"].value_counts().to_dict() == {
            "u0": 2,
            "u1": 2,
            "u2": 2,
        }
        both = pairs(dataset, "train") + pairs(dataset, "validation")
        whole = [[f"u{user}", item] for user in range(3) for item in range(10)]
        assert sorted(both) == whole
        assert pairs(dataset, "test") == [["u0", 11], ["u1", 12]]
        drawn.append(pairs(dataset, "validation"))
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_folder_is_read_as_it_was_prepared(tmp_path: Path) -> None:
    options = write(tmp_path, FILES)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(FILES["train"].encode()))
    options["train"] = "packed.gz"
    prepare("item-lists", tmp_path, tmp_path / "out", **options)
    dataset = load(tmp_path / "out")
    assert pairs(dataset, "train")[2] == [0, LARGE]
    assert pairs(dataset, "test")[2] == [0, LARGE + 1]


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {"test": "no.txt"}, "no.txt: expected a file. Received: none of "
         "that name"),
        ({"test": "1\n"}, {}, "test.txt, line 1: expected a user and at least "
         "one item. Received: '1'"),
        ({}, {"validation": None}, "train.txt: expected a user with enough "
         "rows for 2 splits. Received: at most 3 rows of a user"),
        ({}, {"validation": None, "validation_share": 1.0},
         "The share of validation must be positive, and less than 1. "
         "Received: {'validation': 1.0}"),
    ],
)  # fmt: skip
def test_what_cannot_be_prepared_is_said(
    tmp_path: Path,
    files: dict[str, str],
    options: dict[str, Any],
    message: str,
) -> None:
    named = write(tmp_path, FILES | files) | options
    error = ValueError if "The share" in message else DataError
    with pytest.raises(error, match=re.escape(message)):
        item_lists(tmp_path, 0, SILENT, **named)
