"""A split of a data set, and facts about it before training."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Protocol
from typing import overload

import numpy as np

from recsys.data.times import TimeRange
from recsys.data.times import shown_times
from recsys.errors.shown import printable
from recsys.features.id_values import Unseen
from recsys.tasks import Task

if TYPE_CHECKING:
    import pandas as pd


class Split(Protocol):
    """Rows of a data set: a table, or images with their labels.

    By the name of a task, it has its column, with a `to_numpy` method; by a
    list of names, a table of these columns in memory.
    """

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, columns: str, /) -> Any: ...

    @overload
    def __getitem__(self, columns: list[str], /) -> Any: ...

    def sample(self, n: int, *, random_state: int) -> Any:
        """Returns `n` different rows, always the same for a random state."""


@dataclass(frozen=True)
class SplitSummary:
    """Facts about a split before training.

    Attributes:
        rows: Number of rows.
        times: The first and the last time, where the time is known.
        unseen: For each id feature, how much of it training does not know;
            nothing of the training split itself.
        notes: Further lines, on how it was made.
    """

    rows: int
    times: TimeRange | None = None
    unseen: Mapping[str, Unseen] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def lines(self, split: str) -> Iterator[str]:
        r"""Yields the lines that a terminal shows.

        Example:
        >>> hours = (1_735_689_600, 1_735_776_000)
        >>> unseen = {"user": Unseen(40, 0.05, 0.1)}
        >>> summary = SplitSummary(60, hours, unseen)
        >>> print(*summary.lines("test"), sep="\n")
        test: 60 rows, times from 2025-01-01 00:00:00 to 2025-01-02 00:00:00
          user: 5.0 % of 40 ids are not in training, with 10.0 % of the rows
        """
        times = ""
        if self.times:
            times = "times from {} to {}".format(*shown_times(self.times))
        yield ", ".join(filter(None, [f"{split}: {self.rows:,} rows", times]))
        yield from (f"  {printable(note)}" for note in self.notes)
        for name, unseen in self.unseen.items():
            ids, rows = unseen.share_of_ids, unseen.share_of_rows
            yield (
                f"  {printable(name)}: {100 * ids:.1f} % of {unseen.ids:,} ids "
                f"are not in training, with {100 * rows:.1f} % of the rows"
            )


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
