from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from recsys.features.unseen import Unseen
from recsys.shown import printable


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
