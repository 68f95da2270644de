from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from recsys.data.schema import Schema
from recsys.data.streaming.frames import frames_of
from recsys.retrieval.row_weights import ALL_ROWS
from recsys.retrieval.row_weights import row_weights
from recsys.tasks import Binary
from recsys.tasks import Task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of


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
