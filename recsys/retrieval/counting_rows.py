from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.data.schema import Schema
from recsys.data.streaming.frames import frames_of
from recsys.tasks import Binary
from recsys.tasks import Task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

ALL_ROWS = "all"


def row_weights(
    labels: Mapping[str, np.ndarray],
    label: str | None,
    weights: np.ndarray | None,
    num_rows: int,
) -> npt.NDArray[np.float32]:
    """Returns how much each row counts for retrieval, float32 `(rows,)`.

    Args:
        labels: For each task, a float array `(rows,)`, NaN where missing.
        label: The binary task whose label is 1 in rows that count; all rows
            do with `"all"` or `None`.
        weights: Array `(rows,)` of the weights of rows; `None` where each row
            counts once.
        num_rows: How many rows there are.

    Example:
    >>> watched = {"watch": np.array([1.0, 0.0, np.nan])}
    >>> row_weights(watched, "watch", np.array([2.0, 2.0, 2.0]), 3).tolist()
    [2.0, 0.0, 0.0]
    """
    counts = np.ones(num_rows, np.float32)
    if label not in (None, ALL_ROWS):
        counts = (labels[str(label)] == 1).astype(np.float32)
    if weights is not None:
        counts = counts * np.asarray(weights, np.float32)
    return counts


def counting_rows(
    split: Any,
    schema: Schema,
    tasks: Mapping[str, Task],
    label: str | None,
) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """Yields the rows that count for retrieval, with how much each does.

    Args:
        split: The split, in memory or read part by part.
        schema: What its columns mean.
        tasks: The tasks with their kind.
        label: The task that says which rows count.
    """
    for frame in frames_of(split):
        labels = labels_of(frame, tasks)
        weights = row_weights(
            labels, label, weights_of(frame, schema.row_weights), len(frame)
        )
        counting = weights > 0
        yield frame[counting], weights[counting]


def counting_label(given: str | None, schema: Schema) -> str:
    """Returns the task that says which rows count for retrieval, or "all".

    Args:
        given: The one that is asked for; unless there is any, the first
            binary task, and all rows where there is none.
        schema: What the columns mean.

    Raises:
        ValueError: There is no such binary task.
    """
    binary = [
        name for name, kind in schema.tasks.items() if isinstance(kind, Binary)
    ]
    label = given or (binary[0] if binary else ALL_ROWS)
    if label not in (*binary, ALL_ROWS):
        raise ValueError(
            f"`retrieval_label` must be one of the binary tasks {binary} or "
            f"'{ALL_ROWS}'. Received: retrieval_label={label!r}"
        )
    return label
