from typing import Any

import pandas as pd

from recsys.column_values import as_numbers
from recsys.column_values import refuse
from recsys.tasks.task import Task


class Binary(Task):
    """Labels 0 and 1, `float64` with NaN where missing."""

    type = "binary"

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        expected = "0, 1 or nothing"
        labels = as_numbers(column, file, expected)
        refuse(column, ~labels.isin((0, 1)) & labels.notna(), expected, file)
        return labels
