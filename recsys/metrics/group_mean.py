from dataclasses import dataclass
from math import fsum

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class GroupMean:
    """A metric that is the weighted mean of its values of the groups.

    Attributes:
        values: The value of each group, float64 `(G,)`; 0 where the group has
            none.
        weights: The weight of each value, float64 `(G,)`; 0 where the group
            has none.
        rows: The weight of each group's rows, float64 `(G,)`.
    """

    values: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    rows: npt.NDArray[np.float64]

    @property
    def value(self) -> float | None:
        """The mean, `None` where no group has a value."""
        # A sum that is rounded once depends on no order of the groups.
        total = fsum(self.weights)
        return fsum(self.values * self.weights) / total if total else None

    @property
    def num_groups(self) -> int:
        """Number of groups with a value."""
        return int(np.count_nonzero(self.weights))

    @property
    def coverage(self) -> float | None:
        """The share of the rows, by weight, whose groups have a value."""
        total = fsum(self.rows)
        return fsum(self.rows[self.weights > 0]) / total if total else None
