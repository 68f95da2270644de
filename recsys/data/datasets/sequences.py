from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import Progress

from recsys.columns.column_values import as_strings
from recsys.data.dataset import Dataset
from recsys.data.datasets.sequence_lines import parse_sequences
from recsys.data.formats.packed_file import read_packed
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.bounds import LARGEST_WIDTH
from recsys.errors.bounds import check_count
from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.features import Feature
from recsys.features import Id
from recsys.features import Ids
from recsys.features import Sequence
from recsys.files.json_files import parse_json

TASK = "chosen"
ATTRIBUTES = "attributes"
# With fewer items, a user has no item to be tested by and one before it.
FEWEST = 3


def sequences(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    file: str,
    length: int = 50,
    train_length: int | None = None,
    attributes: str | None = None,
) -> Dataset:
    """Prepares users' sequences of items, leave one out by time.

    Each interaction is a row: the user, the item, its position in the user's
    sequence as the time, and the user's earlier items as a history. The last
    item of each user is a row of the test split, the one before it of the
    validation split, all others of the training split, with all items of
    users that have fewer than three. The task is 1 in every row.

    Args:
        raw_dir: Folder of the file.
        seed: Not used: nothing is drawn.
        progress: Shows how much is read.
        file: Name of the file, packed where it ends in `.gz` or `.xz`. A line
            is a user and then items, all or one, oldest first.
        length: Maximum length of a history; the last items are kept.
        train_length: The same for the training split, whose histories a
            sequence tower does not read; 0 for none. Default: length.
        attributes: Name of a JSON file, which may be packed: an object with a
            list of attributes for each item. They become a feature of the
            items. Default: none.

    Returns:
        The data set.

    Raises:
        DataError: A file is missing or broken, or no user has three items.
        ValueError: The length is less than 1, or too large.

    References:
        Kang, McAuley. Self-Attentive Sequential Recommendation. ICDM 2018.
        Zhou et al. S3-Rec: Self-Supervised Learning for Sequential
        Recommendation with Mutual Information Maximization. CIKM 2020 (its
        published files have both layouts).
    """
    check_count("length", length, LARGEST_WIDTH)
    if train_length:
        check_count("train_length", train_length, LARGEST_WIDTH)
    path = raw_dir / file
    rows = parse_sequences(_content(path), path, progress)
    positions, lengths = positions_of(rows["user"].to_numpy())
    if lengths.max() < FEWEST:
        raise DataError.at(
            path,
            f"a user with at least {FEWEST} items",
            f"at most {lengths.max()} items of a user",
        )
    rows["position"] = positions
    rows[TASK] = 1.0
    features: dict[str, Feature] = {"user": Id(), "item": Id()}
    if attributes is not None:
        rows[ATTRIBUTES] = _attributes(raw_dir / attributes, rows["item"])
        features[ATTRIBUTES] = Ids()
    features["history"] = Sequence(
        of="item", length=length, pooling="attention", query="item"
    )
    schema = Schema(
        "sequences",
        features,
        {TASK: "binary"},
        time="position",
        item="item",
        item_features=[] if attributes is None else [ATTRIBUTES],
        user="user",
    )
    items, splits = rows["item"].to_numpy(), {}
    for name, chosen in leave_one_out(positions, lengths).items():
        split = rows.iloc[chosen].reset_index(drop=True)
        most = length
        if name == "train" and train_length is not None:
            most = min(length, train_length)
        before = earlier_items(items, positions, chosen, most)
        split["history"] = pd.Series(before, dtype=object)
        splits[name] = split[[*schema.columns]]
    return Dataset(schema, splits)


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise DataError.at(path, "a file", "none of that name")
    return read_packed(path)


def _attributes(path: Path, items: pd.Series) -> pd.Series:
    """Returns the attributes of the item of each row, an array each."""
    with reading(path, "JSON in UTF-8", DataError):
        text = _content(path).decode()
    content = parse_json(text, path, DataError)
    if not isinstance(content, dict):
        raise DataError.at(
            path, "an object with a list by item", shown(content)
        )
    for item, values in content.items():
        if not isinstance(values, list):
            raise DataError.at(
                path, "a list of attributes", shown(values), column=item
            )
    known = pd.Series(items.unique())
    lists = as_strings(known).map(lambda item: content.get(item, []))
    checked = Ids().check(lists.rename(ATTRIBUTES), path)
    return items.map(pd.Series(checked.to_numpy(), pd.Index(known)))


def positions_of(users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where each row stands in the sequence of its user.

    Args:
        users: Array `(rows,)`; the rows of a user follow one another.

    Returns:
        Two int64 arrays `(rows,)`: the position, counted from 0, and the
        length of the user's sequence.

    Example:
    >>> positions, lengths = positions_of(np.array(["a", "a", "b"]))
    >>> positions.tolist(), lengths.tolist()
    ([0, 1, 0], [2, 2, 1])
    """
    first = np.append(True, users[1:] != users[:-1])
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(users)))
    positions = np.arange(len(users)) - np.repeat(starts, counts)
    return positions, np.repeat(counts, counts)


def leave_one_out(
    positions: np.ndarray, lengths: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns which rows are in each split.

    The last item of each user is in the test split, the one before it in the
    validation split, and all others in the training split. So are all items
    of a user with fewer than three.

    Args:
        positions: Where each row stands in the sequence of its user,
            `(rows,)`, counted from 0.
        lengths: How long that sequence is, `(rows,)`.

    Returns:
        By split, increasing row numbers.

    References:
        Kang, McAuley. Self-Attentive Sequential Recommendation. ICDM 2018,
        section IV.A.

    Example:
    >>> splits = leave_one_out(np.array([0, 1, 2, 0]), np.array([3, 3, 3, 1]))
    >>> {split: rows.tolist() for split, rows in splits.items()}
    {'train': [0, 3], 'validation': [1], 'test': [2]}
    """
    from_end = np.where(lengths >= FEWEST, lengths - positions, FEWEST)
    return {
        "train": np.flatnonzero(from_end >= FEWEST),
        "validation": np.flatnonzero(from_end == 2),
        "test": np.flatnonzero(from_end == 1),
    }


def earlier_items(
    items: np.ndarray, positions: np.ndarray, rows: np.ndarray, length: int
) -> np.ndarray:
    """Returns the items that the user of each row had before it.

    Args:
        items: Array of all items, `(all rows,)`, those of a user one after
            the other, oldest first.
        positions: Where each stands in the sequence of its user.
        rows: Row numbers.
        length: Most items of a history, the last ones.

    Returns:
        Array `(len(rows),)` of arrays, oldest first, which share the memory
        of `items`.

    Example:
    >>> items = np.array([5, 6, 7])
    >>> before = earlier_items(items, np.arange(3), np.array([0, 2]), 9)
    >>> [one.tolist() for one in before]
    [[], [5, 6]]
    """
    before = np.empty(len(rows), object)
    starts = rows - np.minimum(positions[rows], length)
    for place, (start, row) in enumerate(zip(starts, rows, strict=True)):
        before[place] = items[start:row]
    return before
