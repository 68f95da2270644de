from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from recsys.data.columns import parse
from recsys.data.dataset import Dataset
from recsys.data.schema import Schema
from recsys.data.shares import share_borders
from recsys.data.times import TimeRange
from recsys.data.times import parse_times
from recsys.errors import DataError


def dataset_from_table(
    rows: pd.DataFrame,
    schema: Schema,
    validation: float = 0.15,
    test: float = 0.15,
    time: str | None = None,
    seed: int = 0,
    time_format: str | None = None,
    split: str | None = None,
) -> Dataset:
    """Makes a data set of one table, every value checked.

    Args:
        rows: The table, with the schema's columns; others are left out.
        schema: What the columns mean.
        validation: Share of the rows that are for validation. Defaults to
            0.15.
        test: Share of the rows that are for the test. Defaults to 0.15.
        time: Column with when each row was: numbers, dates, or texts in ISO
            8601. That of the schema unless given.
        seed: Seed of the draw. Defaults to 0.
        time_format: What a time looks like in a text that is not in ISO 8601,
            in the directives of `strptime`, such as `"%d/%m/%Y %H:%M"`.
        split: `"time"` for the latest rows as the test split and those before
            them as the validation split, or `"random"` for splits that are
            drawn. By time where there is one, unless given.

    Returns:
        The data set; its `write` makes a data folder of it, and its `summary`
        tells the range of time of each split and its share of ids that are
        not in the training split.

    Raises:
        DataError: A column or a value is missing or wrong, or there are too
            few rows.
        ValueError: A share is outside its bounds, or the format of the times
            is none, or a split by time has no time.

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
    time = schema.time if time is None else time
    by_time = is_by_time(split, time)
    times = read_times(rows, time, schema.name, time_format)
    parsed = parse(with_times(rows, schema, times), schema.columns, schema.name)
    shares = {"validation": validation, "test": test}
    order = row_order(len(rows), times if by_time else None, seed)
    splits = cut(parsed.iloc[order], shares, schema.name)
    return Dataset(schema, splits, time_ranges(splits, order, times))


def is_by_time(split: str | None, time: str | None) -> bool:
    """Tells whether splits are taken off by time, and not drawn.

    Args:
        split: `"time"`, `"random"`, or `None` for by time if there is one.
        time: Column with the times; `None` for none.

    Raises:
        ValueError: `split` is another, or "time" without a column.

    Example:
    >>> is_by_time(None, "timestamp"), is_by_time("random", "timestamp")
    (True, False)
    """
    if split not in (None, "time", "random"):
        raise ValueError(
            f"`split` must be time or random. Received: split={split!r}"
        )
    if split == "time" and time is None:
        raise ValueError(
            "`split` can only be time if `time` names a column, as an "
            "option or in the schema. Received: split='time'"
        )
    return time is not None and split != "random"


def with_times(
    rows: pd.DataFrame, schema: Schema, times: pd.Series | None
) -> pd.DataFrame:
    """Returns a table in which what the schema names as time has been read.

    A feature stays as it is: what form it has, its kind says.

    Args:
        rows: The table.
        schema: What the columns mean.
        times: The rows' times as `read_times` returns them.
    """
    if times is None or schema.time in (None, *schema.features):
        return rows
    return rows.assign(**{str(schema.time): times.array})


def read_times(
    rows: pd.DataFrame,
    time: str | None,
    source: object,
    time_format: str | None = None,
) -> pd.Series | None:
    """Returns the times of a table's rows as `parse_times` does.

    Args:
        rows: The table.
        time: Name of the column; `None` for no times.
        source: Where the table comes from, for the error message.
        time_format: What a text looks like; `None` for ISO 8601.

    Raises:
        DataError: There is no such column, or a time is missing or wrong.
        ValueError: There is a format without a column, or it is none.
    """
    if time is None:
        if time_format is not None:
            raise ValueError(
                "`time_format` must come with `time`, the column that it is "
                f"about. Received: time_format={time_format!r}"
            )
        return None
    if time not in rows.columns:
        raise DataError.at(
            source, f"a column {time!r}", f"the columns {list(rows.columns)}"
        )
    return parse_times(rows[time], source, time_format)


def row_order(num_rows: int, times: pd.Series | None, seed: int) -> np.ndarray:
    """Returns the positions of rows by time, or in a drawn order.

    Args:
        num_rows: How many rows there are.
        times: Their times as `read_times` returns them; `None` for a drawn
            order.
        seed: Seed of the draw.

    Example:
    >>> row_order(3, pd.Series([7, 9, 8]), seed=0).tolist()
    [0, 2, 1]
    """
    if times is None:
        return np.random.default_rng(seed).permutation(num_rows)
    return times.sort_values(kind="stable").index.to_numpy()


def time_ranges(
    splits: Mapping[str, pd.DataFrame],
    order: np.ndarray,
    times: pd.Series | None,
) -> dict[str, TimeRange]:
    """Returns the first and the last time of the splits of one table.

    Args:
        splits: The splits as `cut` returns them.
        order: The order of the rows that were cut.
        times: The times of the rows; `None` where there are none.
    """
    if times is None:
        return {}
    ends = np.cumsum([len(split) for split in splits.values()])
    parts = np.split(order, ends[:-1])
    return {
        name: (times[part].min(), times[part].max())
        for name, part in zip(splits, parts, strict=True)
    }


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
    starts = [round(start * len(rows)) for start in share_borders(shares)]
    edges = [0, *starts, len(rows)]
    if any(start >= end for start, end in pairwise(edges)):
        raise DataError.at(
            source,
            f"enough rows for {1 + len(shares)} splits",
            f"{len(rows)} rows",
        )
    return {
        name: rows.iloc[start:end].reset_index(drop=True)
        for name, (start, end) in zip(
            ("train", *shares), pairwise(edges), strict=True
        )
    }
