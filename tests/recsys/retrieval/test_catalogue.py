from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data import Schema
from recsys.features.feature import FittedFeature
from recsys.features.feature import sharing_last
from recsys.features.list_room import with_room_of
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.feature_roles import FeatureRole
from recsys.retrieval.feature_roles import show_roles

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


def catalogue(told: Schema, rows: pd.DataFrame = ROWS) -> Catalogue:
    fitted: dict[str, FittedFeature] = {}
    for name in sharing_last(told.features):
        fitted[name] = told.features[name].fit([rows[name]], fitted)
    return Catalogue.of(rows, told, fitted)


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


def test_why_each_feature_is_with_its_tower() -> None:
    found = catalogue(schema()).roles
    assert {
        name: (role.tower, role.reason) for name, role in found.items()
    } == {
        "user": ("query", "whom items are recommended to"),
        "item": ("item", "what is recommended"),
        "genres": ("item", "the same in all rows of an item"),
        "price": ("query", "differs between rows of an item"),
        "year": ("item", "the same in all rows of an item"),
        "shop": ("query", "the same for all items"),
    }
    assert not any(role.follows_item for role in found.values())


def test_why_where_features_are_named() -> None:
    found = catalogue(schema(item_features=["price"])).roles
    assert found["price"] == FeatureRole("item", "one of 'item_features'")
    assert found["genres"] == FeatureRole("query", "not one of 'item_features'")


def test_why_where_no_item_has_a_second_row() -> None:
    told = schema({"user": "id", "item": "id", "price": "number"})
    found = catalogue(told, ROWS.iloc[[0, 2, 3]])
    assert found.roles["price"].reason == "no item has a second row"


@pytest.mark.parametrize("item_features", [None, ["genres"]])
@pytest.mark.parametrize("ids", [str, lambda number: 2**60 + number])
def test_what_changes_with_the_item_is_told(
    item_features: list[str] | None, ids: Callable[[int], Any]
) -> None:
    """The rows are in another order than their times."""
    time = np.random.default_rng(0).permutation(400)
    items = time % 8
    rows = pd.DataFrame(
        {
            "user": time * 7 % 30,
            "item": [ids(int(number)) for number in items],
            "genres": [[f"g{number % 3}"] for number in items],
            "shown_before": (time // 8).astype(float),
            "stars_so_far": items + 1 / (1 + time),
            "age": 20.0 + time * 7 % 30,
            "click": 1.0,
            "at": time,
        }
    )
    features = {"user": "id", "item": "id", "genres": "ids", "age": "number"}
    features |= dict.fromkeys(("shown_before", "stars_so_far"), "number")
    told = schema(features, item_features=item_features, time="at")
    roles = catalogue(told, rows).roles
    following = {name for name, role in roles.items() if role.follows_item}
    assert following == {"stars_so_far"}


def test_roles_are_shown_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    roles = {
        "user": FeatureRole("query", "whom items are recommended to"),
        "stars so far": FeatureRole("query", "differs", follows_item=True),
        "film": FeatureRole("item", "what is recommended"),
    }
    message = "'stars so far', which changes over time with the item.*leave it"
    with pytest.warns(UserWarning, match=message):
        show_roles(roles)
    assert capsys.readouterr().out.splitlines() == [
        "Towers of the retrieval:",
        "  item tower   film          what is recommended",
        "  query tower  user          whom items are recommended to",
        "  query tower  stars so far  differs",
    ]


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
