import pytest

from recsys.data import DataError
from recsys.data.left_out import left_out

FEATURES = ["user", "item", "watch_time"]


def test_all_are_there_in_any_order() -> None:
    assert left_out(["x", "watch_time", "item", "user"], FEATURES, "a") == []


def test_those_that_are_left_out_are_named_in_one_warning() -> None:
    with pytest.warns(UserWarning, match="leaves out") as caught:
        found = left_out(["x", "user"], FEATURES, "a.csv")
    assert found == ["item", "watch_time"]
    assert [str(warning.message) for warning in caught] == [
        "a.csv leaves out 'item', 'watch_time': missing in every row"
    ]


def test_a_task_is_no_slip_however_near() -> None:
    columns = ["user", "item", "watch_tim"]
    with pytest.warns(UserWarning, match="'watch_time'"):
        left_out(columns, FEATURES, "a.csv", also=["watch_tim"])
    with pytest.raises(DataError, match=r"\(did you mean 'watch_tim'\?\)"):
        left_out(columns, FEATURES, "a.csv")


@pytest.mark.parametrize("column", ["ITEM", "Item", "items", "itme", "item "])
def test_a_slip_is_an_error_with_a_hint(column: str) -> None:
    with pytest.raises(DataError) as caught:
        left_out(["user", column, "watch_time"], FEATURES, "a.csv")
    assert str(caught.value) == (
        f"a.csv: expected a column 'item' (did you mean {column!r}?), or an "
        "empty one to leave it out. Received: the columns "
        f"['user', {column!r}, 'watch_time']"
    )


def test_no_feature_at_all() -> None:
    with pytest.raises(DataError) as caught:
        left_out(["x", "y"], FEATURES, "a.csv")
    assert str(caught.value) == (
        "a.csv: expected columns among the features ['user', 'item', "
        "'watch_time']. Received: the columns ['x', 'y']"
    )
