from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys import DataError
from recsys.measuring.cuts import cuts


def rows_of(column: "pd.Series[Any]", encode: Any = None) -> dict[str, Any]:
    found = cuts("x", column, encode)
    every = np.stack(list(found.values())) if found else np.zeros((1, 0))
    assert (every.sum(axis=0) == 1).all()
    return {cut: np.flatnonzero(rows).tolist() for cut, rows in found.items()}


def test_numbers_at_their_quartiles() -> None:
    column = pd.Series([5.0, 1, 2, 3, np.nan, 4], index=range(10, 16))
    assert rows_of(column) == {
        "up to 2": [1, 2],
        "2 to 3": [3],
        "3 to 4": [5],
        "above 4": [0],
        "missing": [4],
    }


def test_numbers_that_are_all_the_same() -> None:
    assert rows_of(pd.Series([7.0, 7.0])) == {"up to 7": [0, 1]}


def test_borders_that_are_close_are_told_apart() -> None:
    found = rows_of(pd.Series([1e6 + 1, 1e6 + 2, 1e6 + 3, 1e6 + 4, 1e6 + 5]))
    assert next(iter(found)) == "up to 1000002.0"
    assert len(found) == 4


def test_an_id_may_be_called_missing() -> None:
    found = rows_of(pd.Series(["missing", None]))
    assert found == {"'missing'": [0], "missing": [1]}


def test_values_from_the_most_frequent_and_the_rest_together() -> None:
    ids = [number for number in range(1, 12) for _ in range(number)]
    found = rows_of(pd.Series([*ids, None], dtype="Int64"))
    assert list(found) == [*map(str, range(11, 3, -1)), "3 others", "missing"]
    assert found["3 others"] == [0, 1, 2, 3, 4, 5]
    assert found["missing"] == [66]


def test_more_values_and_large_integers() -> None:
    """Those that a float would make one have a cut each."""
    column = pd.Series([2**53, 2**53 + 1, 2**53 + 1, None], dtype="Int64")
    found = cuts("x", column, most_values=1)
    assert list(found) == ["9007199254740993", "1 others", "missing"]
    ids = pd.Series([*range(10), *range(10)])
    assert len(cuts("x", ids, most_values=10)) == 10


def test_unknown_ids_are_apart_from_missing_ones() -> None:
    found = rows_of(
        pd.Series(["a", "new", None, "a"]), lambda ids: (ids == "a").to_numpy()
    )
    assert found == {"'a'": [0, 3], "unknown": [1], "missing": [2]}


@pytest.mark.parametrize("dtype", [float, object])
def test_no_row_no_cut(dtype: Any) -> None:
    assert rows_of(pd.Series([], dtype=dtype)) == {}
    assert rows_of(pd.Series([None], dtype=dtype)) == {"missing": [0]}


def test_lists_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"single value per row.*'x', which has l"
    ):
        cuts("x", pd.Series([["a"], []]), lambda ids: 1 / 0)
