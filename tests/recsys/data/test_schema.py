import json
from typing import Any

import pytest

from recsys.data import DataError
from recsys.data import Schema

CONTENT = {
    "name": "films",
    "features": {"user": "id", "age": "number"},
    "tasks": {"watch": "binary", "rating": "regression"},
}


def refusal(**changes: Any) -> str:
    with pytest.raises(DataError) as caught:
        Schema.from_json(json.dumps(CONTENT | changes), "films/dataset.json")
    return str(caught.value)


def test_json_round_trip() -> None:
    schema = Schema.from_json(json.dumps(CONTENT))
    assert schema == Schema(**CONTENT)
    assert Schema.from_json(schema.to_json()) == schema
    assert json.loads(schema.to_json()) == CONTENT


def test_columns_are_features_then_tasks_in_order() -> None:
    schema = Schema.from_json(json.dumps(CONTENT))
    assert schema.columns == ["user", "age", "watch", "rating"]


def test_further_keys_are_ignored() -> None:
    text = json.dumps(CONTENT | {"licence": "research"})
    assert Schema.from_json(text) == Schema(**CONTENT)


def test_broken_json_names_file_and_line() -> None:
    text = '{"name": "films",\n "features": {"user" "id"}}'
    with pytest.raises(DataError, match=r"^dataset\.json, line 2: expected J"):
        Schema.from_json(text)


def test_json_that_is_no_object() -> None:
    with pytest.raises(DataError, match=r"a JSON object\. Received: \[1\]$"):
        Schema.from_json("[1]")


@pytest.mark.parametrize("key", ["name", "features", "tasks"])
def test_missing_key(key: str) -> None:
    content = {name: CONTENT[name] for name in CONTENT if name != key}
    with pytest.raises(DataError, match=f"Received: no '{key}'$"):
        Schema.from_json(json.dumps(content))


def test_unknown_feature_type() -> None:
    assert refusal(features={"age": "numeric"}) == (
        "films/dataset.json: 'features', column 'age': expected one of the "
        "types ['id', 'image', 'number']. Received: 'numeric'"
    )


def test_unknown_task_type() -> None:
    assert refusal(tasks={"watch": ["binary"]}) == (
        "films/dataset.json: 'tasks', column 'watch': expected one of the "
        "types ['binary', 'regression']. Received: ['binary']"
    )


@pytest.mark.parametrize("value", [{}, [], None, "user"])
@pytest.mark.parametrize("key", ["features", "tasks"])
def test_features_and_tasks_are_not_empty(key: str, value: Any) -> None:
    assert f"'{key}': expected column names with a type each" in refusal(
        **{key: value}
    )


@pytest.mark.parametrize("name", ["", 3])
def test_name_is_a_text(name: Any) -> None:
    assert "'name': expected a text" in refusal(name=name)


def test_a_column_is_not_both_feature_and_task() -> None:
    message = refusal(tasks={"age": "regression"})
    assert message.endswith("columns that are not features. Received: ['age']")


def test_an_image_has_classes() -> None:
    features, tasks = (
        {"photo": "image"},
        {"kind": "multiclass", "old": "binary"},
    )
    schema = Schema("photos", features, tasks)
    assert schema.holds_images
    assert not Schema(**CONTENT).holds_images


def test_an_image_stands_alone() -> None:
    message = refusal(features={"photo": "image", "age": "number"})
    assert message == (
        "films/dataset.json: 'features': expected an image alone. "
        "Received: ['photo', 'age']"
    )


def test_tables_have_no_classes_and_images_no_regression() -> None:
    assert refusal(tasks={"kind": "multiclass"}).endswith(
        "types ['binary', 'regression']. Received: 'multiclass'"
    )
    assert refusal(features={"photo": "image"}).endswith(
        "types ['binary', 'multiclass']. Received: 'regression'"
    )
