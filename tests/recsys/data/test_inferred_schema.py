"""What columns are taken for, by their names and values."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data import DataError
from recsys.data import dataset_from_table
from recsys.data.inferred_schema import InferredSchema
from recsys.data.inferred_schema import infer_schema

COUNT = 60
CLICKS = [0, 1] * (COUNT // 2)


def inferred(column: Any, name: str = "x", **arguments: Any) -> InferredSchema:
    """Of a table with a user and a column."""
    rows = pd.DataFrame({"user": range(7, 7 + COUNT), "click": CLICKS})
    rows[name] = column
    return infer_schema(rows, ["click"], **arguments)


@pytest.mark.parametrize(
    ("column", "name", "expected"),
    [
        (np.arange(COUNT) / 7, "x", "number"),
        (np.arange(COUNT) % 5, "x", "number"),
        (np.arange(COUNT) % 5, "Shop_ID", "id"),
        (np.arange(COUNT) + 2**53, "x", None),  # The number of the row.
        (np.arange(COUNT) % 9 + 2**53, "x", "id"),
        ([f"{n % 9:03}" for n in range(COUNT)], "x", "id"),
        ([f"{n % 9}" for n in range(COUNT)], "x", "number"),
        ([f"{n % 9}.5" for n in range(COUNT)], "x", "number"),
        (["a", "b", None] * (COUNT // 3), "x", "id"),
        ([True, False] * (COUNT // 2), "x", "id"),
        ([f"some text {n}" for n in range(COUNT)], "x", None),
        (["a"] * COUNT, "x", None),
        ([None] * COUNT, "x", None),
        ([["a"], ["b", "c"], []] * (COUNT // 3), "x", "ids"),
        ([[1, 2], [3, 4]] * (COUNT // 2), "x", "ids"),
        (
            [[0.5, 1.0], [0.25, 2.0]] * (COUNT // 2),
            "x",
            {"type": "vector", "size": 2},
        ),
        (CLICKS, "rating", None),  # No task, and the name of one.
    ],
)
def test_a_column_has_a_kind(column: Any, name: str, expected: Any) -> None:
    (feature,) = [
        each for each in inferred(column, name).columns if each.name == name
    ]
    assert feature.kind == expected
    assert feature.meaning == ("left out" if expected is None else "feature")
    assert feature.reason


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (CLICKS, "binary"),
        ([True, False] * (COUNT // 2), "binary"),
        (["0", "1"] * (COUNT // 2), "binary"),
        ([0.0, 1.0, np.nan] * (COUNT // 3), "binary"),
        ([1, 2, 5] * (COUNT // 3), "regression"),
        (["good", "bad"] * (COUNT // 2), "multiclass"),
    ],
)
def test_labels_have_a_kind(labels: Any, expected: str) -> None:
    rows = pd.DataFrame({"user": range(COUNT), "opinion": labels})
    schema = infer_schema(rows, "opinion").schema
    assert schema.tasks["opinion"].type == expected
    dataset_from_table(rows, schema)  # It can be read so.


@pytest.mark.parametrize("first", ["a", 2**53])
@pytest.mark.parametrize(
    ("user", "item"),
    [("user", "item"), ("User ID", "movieId"), ("customer", "ASIN")],
)
def test_user_and_item_are_found_by_their_names(
    first: Any, user: str, item: str
) -> None:
    ids = [f"a{n % 9}" if first == "a" else 2**53 + n % 9 for n in range(COUNT)]
    rows = pd.DataFrame({user: ids, item: ids, "Like": CLICKS})
    schema = infer_schema(rows).schema
    assert (schema.user_id, schema.item_id) == (user, item)
    assert list(schema.tasks) == ["Like"]
    train = dataset_from_table(rows, schema).split("train")
    assert set(train[user]) <= set(ids)  # Not rounded.


def test_what_is_given_comes_first() -> None:
    rows = pd.DataFrame(
        {
            "user": range(COUNT),
            "who": range(COUNT),
            "age": np.arange(COUNT) % 40,
            "note": ["x", "y"] * (COUNT // 2),
            "click": CLICKS,
            "mark": [1, 2] * (COUNT // 2),
        }
    )
    schema = infer_schema(
        rows,
        {"mark": "multiclass"},
        user="who",
        kinds={"age": "id", "note": None, "click": "number"},
    ).schema
    assert schema.user_id == "who"
    kinds = {name: kind.type for name, kind in schema.features.items()}
    # The number of the row, unless it is the user.
    assert kinds == {"who": "id", "age": "id", "click": "number"}
    assert schema.tasks["mark"].type == "multiclass"


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("timestamp", np.arange(COUNT), True),
        ("Date", ["2026-01-01"] * COUNT, True),
        ("when", pd.date_range("2026-01-01", periods=COUNT), True),
        ("seen at", [f"2026-01-{1 + n % 9:02}" for n in range(COUNT)], True),
        ("seen at", ["2026-01-01 20:15", "?"] * (COUNT // 2), False),
        ("time", [None, *range(COUNT - 1)], False),
        ("moment", np.arange(COUNT), False),
    ],
)
def test_the_time_is_found(name: str, values: Any, expected: bool) -> None:
    schema = inferred(values, name).schema
    assert (schema.time == name) is expected


def test_of_two_dates_none_is_the_time() -> None:
    born = [datetime.datetime(2000, 1, 1 + n % 9) for n in range(COUNT)]
    schema = inferred(born, "born", kinds={}).schema
    assert schema.time == "born"
    rows = pd.DataFrame({"user": range(COUNT), "click": CLICKS, "born": born})
    rows["seen"] = born
    assert infer_schema(rows).schema.time is None
    assert infer_schema(rows, time="seen").schema.time == "seen"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tasks": ["clik"]}, "a column 'clik' .did you mean 'click'"),
        ({"user": "usr"}, "a column 'usr'"),
        ({"kinds": {"nothing": "id"}}, "a column 'nothing'"),
        ({"kinds": {"user": None}}, "a feature among the columns"),
    ],
)
def test_wrong_columns_are_named(
    arguments: dict[str, Any], message: str
) -> None:
    rows = pd.DataFrame({"user": range(COUNT), "click": CLICKS})
    with pytest.raises(DataError, match=message):
        infer_schema(rows, **arguments)


def test_labels_must_be_named_where_no_name_is_usual() -> None:
    rows = pd.DataFrame({"user": range(COUNT), "answer": CLICKS})
    with pytest.raises(DataError, match="the names of the labels as tasks"):
        infer_schema(rows)


def test_the_table_of_columns() -> None:
    rows = pd.DataFrame({"user": range(COUNT), "click": CLICKS})
    rows["x"] = [1.5, None] * (COUNT // 2)
    table = infer_schema(rows).as_table(rows).set_index("column")
    assert table.loc["x", "missing"] == 0.5
    assert table["different"].to_dict() == {"user": COUNT, "click": 2, "x": 1}


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=4),
    st.booleans(),
)


def refusal(rows: pd.DataFrame) -> str | None:
    """Why a table cannot be read as what it is taken for."""
    try:
        dataset_from_table(rows, infer_schema(rows).schema)
    except DataError as error:
        return str(error)
    return None


@given(st.lists(VALUES, min_size=20, max_size=20))
def test_what_is_inferred_can_be_read(values: list[Any]) -> None:
    """Whatever a column holds: at worst, it is said what cannot be read."""
    rows = pd.DataFrame({"user": range(20), "click": [0, 1] * 10})
    rows["x"] = pd.Series(values, dtype=object)
    message = refusal(rows)
    assert message is None or "column 'x'" in message
