import json
from dataclasses import FrozenInstanceError
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
    assert [*schema.columns] == ["user", "age", "watch", "rating"]


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("feature", " (did you mean 'features'?)"),
        ("Tasks", " (did you mean 'tasks'?)"),
        ("wieght", " (did you mean 'weight'?)"),
        ("licence", ""),
        ("", ""),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(
    key: str, nearest: str
) -> None:
    assert refusal(**{key: {"user": "id"}}) == (
        "films/dataset.json: expected the keys ['name', 'features', 'tasks', "
        "'group', 'weight', 'time', 'item', 'item_features', 'user', "
        "'scenario', 'position', 'propensity', 'least_propensity']"
        f"{nearest}. Received: {key!r}"
    )


def test_a_misspelt_key_is_not_called_missing() -> None:
    text = json.dumps(CONTENT).replace('"features"', '"feature"')
    with pytest.raises(DataError, match=r"did you mean 'features'\?"):
        Schema.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "name": "b", "features": {"u": "id"}, '
        '"tasks": {"t": "binary"}}',
        '{"name": "a", "features": {"u": "id", "u": "number"}, '
        '"tasks": {"t": "binary"}}',
    ],
)
def test_a_key_is_there_once(text: str) -> None:
    with pytest.raises(DataError, match=r"^dataset\.json: .*'(name|u)' twice$"):
        Schema.from_json(text)


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
        "types ['bucket', 'hash', 'id', 'ids', 'image', 'number', "
        "'sequence', 'vector'] (did you mean 'number'?). "
        "Received: 'numeric'"
    )


def test_unknown_task_type() -> None:
    assert refusal(tasks={"watch": ["binary"]}) == (
        "films/dataset.json: 'tasks', column 'watch': expected one of the "
        "types ['binary', 'multiclass', 'regression']. "
        "Received: ['binary']"
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


def test_images_have_no_regression() -> None:
    assert refusal(features={"photo": "image"}).endswith(
        "types ['binary', 'multiclass']. Received: 'regression'"
    )


@pytest.mark.parametrize("key", ["features", "tasks"])
@pytest.mark.parametrize("column", ["", " "])
def test_a_column_has_a_name(key: str, column: str) -> None:
    kind = "id" if key == "features" else "binary"
    assert refusal(**{key: {column: kind}}) == (
        f"films/dataset.json: '{key}': expected columns named by a text. "
        f"Received: {column!r}"
    )


def test_a_name_is_a_text() -> None:
    with pytest.raises(DataError, match=r"^'features': .* Received: 7$"):
        Schema("films", {7: "id"}, {"watch": "binary"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "task",
    ["loss", "val_loss", "val", "epoch", "lr", "learning_rate", "seconds",
     "Loss"],
)  # fmt: skip
def test_a_task_has_no_name_that_a_history_has(task: str) -> None:
    message = refusal(tasks={task: "binary"})
    assert message.startswith(
        "films/dataset.json: 'tasks': expected tasks with other names than "
        "epoch, loss, val, val_loss, "
    )
    assert message.endswith(f"Received: {task!r}")


def test_tasks_do_not_share_columns_of_a_history() -> None:
    tasks = {"a": "binary", "val_a": "binary"}
    assert refusal(tasks=tasks) == (
        "films/dataset.json: 'tasks': expected tasks whose names do not begin "
        "with 'val_', as the columns of the validation split in history.csv "
        "do. Received: 'val_a'"
    )


@pytest.mark.parametrize(
    "task", ["user rating", "a/b", "../a", "ü", "_a", "a\n"]
)
def test_a_task_is_named_as_files_and_metrics_are(task: str) -> None:
    assert refusal(tasks={task: "binary"}).startswith(
        "films/dataset.json: 'tasks': expected tasks named by letters, digits, "
        "`_`, `.` and `-`. Received: "
    )


def test_names_that_only_look_alike_are_fine() -> None:
    tasks = dict.fromkeys(["valid", "lossy", "a.b", "3-d", "a_val"], "binary")
    assert list(Schema("films", {"val_a": "id"}, tasks).tasks) == list(tasks)


def test_group_and_weight_are_columns_after_features_and_tasks() -> None:
    schema = Schema(**CONTENT, group="session", weight="importance")
    assert [*schema.columns][-3:] == ["rating", "session", "importance"]
    assert Schema.from_json(schema.to_json()) == schema
    assert json.loads(schema.to_json()) == CONTENT | {
        "group": "session",
        "weight": "importance",
    }


def test_a_group_may_be_an_id_feature() -> None:
    schema = Schema(**CONTENT, group="user")
    assert [*schema.columns] == [*Schema(**CONTENT).columns]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"group": "age"}, "an id feature, or a column that is neither a"),
        ({"group": "watch"}, "an id feature, or a column that is neither a"),
        ({"group": 3}, "'group': expected a column's name. Received: 3"),
        ({"weight": ""}, "'weight': expected a column's name. Received: ''"),
        ({"weight": "age"}, "neither a feature nor a task nor the group"),
        ({"weight": "watch"}, "neither a feature nor a task nor the group"),
        (
            {"weight": "who", "group": "who"},
            "neither a feature nor a task nor the group. Received: 'who'",
        ),
        ({"time": 3}, "'time': expected a column's name. Received: 3"),
        ({"time": "watch"}, "'time': expected a column that is neither a task"),
        (
            {"weight": "when", "time": "when"},
            "neither a task nor the group nor the weight. Received: 'when'",
        ),
    ],
)
def test_roles_that_cannot_be(roles: dict[str, Any], message: str) -> None:
    assert message in refusal(**roles)


def test_images_have_neither_group_nor_weight() -> None:
    message = refusal(
        features={"photo": "image"}, tasks={"old": "binary"}, weight="w"
    )
    assert "'weight': expected none, where the features are an" in message


def test_a_time_is_the_last_column_unless_it_is_a_feature() -> None:
    schema = Schema(**CONTENT, weight="importance", time="day")
    assert [*schema.columns][-2:] == ["importance", "day"]
    assert Schema.from_json(schema.to_json()) == schema
    assert [*Schema(**CONTENT, time="age").columns] == [
        *Schema(**CONTENT).columns
    ]


def test_other_tasks_leave_the_roles_as_they_are() -> None:
    schema = Schema(**CONTENT, group="user", weight="importance", time="day")
    assert schema.with_tasks(schema.tasks) == schema


def test_predictions_are_measured_by_tasks_group_and_weight() -> None:
    assert Schema(**CONTENT).truth_columns == ["watch", "rating"]
    schema = Schema(**CONTENT, group="user", weight="importance", time="day")
    assert schema.truth_columns == ["watch", "rating", "user", "importance"]


def test_a_scenario_is_an_id_feature_that_metrics_look_at() -> None:
    features = {"user": "id", "country": "id", "age": "number"}
    fields: dict[str, Any] = {
        "name": "shop",
        "features": {**features, "page": {"type": "hash", "buckets": 3}},
        "tasks": {"buy": "binary"},
    }
    schema = Schema(**fields, scenario="country")
    assert schema.truth_columns == ["buy", "country"]
    assert json.loads(schema.to_json())["scenario"] == "country"
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.with_tasks(schema.tasks) == schema
    assert "scenario" not in json.loads(Schema(**fields).to_json())
    for name, text in (("age", "'age'"), ("page", "'page'"), ("buy", "'buy'")):
        with pytest.raises(DataError) as caught:
            Schema(**fields, scenario=name)
        assert (
            "'scenario': expected an id feature, of ['user', 'country']. "
            f"Received: {text}"
        ) in str(caught.value)
    with pytest.raises(DataError, match=r"did you mean 'country'\?"):
        Schema(**fields, scenario="contry")
    wrong: Any = 3
    with pytest.raises(
        DataError, match=r"'scenario': expected a column's name"
    ):
        Schema(**fields, scenario=wrong)


@pytest.mark.parametrize(
    "columns", [["age"], ("age",), {"age"}, {"age": 1}.keys()]
)
def test_item_features_are_names_in_any_order(columns: Any) -> None:
    features = {"item": "id", "age": "number"}
    tasks = {"watch": "binary"}
    schema = Schema("films", features, tasks, item_features=columns)
    assert schema.item_features == ["age"]


@pytest.mark.parametrize("columns", ["age", b"age", {"age": 1}, 3, ["age", 3]])
def test_item_features_that_are_no_names(columns: Any) -> None:
    with pytest.raises(DataError) as caught:
        Schema("films", {"item": "id"}, CONTENT["tasks"], item_features=columns)
    assert "'item_features': expected a list of columns. Received: " in str(
        caught.value
    )


def test_names_become_plain_texts() -> None:
    schema = Schema("films", {np.str_("user"): "id"}, {"watch": "binary"})
    assert [type(name) for name in schema.columns] == [str, str]


def test_a_schema_cannot_be_changed_and_can_be_replaced() -> None:
    schema = Schema(**CONTENT)
    with pytest.raises(FrozenInstanceError):
        schema.name = "other"  # type: ignore[misc]
    assert replace(schema, file=Path("a.json")) == schema
    assert replace(schema, name="other") != schema
