from typing import TYPE_CHECKING
from typing import Protocol

import numpy as np
import numpy.typing as npt

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.columns.kind import Kind

if TYPE_CHECKING:
    import pandas as pd

LARGEST_WEIGHT = 1e15  # Sums of squares of larger ones overflow in float32.
_EXPECTED = f"a number from 0 to {LARGEST_WEIGHT:.0e}"


class RowWeight(Kind):
    """Weight of a row in every loss and metric; none is missing."""

    type = "weight"

    def check(self, column: "pd.Series", file: object) -> "pd.Series":
        weights = as_numbers(column, file, _EXPECTED)
        within = (weights >= 0) & (weights <= LARGEST_WEIGHT)
        refuse(column, ~within, _EXPECTED, file)  # NaN too.
        return weights


class Rows(Protocol):
    """Rows whose columns are had by name, as those of a table or of images."""

    def __getitem__(self, name: str, /) -> "pd.Series": ...


def weights_of(
    rows: Rows, weight: str | None
) -> npt.NDArray[np.float64] | None:
    """Returns the weights of rows, float64 `(rows,)`.

    Args:
        rows: The rows.
        weight: Column with the weights.

    Returns:
        `None` where no column has them, and each row counts once.
    """
    return None if weight is None else rows[weight].to_numpy(np.float64)
