from typing import Any

import pytest

from recsys.data import DataError
from recsys.data import Schema

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
