import re
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import Progress

from recsys.data.columns import parse
from recsys.data.dataset import Dataset
from recsys.data.datasets.download import find_file
from recsys.data.formats.packed_file import open_packed
from recsys.data.from_table import cut
from recsys.data.from_table import row_order
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.bounds import check_count
from recsys.errors.shown import shown

# Of the user, the item and the context: one id, or none.
ONE_ID = (
    *("101", "121", "122", "124", "125", "126", "127", "128", "129"),
    *("205", "206", "207", "216", "301"),
)
# What the user has been interested in, the item's intentions, and both.
WEIGHTED = (
    *("109_14", "110_14", "127_14", "150_14"),
    *("210", "508", "509", "702", "853"),
)
SCHEMA = Schema(
    "ali-ccp",
    {
        **dict.fromkeys(ONE_ID, "id"),
        **{
            field: {"type": "ids", "weighted": True, "pooling": "sum"}
            for field in WEIGHTED
        },
    },
    {"click": "binary", "conversion": {"type": "binary", "after": "click"}},
    group="101",
)
_SKELETON = re.compile(r"[^,]*,([01]),([01]),([^,]+),(\d+),([^,]*)")
_COMMON = re.compile(r"([^,]+),(\d+),([^,]*)")
_FEATURE = re.compile(
    "([^\x01\x02\x03]+)\x02([^\x01\x02\x03]+)\x03([^\x01-\x03]+)"
)

_Features = dict[str, list[tuple[str, str]]]


def ali_ccp(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    rows: int | None = None,
    validation_share: float = 0.1,
) -> Dataset:
    r"""Prepares Alibaba's log of clicks and conversions as it is published.

    Fields with one id are ids; those of the user's interests (109_14, 110_14,
    127_14, 150_14), the item's intentions (210) and the combinations of both
    (508, 509, 702, 853) are lists of weighted ids, whose vectors are added up
    with their weights. A conversion comes after a click. Rankings are a
    user's (101). Fields of other names are left out.

    What is prepared is held in memory, and the whole log, 84 million examples
    with hundreds of features each, is not for a usual machine: `rows` takes
    the first ones. The form of the files is that of the public descriptions
    and of the code that reads them; the download was not at hand.

    Args:
        raw_dir: Folder with `sample_skeleton_train.csv`,
            `common_features_train.csv` and the same for `test`, or any of them
            with `.gz` behind it. A line of a skeleton has the example's
            number, click, conversion, the index of its common features, how
            many features follow and these; one of common features has the
            index, how many follow and these. Between features is `\x01`, in
            one `field\x02id\x03weight`.
        seed: Seed of the validation split.
        progress: Shows how many examples are read.
        rows: Maximum number of examples of training and validation together,
            and of the test, from the start of the files. Default: all.
        validation_share: Share of the training examples that are drawn for
            validation.

    Returns:
        The data set.

    Raises:
        DataError: A file is missing or broken.
        ValueError: An option is outside its bounds.

    References:
        Ma, Zhao, Huang, Wang, Hu, Zhu, Gai. Entire Space Multi-Task Model: An
        Effective Approach for Estimating Post-Click Conversion Rate. SIGIR
        2018 (the data set: tianchi.aliyun.com/dataset/408).
    """
    if rows is not None:
        check_count("rows", rows)
    tables = {
        part: _examples(raw_dir, part, rows, progress)
        for part in ("train", "test")
    }
    order = row_order(len(tables["train"]), None, seed)
    shares = {"validation": validation_share}
    splits = cut(tables["train"].iloc[order], shares, raw_dir)
    return Dataset(SCHEMA, {**splits, "test": tables["test"]})


def _examples(
    raw_dir: Path, part: str, rows: int | None, progress: Progress
) -> pd.DataFrame:
    """Reads a skeleton and what its examples have in common."""
    name = f"sample_skeleton_{part}.csv"
    file = find_file(raw_dir, name, f"{name}.gz")
    expected = "an example, click, conversion, an index, a count and features"
    read = islice(_lines(file, _SKELETON, expected), rows)
    indices, examples = [], []
    columns: dict[str, list[Any]] = {"click": [], "conversion": []}
    for line, (click, conversion, index, count, text) in progress.track(
        read, description=f"Reading {file.name}"
    ):
        columns["click"].append(float(click))
        columns["conversion"].append(float(conversion))
        indices.append(index)
        examples.append(_features(count, text, file, line))
    common = _common_features(raw_dir, part, set(indices), progress)
    examples = [
        {**common[index], **example}
        for index, example in zip(indices, examples, strict=True)
    ]
    for field in ONE_ID:
        ids = [[id for id, _ in row.get(field, [])] for row in examples]
        columns[field] = [first[0] if first else None for first in ids]
    for field in WEIGHTED:
        columns[field] = [
            [f"{id}:{weight}" for id, weight in row.get(field, [])]
            for row in examples
        ]
    return parse(pd.DataFrame(columns), SCHEMA.columns, file)


def _common_features(
    raw_dir: Path, part: str, indices: set[str], progress: Progress
) -> dict[str, _Features]:
    """Reads the common features with some indices, all of which are there."""
    name = f"common_features_{part}.csv"
    file = find_file(raw_dir, name, f"{name}.gz")
    common = {
        index: _features(count, text, file, line)
        for line, (index, count, text) in progress.track(
            _lines(file, _COMMON, "an index, a count and features"),
            description=f"Reading {file.name}",
        )
        if index in indices
    }
    if missing := indices - common.keys():
        raise DataError.at(
            file,
            "the common features of each example",
            f"none of index {min(missing)!r}",
        )
    return common


def _lines(
    file: Path, form: re.Pattern[str], expected: str
) -> Iterator[tuple[int, Sequence[str]]]:
    """The fields of the lines of a file, after their numbers."""
    with open_packed(file) as stream:
        for number, line in enumerate(stream, 1):
            text = line.decode("latin-1").rstrip("\r\n")
            match = form.fullmatch(text)
            if match is None:
                raise DataError.at(file, expected, shown(text), line=number)
            yield number, match.groups()


def _features(count: str, text: str, file: Path, line: int) -> _Features:
    """The ids of each field with their weights."""
    features: _Features = defaultdict(list)
    parts = text.split("\x01") if text else []
    for part in parts:
        match = _FEATURE.fullmatch(part)
        if match is None:
            raise DataError.at(
                file, "a field, an id and a weight", shown(part), line=line
            )
        field, id, weight = match.groups()
        features[field].append((id, weight))
    for field in ONE_ID:
        if len(features.get(field, [])) > 1:
            raise DataError.at(
                file,
                f"one id in the field {field}",
                f"{len(features[field])} of them",
                line=line,
            )
    if len(parts) != int(count):
        raise DataError.at(
            file, f"{count} features", f"{len(parts)}", line=line
        )
    return features
