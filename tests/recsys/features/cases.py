"""A column for each kind of feature, for the tests that all of them share."""

import pandas as pd

from recsys.features import Feature
from recsys.features import Id
from recsys.features import Number

CASES: dict[str, tuple[Feature, "pd.Series[object]"]] = {
    "id of integers": (Id(), pd.Series([7, 9, 7, -3, None], dtype="Int64")),
    "id of strings": (Id(), pd.Series(["b", "a", None, "é", "7"])),
    "number": (Number(), pd.Series([1.0, None, -3.5, 1e6, 2.0])),
}
