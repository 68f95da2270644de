from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from recsys.data.columns import parse
from recsys.data.dataset import Dataset
from recsys.data.error import DataError
from recsys.data.schema import Schema


def dataset_from_table(
    rows: pd.DataFrame,
    schema: Schema,
    validation: float = 0.15,
    test: float = 0.15,
    time: str | None = None,
    seed: int = 0,
) -> Dataset:
    """Makes a data set of one table, every value checked.

    Args:
        rows: The table, with the schema's columns; others are left out.
        schema: What the columns mean.
        validation: Share of the rows that are for validation. Defaults to
            0.15.
        test: Share of the rows that are for the test. Defaults to 0.15.
        time: Column by whose order the rows are split: the latest are the
            test split, those before them the validation split. With `None`
            (default) the splits are drawn.
        seed: Seed of the draw. Defaults to 0.

    Returns:
        The data set; its `write` makes a data folder of it.

    Raises:
        DataError: A column or a value is missing or wrong, or there are too
            few rows.
        ValueError: A share is outside its bounds.

    Example:
    >>> rows = pd.DataFrame({"user": range(20), "click": [0, 1] * 10})
    >>> schema = Schema("logs", {"user": "id"}, {"click": "binary"})
    >>> dataset = dataset_from_table(rows, schema, time="user")
    >>> dataset.split("test")
       user  click
    0    17    1.0
    1    18    0.0
    2    19    1.0
    """
    parsed = parse(rows, schema.features | schema.tasks, schema.name)
    shares = {"validation": validation, "test": test}
    order = row_order(rows, time, seed, schema.name)
    return Dataset(schema, cut(parsed.iloc[order], shares, schema.name))


def row_order(
    rows: pd.DataFrame, time: str | None, seed: int, source: object
) -> np.ndarray:
    """Returns the positions of a table's rows by time, or in a drawn order.

    Args:
        rows: The table.
        time: Column of numbers, dates, or texts that sort as what they say;
            `None` for a drawn order.
        seed: Seed of the draw.
        source: Where the table comes from, for the error message.

    Raises:
        DataError: There is no such column, or it cannot be sorted.
    """
    if time is None:
        return np.random.default_rng(seed).permutation(len(rows))
    if time not in rows.columns:
        raise DataError.at(
            source, f"a column {time!r}", f"the columns {list(rows.columns)}"
        )
    column = rows[time].reset_index(drop=True)
    if column.hasnans:
        raise DataError.at(
            source,
            "a time in each row",
            "nothing",
            column=time,
            row=int(np.flatnonzero(column.isna())[0]) + 1,
        )
    try:
        return column.sort_values(kind="stable").index.to_numpy()
    except TypeError as error:
        raise DataError.at(
            source, "values that can be sorted", str(error), column=time
        ) from error


def cut(
    rows: pd.DataFrame, shares: Mapping[str, float], source: object
) -> dict[str, pd.DataFrame]:
    """Cuts shares off the end of a table.

    Args:
        rows: The table.
        shares: Splits with their shares of the rows, as they follow after the
            training split.
        source: Where the table comes from, for the error message.

    Returns:
        The training split and the others by name, rows numbered from 0.

    Raises:
        DataError: There are too few rows for a row in each split.
        ValueError: A share is not between 0 and 1, or their sum is not.

    Example:
    >>> rows = pd.DataFrame({"user": range(10)})
    >>> splits = cut(rows, {"validation": 0.1, "test": 0.2}, "rows")
    >>> [len(splits[name]) for name in ("train", "validation", "test")]
    [7, 1, 2]
    """
    sizes = list(shares.values())
    if not all(size > 0 for size in sizes) or not sum(sizes) < 1:
        raise ValueError(
            f"The shares of {' and '.join(shares)} must be positive, and less "
            f"than 1 together. Received: {dict(shares)}"
        )
    starts = (1 - sum(sizes[first:]) for first in range(len(sizes)))
    edges = [0, *(round(start * len(rows)) for start in starts), len(rows)]
    if any(start >= end for start, end in pairwise(edges)):
        raise DataError.at(
            source,
            f"enough rows for {1 + len(sizes)} splits",
            f"{len(rows)} rows",
        )
    return {
        name: rows.iloc[start:end].reset_index(drop=True)
        for name, (start, end) in zip(
            ("train", *shares), pairwise(edges), strict=True
        )
    }
