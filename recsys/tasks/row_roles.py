from dataclasses import dataclass
from dataclasses import replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.tasks.row_weight import Weighing
from recsys.tasks.row_weight import weights_of

DEFAULT_K = 10


@dataclass(frozen=True, eq=False)
class RowRoles:
    """Weights and groups of rows, for metrics.

    Attributes:
        weights: Float64 array `(rows,)`, or `None` where each counts once.
        groups: Series `(rows,)` of what the rows belong to, missing where
            they belong to nothing; `None` where rows have no groups.
        k: How many rows of a group a ranking shows.
        resamples: How often the groups, or where there are none the rows, are
            drawn anew for intervals of metrics; 0 (default) for none.
    """

    weights: np.ndarray | None = None
    groups: pd.Series | None = None
    k: int = DEFAULT_K
    resamples: int = 0

    @property
    def has_groups(self) -> bool:
        """True if rows may belong to groups."""
        return self.groups is not None

    @property
    def units(self) -> np.ndarray | None:
        """Units of resampling for intervals, int array `(rows,)`.

        Each group is one, and so is each row that belongs to none. `None`
        where each row is, or where nothing is drawn.
        """
        if self.groups is None or not self.resamples:
            return None
        units, names = pd.factorize(self.groups)
        alone = units < 0
        units[alone] = len(names) + np.arange(alone.sum())
        return units

    @classmethod
    def of(
        cls, rows: pd.DataFrame, weight: Weighing, group: str | None, k: int
    ) -> Self:
        """Reads the roles that columns of a table have.

        Args:
            rows: The table.
            weight: What says what rows count; `None` for nothing.
            group: Column with the groups; `None` for none.
            k: How many rows of a group a ranking shows.
        """
        groups = None if group is None else rows[group]
        return cls(weights_of(rows, weight), groups, k)

    def of_rows(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Returns the roles of some rows.

        Args:
            chosen: Boolean array `(rows,)`.
        """
        return replace(
            self,
            weights=None if self.weights is None else self.weights[chosen],
            groups=None if self.groups is None else self.groups[chosen],
        )


ALIKE = RowRoles()  # Each row counts once and belongs to nothing.
