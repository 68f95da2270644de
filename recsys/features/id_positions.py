"""Positions of ids among others, in any form."""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_integer_dtype
from pyarrow import compute

from recsys.columns.column_values import as_strings
from recsys.features.id_values import LARGEST_INTEGER
from recsys.features.id_values import as_ids


def _up_to(largest: int) -> str:
    """A pattern of the integers from 1 to a larger one, as Python has them."""
    digits = str(largest)
    patterns = [rf"[1-9][0-9]{{0,{len(digits) - 2}}}", digits]
    for place, digit in enumerate(digits):
        least = 0 if place else 1
        if int(digit) > least:
            rest = f"[0-9]{{{len(digits) - place - 1}}}"
            smaller = f"[{least}-{int(digit) - 1}]"
            patterns.append(digits[:place] + smaller + rest)
    return "|".join(patterns)


# A text that is an integer of 64 bits, in the words of RE2, which Arrow,
# TensorFlow and onnxruntime have, and of Python.
INTEGER_TEXT = f"(?:0|-?(?:{_up_to(LARGEST_INTEGER)}))"


def id_positions(column: pd.Series, known: pd.Index) -> np.ndarray:
    """Returns where each value of a column stands among ids.

    Args:
        column: Values as `as_ids` takes them, of any type.
        known: Different ids, integers or texts, as `as_ids` has them.

    Returns:
        Integer array `(rows,)`, -1 for what is missing or not known.

    Raises:
        DataError: A value is no id.

    Example:
    >>> id_positions(pd.Series(["8", "007", None]), pd.Index([7, 8])).tolist()
    [1, -1, -1]
    """
    ids = as_ids(column, "ids")
    if not is_integer_dtype(known):
        texts = as_strings(ids) if is_integer_dtype(ids) else ids
        return known.get_indexer(pd.Index(texts))
    rows, integers = integers_among(ids)
    positions = np.full(len(ids), -1, np.intp)
    positions[rows] = known.get_indexer(pd.Index(integers))
    return positions


def integers_among(
    ids: pd.Series,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Finds the integers among ids, those that an `int64` column would hold.

    Args:
        ids: Ids as `as_ids` returns them.

    Returns:
        Which rows they are in, boolean `(rows,)`, and they, int64.
    """
    if is_integer_dtype(ids):
        rows = ids.notna().to_numpy()
        return rows, ids[rows].to_numpy("int64")
    column = pa.chunked_array([pa.array(ids, from_pandas=True)])
    column = column.cast(pa.large_string())
    matching = compute.match_substring_regex(column, f"^{INTEGER_TEXT}$")
    rows = matching.fill_null(False).to_numpy()
    return rows, column.filter(rows).cast(pa.int64()).to_numpy()
