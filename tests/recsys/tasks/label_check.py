from typing import Any

import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data.columns import parse
from recsys.tasks import Task


def checked(values: Any, kind: Task, dtype: Any = None) -> "pd.Series[Any]":
    """A column of labels as a table has it, checked."""
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
    return parse(frame, {"x": kind}, "a.csv")["x"]


def refusal(values: Any, kind: Task, dtype: Any = None) -> str:
    """What is said of a column of labels that is wrong."""
    with pytest.raises(DataError) as caught:
        checked(values, kind, dtype)
    return str(caught.value)
