from typing import TYPE_CHECKING

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.columns.kind import Kind

if TYPE_CHECKING:
    import pandas as pd

_EXPECTED = "a number above 0 and up to 1, or nothing"


class RowPropensity(Kind):
    """Probability that the log shows a row; missing if it was not shown."""

    type = "propensity"

    def check(self, column: "pd.Series", file: object) -> "pd.Series":
        propensities = as_numbers(column, file, _EXPECTED)
        within = (propensities > 0) & (propensities <= 1)
        refuse(column, ~within & propensities.notna(), _EXPECTED, file)
        return propensities
