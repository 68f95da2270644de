from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from recsys.data.split import Split
from recsys.tasks import Task

if TYPE_CHECKING:
    import pandas as pd


def described_labels(split: Split, tasks: Mapping[str, Task]) -> dict[str, str]:
    """Says of each task how many rows have a label, and of what size.

    Args:
        split: A training split in memory, or its labels.
        tasks: The tasks with their kind.

    Example:
    >>> import pandas as pd
    >>> from recsys.tasks import Binary
    >>> labels = pd.DataFrame({"buy": [1.0, 0.0, 0.0, float("nan")]})
    >>> described_labels(labels, {"buy": Binary()})
    {'buy': '75.0 % labelled, mean 0.3333'}
    """
    return {task: _described(split[task], kind) for task, kind in tasks.items()}


def _described(column: "pd.Series", kind: Task) -> str:
    labels = column.to_numpy().astype(np.float64)
    known = labels[~np.isnan(labels)]
    if not len(known):
        return "no label"
    best = kind.constant(known, num_classes=None)  # As many as labels tell.
    size = (
        f"{len(best)} classes" if isinstance(best, list) else f"mean {best:.4g}"
    )
    return f"{len(known) / len(labels):.1%} labelled, {size}".replace("%", " %")
