from typing import Any

import pandas as pd

from recsys.column_values import as_numbers
from recsys.column_values import refuse
from recsys.tasks.task import Task

LARGEST_LABEL = 1e15  # Sums of squares of larger ones overflow in float32.


class Regression(Task):
    """Numbers up to 1e15 as labels, `float64` with NaN where missing."""

    type = "regression"
    of_images = False

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        labels = as_numbers(column, file)
        too_large = labels.abs() > LARGEST_LABEL
        expected = f"a number of at most {LARGEST_LABEL:.0e} in size"
        refuse(column, too_large, expected, file)
        return labels
