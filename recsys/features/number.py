from typing import Any

import pandas as pd

from recsys.column_values import as_numbers
from recsys.features.feature import Feature


class Number(Feature):
    """Numbers, `float64` with NaN where missing."""

    type = "number"

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        return as_numbers(column, file)
