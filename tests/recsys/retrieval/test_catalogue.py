from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import Schema
from recsys.features.feature import sharing_last
from recsys.features.fitted_feature import FittedFeature
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.catalogue import with_room_of

ROWS = pd.DataFrame(
    {
        "user": ["u", "v", "u", "v", "w"],
        "item": [5, 5, 6, 7, 6],
        "genres": [["a"], ["a"], ["b", "a"], [], ["b", "a"]],
        "price": [1.0, 2.0, 3.0, np.nan, 4.0],
        "year": [1.0, 1.0, 2.0, np.nan, 2.0],
        "shop": [1, 1, 1, 1, 1],
        "click": [1.0, 0.0, 1.0, 0.0, 1.0],
    }
)
FEATURES: dict[str, Any] = {
    "user": "id",
    "item": "id",
    "genres": "ids",
    "price": "number",
    "year": "number",
    "shop": "id",
}


def schema(features: dict[str, Any] | None = None, **roles: Any) -> Schema:
    return Schema("shop", features or FEATURES, {"click": "binary"}, **roles)


def catalogue(told: Schema) -> Catalogue:
    fitted: dict[str, FittedFeature] = {}
    for name in sharing_last(told.features):
        fitted[name] = told.features[name].fit([ROWS[name]], fitted)
    return Catalogue.of(ROWS, told, fitted)


def test_what_never_differs_between_rows_of_an_item_is_of_the_item() -> None:
    found = catalogue(schema())
    assert list(found.values) == ["genres", "year"]
    # 0 is unknown; 5, 6 and 7 are 1, 2 and 3; a and b are 1 and 2.
    assert found.counts.tolist() == [0, 2, 2, 1]
    assert found.values["genres"][1:].tolist() == [[1, -1], [2, 1], [-1, -1]]
    np.testing.assert_array_equal(found.values["year"][1:], [1, 2, np.nan])


def test_what_is_named_may_differ_and_counts_as_in_the_last_row() -> None:
    found = catalogue(schema(item_features=["price"]))
    assert list(found.values) == ["price"]
    np.testing.assert_array_equal(found.values["price"][1:], [2, 4, np.nan])


def test_an_item_of_another_name() -> None:
    features = {"user": "id", "shop": "id"}
    assert catalogue(schema(features, item="shop")).num_items == 1


@pytest.mark.parametrize(
    ("features", "roles", "message"),
    [
        ({"user": "id"}, {}, "an id feature that is the 'item'"),
        ({"item": "id"}, {}, "a feature that is not of the item"),
        (
            {"item": "id", "price": "number"},
            {"item_features": ["price"]},
            "a feature that is not of the item",
        ),
    ],
)
def test_data_without_items_or_without_queries(
    features: dict[str, Any], roles: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        catalogue(schema(features, **roles))


def test_longer_lists_are_cut_to_the_room_that_there_is() -> None:
    lists = np.array([[1, 2, 3]])
    assert with_room_of(lists, np.zeros((9, 2))).tolist() == [[1, 2]]
