from pathlib import Path

import pandas as pd
from rich.progress import Progress

from recsys.columns.column_values import as_strings
from recsys.data.dataset import Dataset
from recsys.data.datasets.leave_one_out import FEWEST
from recsys.data.datasets.leave_one_out import earlier_items
from recsys.data.datasets.leave_one_out import leave_one_out
from recsys.data.datasets.leave_one_out import positions_of
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
