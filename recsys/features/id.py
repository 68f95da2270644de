from typing import Any

import numpy as np
import pandas as pd

from recsys.column_values import LARGEST_EXACT
from recsys.column_values import as_strings
from recsys.column_values import refuse
from recsys.features.feature import Feature


class Id(Feature):
    """Integers or strings of which only equality counts.

    A column is integers (`int64`, or `Int64` where some are missing) or
    strings: floats that are whole numbers become integers, a column that mixes
    integers and strings becomes strings. An empty string is missing.
    """

    type = "id"

    def check(self, column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
        kind = pd.api.types.infer_dtype(column, skipna=True)
        if kind in ("integer", "empty"):
            return _integers(column)
        if kind in ("floating", "mixed-integer-float"):
            floats = column.astype("float64")
            whole = (floats % 1 == 0) & (floats.abs() <= LARGEST_EXACT)
            fractions = ~whole & floats.notna()
            refuse(column, fractions, "an integer or a string", file)
            return _integers(floats)
        if kind == "string":
            return column.where(column != "")
        allowed = column.map(_is_id).astype(bool) | column.isna()
        refuse(column, ~allowed, "an integer or a string", file)
        return as_strings(column)


def _is_id(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int | np.integer | str)


def _integers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    integers = column.astype("Int64")
    return integers if column.hasnans else integers.astype("int64")
