"""Columns that say how a log came about."""

from typing import TYPE_CHECKING

import numpy as np

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.columns.kind import Kind

if TYPE_CHECKING:
    import pandas as pd


LARGEST_POSITION = 1000
_POSITION = f"a whole number from 1 to {LARGEST_POSITION}, or nothing"
_PROPENSITY = "a number above 0 and up to 1, or nothing"


class RowPosition(Kind):
    """Where a row was shown, 1 for the first place; missing if not shown."""

    type = "position"

    def check(self, column: "pd.Series", file: object) -> "pd.Series":
        positions = as_numbers(column, file, _POSITION)
        within = (positions >= 1) & (positions <= LARGEST_POSITION)
        whole = within & (positions == np.floor(positions))
        refuse(column, ~whole & positions.notna(), _POSITION, file)
        return positions


class RowPropensity(Kind):
    """Probability that the log shows a row; missing if it was not shown."""

    type = "propensity"

    def check(self, column: "pd.Series", file: object) -> "pd.Series":
        propensities = as_numbers(column, file, _PROPENSITY)
        within = (propensities > 0) & (propensities <= 1)
        refuse(column, ~within & propensities.notna(), _PROPENSITY, file)
        return propensities
