from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import pandas as pd

from recsys.shown import printable


@dataclass(frozen=True)
class Unseen:
    """How many ids of a feature a split has that training does not.

    Attributes:
        ids: How many different ids the split has.
        share_of_ids: Share of them that are not in the training split.
        share_of_rows: Share of the rows that have one of these.
    """

    ids: int
    share_of_ids: float
    share_of_rows: float

    @classmethod
    def of(cls, column: "pd.Series[Any]", train: "pd.Series[Any]") -> "Unseen":
        """Compares a column of ids with that of the training split.

        Example:
        >>> Unseen.of(pd.Series([7, 7, 7, 8]), pd.Series([8, 9]))
        Unseen(ids=2, share_of_ids=0.5, share_of_rows=0.75)
        """
        given = column.dropna()
        unseen = given[~given.isin(train)]
        num_ids = given.nunique()
        return cls(
            num_ids,
            unseen.nunique() / max(1, num_ids),
            len(unseen) / max(1, len(column)),
        )


@dataclass(frozen=True)
class SplitSummary:
    """What there is to know about a split before training.

    Attributes:
        rows: Number of rows.
        times: The first and the last time, where the time is known.
        unseen: For each id feature, how much of it training does not know;
            nothing of the training split itself.
    """

    rows: int
    times: tuple[Any, Any] | None = None
    unseen: Mapping[str, Unseen] = field(default_factory=dict)

    def lines(self, split: str) -> Iterator[str]:
        r"""Yields the lines that a terminal shows.

        Example:
        >>> summary = SplitSummary(60, (7, 9), {"user": Unseen(40, 0.05, 0.1)})
        >>> print(*summary.lines("test"), sep="\n")
        test: 60 rows, times from 7 to 9
          user: 5.0 % of 40 ids are not in training, with 10.0 % of the rows
        """
        times = "times from {} to {}".format(*self.times) if self.times else ""
        yield ", ".join(filter(None, [f"{split}: {self.rows:,} rows", times]))
        for name, unseen in self.unseen.items():
            ids, rows = unseen.share_of_ids, unseen.share_of_rows
            yield (
                f"  {printable(name)}: {100 * ids:.1f} % of {unseen.ids:,} ids "
                f"are not in training, with {100 * rows:.1f} % of the rows"
            )
