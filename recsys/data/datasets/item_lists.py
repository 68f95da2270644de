from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from rich.progress import Progress

from recsys.data.dataset import Dataset
from recsys.data.datasets.sequence_lines import parse_sequences
from recsys.data.formats.packed_file import read_packed
from recsys.data.schema import Schema
from recsys.data.shares import cut_by_user
from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError
from recsys.features.id_values import unified_ids

TASK = "chosen"
COLUMNS = ["user", "item"]


def item_lists(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    train: str,
    test: str,
    validation: str | None = None,
    validation_share: float = 0.1,
) -> Dataset:
    """Prepares lists of users' items that are split already, in no order.

    Each item of a user is a row. The task is 1 in every row.

    Args:
        raw_dir: Folder of the files.
        seed: Seed of the validation split where it is drawn.
        progress: Shows how much is read.
        train: Name of the file with the items to train on, packed where it
            ends in `.gz` or `.xz`. A line is a user and then items.
        test: The same for the test.
        validation: The same for validation. Default: drawn from the training
            items.
        validation_share: Share of each user's items that is drawn, rounded to
            a whole number of them.

    Returns:
        The data set.

    Raises:
        DataError: A file is missing or broken, or nothing could be drawn.
        ValueError: The share is not between 0 and 1.

    References:
        Wang, He, Wang, Feng, Chua. Neural Graph Collaborative Filtering.
        SIGIR 2019, and He et al. LightGCN. SIGIR 2020 (their `train.txt` and
        `test.txt` have this layout).
    """
    names = {"train": train, "validation": validation, "test": test}
    splits = _unified(
        {
            split: _read(raw_dir / name, progress)
            for split, name in names.items()
            if name is not None
        }
    )
    if validation is None:
        shares = {"validation": validation_share}
        splits |= cut_by_user(
            splits["train"], "user", shares, seed, raw_dir / train
        )
    schema = Schema(
        "item-lists",
        dict.fromkeys(COLUMNS, "id"),
        {TASK: "binary"},
        item="item",
        user="user",
    )
    return Dataset(
        schema, {split: splits[split].assign(**{TASK: 1.0}) for split in SPLITS}
    )


def _read(file: Path, progress: Progress) -> pd.DataFrame:
    if not file.is_file():
        raise DataError.at(file, "a file", "none of that name")
    return parse_sequences(read_packed(file), file, progress)


def _unified(splits: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The same ids, integers where all of a column in all files are."""
    columns = {
        name: unified_ids([rows[name] for rows in splits.values()])
        for name in COLUMNS
    }
    return {
        split: pd.DataFrame({name: columns[name][place] for name in COLUMNS})
        for place, split in enumerate(splits)
    }
