from typing import TYPE_CHECKING

import numpy as np

from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import refuse
from recsys.columns.kind import Kind

if TYPE_CHECKING:
    import pandas as pd

LARGEST_POSITION = 1000
_EXPECTED = f"a whole number from 1 to {LARGEST_POSITION}, or nothing"


class RowPosition(Kind):
    """Where a row was shown, 1 for the first place; missing if not shown."""

    type = "position"

    def check(self, column: "pd.Series", file: object) -> "pd.Series":
        positions = as_numbers(column, file, _EXPECTED)
        within = (positions >= 1) & (positions <= LARGEST_POSITION)
        whole = within & (positions == np.floor(positions))
        refuse(column, ~whole & positions.notna(), _EXPECTED, file)
        return positions
