import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from recsys.data import load
from recsys.data import prepare
from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError

PARTS = {
    "shared_features": ["user", "item"],
    "watch_classification_targets": ["watch"],
    "rating_regression_targets": ["rating"],
}


def rows(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    watch = rng.integers(0, 2, 20).astype(float)
    rating = rng.integers(1, 6, 20).astype(float)
    return pd.DataFrame(
        {
            "user": rng.integers(1, 9, 20),
            "item": rng.integers(1, 9, 20),
            "watch": watch,
            "rating": np.where(watch == 1, rating, np.nan),
        }
    )


@pytest.fixture
def splits() -> dict[str, pd.DataFrame]:
    return {split: rows(seed) for seed, split in enumerate(SPLITS)}


def write_published(folder: Path, splits: dict[str, pd.DataFrame]) -> None:
    """Files as the authors have them, one of them packed."""
    for split, table in splits.items():
        content = table.assign(
            user=table["user"] - 1,
            item=table["item"] - 1,
            rating=table["rating"].fillna(0),
        ).astype(int)
        name = {"validation": "val"}.get(split, split)
        for part, columns in PARTS.items():
            (folder / part).mkdir(parents=True, exist_ok=True)
            text = content[columns].to_csv(index=False, header=False)
            file = folder / part / f"{part}_{name}.csv"
            if split == "test":
                Path(f"{file}.gz").write_bytes(gzip.compress(text.encode()))
            else:
                file.write_text(text)


@pytest.mark.parametrize("published", [True, False])
def test_both_layouts_have_the_ids_of_the_release(
    splits: dict[str, pd.DataFrame], published: bool, tmp_path: Path
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    if published:
        write_published(raw, splits)
    else:
        for split, table in splits.items():
            text = table.to_csv(index=False)
            file = raw / f"{split}.csv.gz"
            file.write_bytes(gzip.compress(text.encode()))
    counts = prepare("comet-rows", raw, tmp_path / "data")
    assert counts == dict.fromkeys(SPLITS, 20)
    dataset = load(tmp_path / "data")
    assert dataset.schema.name == "movielens-1m"
    for split, table in splits.items():
        assert_frame_equal(
            dataset.split(split)[[*table]], table, check_dtype=False
        )


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("train.csv", "user,item,watch\n1,2,0\n", "numbers in the columns us"),
        ("train.csv", "user,item,watch,rating\n1,x,0,\n", "numbers in the co"),
        ("train.csv", "", "numbers in the columns user, item, watch, rating"),
        ("train.csv", "user,item,watch,rating\n1,2,0,3\n", "in row 1"),
        ("train.csv", "user,item,watch,rating\n1,2,1,\n", "in row 1"),
        ("train.csv", "user,item,watch,rating\n1,2,1,6\n", "in row 1"),
        ("train.csv", "user,item,watch,rating\n0,2,0,\n", "in row 1"),
        ("train.csv", "user,item,watch,rating\n1.5,2,0,\n", "in row 1"),
        ("other.csv", "", "one of the files ('train.csv', "),
        ("shared_features/shared_features_train.csv", "1\n", "the columns 0"),
        (
            "rating_regression_targets/rating_regression_targets_train.csv",
            "0\n0\n",
            "20 lines, as many as shared_features. Received: 2",
        ),
    ],
)
def test_wrong_files(
    splits: dict[str, pd.DataFrame],
    file: str,
    text: str,
    message: str,
    tmp_path: Path,
) -> None:
    raw: Any = tmp_path / "raw"
    raw.mkdir()
    if "/" in file:
        write_published(raw, splits)
    (raw / file).write_text(text)
    with pytest.raises(DataError, match=re.escape(message)):
        prepare("comet-rows", raw, tmp_path / "data")


@pytest.mark.slow
def test_published_validation_rows(real_data: Path, tmp_path: Path) -> None:
    file = real_data / "ml-1m-published-split" / "validation.csv.gz"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    for split in SPLITS:
        (tmp_path / f"{split}.csv.gz").write_bytes(file.read_bytes())
    counts = prepare("comet-rows", tmp_path, tmp_path / "data")
    assert counts["validation"] == 224_944
    ratings = load(tmp_path / "data").split("validation")["rating"]
    assert ratings.notna().mean() == pytest.approx(0.5, abs=0.01)
