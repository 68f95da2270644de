from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd


@dataclass(frozen=True, eq=False)
class IdUses:
    """When and how often ids occurred, of those that have a number and others.

    Days are counted: each training split is one, the first is day 1.

    Attributes:
        day: The last day; 0 before the first.
        last: The last day on which each id with a number occurred, int32
            `(known,)`, in the order of the numbers.
        unnumbered: Ids without a number that were counted, ascending.
        ids: For each count, the place of its id: that among those with a
            number, counted from 0, or behind them that among these. Int32
            `(counts,)`.
        days: Its day, int32 `(counts,)`.
        counts: How often the id occurred on that day, int64 `(counts,)`.
    """

    day: int
    last: npt.NDArray[np.int32]
    unnumbered: pd.Index
    ids: npt.NDArray[np.int32]
    days: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]

    @classmethod
    def uncounted(cls, num_known: int) -> Self:
        """Returns that nothing was counted up to day 0, of some known ids.

        Args:
            num_known: How many ids have a number.
        """
        none = np.zeros(0, np.int32)
        last = np.zeros(num_known, np.int32)
        return cls(0, last, pd.Index([]), none, none, np.zeros(0, np.int64))

    def is_consistent(self, num_known: int) -> bool:
        """Returns whether a file holds what was written.

        Args:
            num_known: How many ids have a number.
        """
        shape = self.ids.shape
        in_order = [
            self.last.shape == (num_known,),
            len(shape) == 1,
            shape == self.days.shape == self.counts.shape,
            all(
                array.dtype.kind == "i"
                for array in (self.last, self.ids, self.days, self.counts)
            ),
            self.unnumbered.is_unique,
        ]
        if not all(in_order):
            return False
        last = self.last.max(initial=0), self.days.max(initial=0)
        place = self.ids.min(initial=0), self.ids.max(initial=-1)
        most = num_known + len(self.unnumbered)
        return max(last) <= self.day and 0 <= place[0] <= place[1] + 1 <= most
