from dataclasses import dataclass
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


@dataclass(frozen=True)
class RowWeights:
    """Columns that say what rows count.

        w / max(p, least),  0 where p is missing

    with the weight w of a row and the propensity p with which it was logged.
    Losses and metrics divide by the sum of the weights, so that the result is
    the self-normalized estimate of a log in which each row has the same
    propensity.

    Attributes:
        weight: Column with the weights; each row has weight 1 with `None`.
        propensity: Column with the propensities.
        least: Smaller propensities count as this one.

    References:
        Schnabel, Swaminathan, Singh, Chandak, Joachims. Recommendations as
        Treatments: Debiasing Learning and Evaluation. ICML 2016, sections 3.2
        and 4.
    """

    weight: str | None
    propensity: str
    least: float

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [n for n in (self.weight, self.propensity) if n is not None]


# What says what rows count: a column with weights, or one with propensities.
Weighing = str | RowWeights | None


def weights_of(
    rows: Rows, weighing: Weighing
) -> npt.NDArray[np.float64] | None:
    """Returns the weights of rows, float64 `(rows,)`.

    Args:
        rows: The rows.
        weighing: What says so.

    Returns:
        `None` where nothing does, and each row counts once.
    """
    if weighing is None:
        return None
    if isinstance(weighing, str):
        return rows[weighing].to_numpy(np.float64)
    propensities = rows[weighing.propensity].to_numpy(np.float64)
    shown = ~np.isnan(propensities)
    weights = np.zeros(len(propensities))
    weights[shown] = 1 / np.maximum(propensities[shown], weighing.least)
    given = weights_of(rows, weighing.weight)
    return weights if given is None else weights * given


def columns_of(weighing: Weighing) -> list[str]:
    """Returns the columns that `weights_of` reads."""
    if isinstance(weighing, RowWeights):
        return weighing.columns
    return [] if weighing is None else [weighing]
