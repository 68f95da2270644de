import pandas as pd
import pytest

from recsys.columns.kind import declared
from recsys.errors import DataError
from recsys.features import FEATURES
from recsys.features import Id


def test_an_id_below_the_count_is_unknown() -> None:
    parts = [pd.Series([7, 7, 8]), pd.Series([9, 8, 9])]
    fitted = Id(min_count=2).fit([*parts, pd.Series([5])])
    assert fitted.vocabulary.values.tolist() == [7, 8, 9]
    assert fitted.encode(pd.Series([5, 7])).tolist() == [0, 1]


def test_the_count_of_a_new_id_is_that_of_the_new_split() -> None:
    """Known ids need none, not even to be there."""
    fitted = Id(min_count=2).fit([pd.Series([7, 7, 8])])
    grown = fitted.grown([pd.Series([8, 9, 5]), pd.Series([9])])
    assert grown.vocabulary.values.tolist() == [7, 9]
    assert grown.num_rows == 3


def test_a_width_of_its_own() -> None:
    assert Id(dim=5).fit([pd.Series([7])]).dim == 5


@pytest.mark.parametrize("option", ["min_count", "dim"])
def test_options_are_counts(option: str) -> None:
    with pytest.raises(DataError, match=f"expected at least 1 at {option}"):
        declared({"type": "id", option: 0}, FEATURES, "'features'", "user")
