import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import prepare
from recsys.data import write_table
from recsys.data.labels import check_labelled
from recsys.models.label_statistics import constant_predictions
from recsys.tasks.log_columns import RowPosition
from recsys.tasks.log_columns import RowPropensity
from recsys.tasks.row_weight import weights_of

FEATURES = {"user": "id", "item": "id", "film": "id", "age": "number"}


def schema(**roles: Any) -> Schema:
    return Schema("films", FEATURES, {"watch": "binary"}, **roles)


def test_names_that_speak_for_themselves() -> None:
    assert (schema().item_id, schema().user_id) == ("item", "user")


def test_roles_that_are_given() -> None:
    given = schema(item="film", user="item", item_features=["age"])
    assert (given.item_id, given.user_id) == ("film", "item")
    assert Schema.from_json(given.to_json()) == given


def test_the_group_is_the_user() -> None:
    assert schema(group="film").user_id == "film"
    assert schema(group="session").user_id == "user"


def test_data_without_either() -> None:
    numbers = Schema("n", {"item": "number"}, {"watch": "binary"})
    assert numbers.item_id is numbers.user_id is None


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"item": "age"}, "'item'.*an id feature.*age"),
        ({"user": "who"}, "'user'.*an id feature.*who"),
        ({"user": "item"}, "another feature than the item"),
        ({"item_features": ["genre"]}, r"features among.*age.*'genre'"),
        ({"item_features": ["item"]}, "'item_features'"),
        ({"item_features": "age"}, "a list of columns.*age"),
    ],
)
def test_roles_that_cannot_be(roles: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        schema(**roles)


def test_features_of_no_item() -> None:
    with pytest.raises(DataError, match="an 'item' that they are of"):
        Schema("n", {"a": "id"}, {"b": "binary"}, item_features=["a"])


CONTENT: dict[str, Any] = {
    "name": "log",
    "features": {"user": "id"},
    "tasks": {"click": "binary"},
}
ROWS = pd.DataFrame(
    {
        "user": [2**53 + 1, 2**53 + 2, 2**53 + 1, 2**53 + 3],
        "click": [1.0, 0.0, 0.0, 1.0],
        "p": [0.5, 0.001, 1.0, np.nan],
        "w": [1.0, 2.0, 3.0, 4.0],
    }
)


def test_rows_count_by_clipped_inverse_propensities() -> None:
    schema = Schema(**CONTENT, propensity="p")
    found = weights_of(ROWS, schema.row_weights)
    np.testing.assert_allclose(found, [2, 100, 1, 0])
    schema = Schema(**CONTENT, propensity="p", weight="w", least_propensity=0.1)
    found = weights_of(ROWS, schema.row_weights)
    np.testing.assert_allclose(found, [2, 20, 3, 0])
    assert schema.truth_columns == ["click", "w", "p"]
    # Means divide by the sum of the weights.
    dataset = Dataset(schema, {"train": ROWS})
    assert constant_predictions(dataset) == pytest.approx({"click": 2 / 25})
    hidden = ROWS.assign(p=np.nan)
    with pytest.raises(DataError, match="a 'w' and a 'p' above 0"):
        check_labelled(hidden, ["click"], "train.csv", schema.row_weights)


def test_they_are_columns_beside_others() -> None:
    roles = {"position": "place", "propensity": "p", "least_propensity": 0.05}
    schema = Schema(**CONTENT, **roles)
    assert json.loads(schema.to_json()) == CONTENT | roles
    assert Schema.from_json(schema.to_json()) == schema
    kinds = [type(kind) for kind in schema.columns.values()]
    assert kinds[-2:] == [RowPosition, RowPropensity]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"position": "user"}, "'position': expected a column beside"),
        ({"propensity": "click"}, "'propensity': expected a column beside"),
        ({"position": "p", "propensity": "p"}, "'propensity'"),
        ({"propensity": 3}, "'propensity': expected a column's name"),
        ({"least_propensity": 0.1}, "none without a 'propensity'"),
        ({"propensity": "p", "least_propensity": 0}, "above 0 and up to 1"),
        ({"propensity": "p", "least_propensity": "x"}, "above 0 and up to 1"),
    ],
)
def test_log_roles_that_cannot_be(roles: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Schema(**CONTENT, **roles)


def test_an_image_was_not_shown_at_a_position() -> None:
    with pytest.raises(DataError, match="none, where the features are an"):
        Schema("faces", {"i": "image"}, {"old": "binary"}, position="place")


@pytest.mark.parametrize(
    ("kind", "values", "refused"),
    [
        (RowPosition(), [1, None, 1000], [0, 1.5, 1001, "top"]),
        (RowPropensity(), [1, None, 1e-9], [0, -0.1, 1.1, np.inf, "x"]),
    ],
)
def test_values(kind: Any, values: list[Any], refused: list[Any]) -> None:
    column = pd.Series(values, name="c", dtype="float64")
    pd.testing.assert_series_equal(kind.check(column, "f.csv"), column)
    for value in refused:
        bad = pd.Series([1.0, value], name="c", dtype=object)
        with pytest.raises(DataError, match=r"f.csv.*row 2"):
            kind.check(bad, "f.csv")


def test_a_table_is_prepared_with_them(tmp_path: Path) -> None:
    table = pd.concat([ROWS.drop(columns="w")] * 5).assign(place=2)
    write_table(table, tmp_path / "log.csv")
    prepare(
        "table",
        tmp_path,
        tmp_path / "data",
        train="log.csv",
        ids=["user"],
        binary=["click"],
        position="place",
        propensity="p",
    )
    content = json.loads((tmp_path / "data" / "dataset.json").read_text())
    assert content["position"] == "place"
    assert content["propensity"] == "p"
    assert content["features"] == {"user": "id"}
