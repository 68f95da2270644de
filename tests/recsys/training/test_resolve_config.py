from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import pytest

from recsys import DataError
from recsys import Schema
from recsys import TrainConfig
from recsys.config.resolved_config import ResolvedConfig
from recsys.models.gates import default_options
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.once("torch")

SCHEMA = Schema(
    "three",
    {"age": "number", "user": "id", "film": "id"},
    {"watch": "binary", "rating": "regression", "share": "binary"},
)


def resolved(**fields: Any) -> ResolvedConfig:
    return resolve_config(TrainConfig("synthetic", "run", **fields), SCHEMA)


def test_weights_are_equal_unless_given() -> None:
    weights = resolved().task_weights
    assert list(weights) == ["watch", "rating", "share"]
    assert list(weights.values()) == pytest.approx([1 / 3] * 3)


def test_tasks_without_a_weight_share_the_rest() -> None:
    weights = resolved(task_weights={"watch": 0.8}).task_weights
    assert weights == {"watch": 0.8, "rating": 0.1, "share": 0.1}


def test_given_weights_stay() -> None:
    weights = {"share": 3.0, "watch": 0.0, "rating": 1.0}
    assert resolved(task_weights=weights).task_weights == weights


def test_a_group_of_tasks_is_of_one_kind_unless_given() -> None:
    assert resolved().task_groups == {}
    groups = resolved(architecture="home", task_groups={"share": "act"})
    assert groups.task_groups == {
        "watch": "binary tasks",
        "rating": "regression tasks",
        "share": "act",
    }


@pytest.mark.parametrize("groups", [{"buy": "act"}, {"watch": "rating"}])
def test_groups_of_other_tasks_are_refused(groups: dict[str, str]) -> None:
    message = r"`task_groups` must be of the tasks.*Received: task_groups="
    with pytest.raises(ValueError, match=message):
        resolved(architecture="home", task_groups=groups)


RATINGS = {"watch": "binary", "rating": "regression"}


@pytest.mark.parametrize(
    ("name", "preset", "tasks", "standardized"),
    [
        ("shop", None, RATINGS, True),
        ("shop", "movielens", RATINGS, True),
        ("movielens-1m", None, RATINGS, True),
        ("books", "compact", RATINGS, True),
        ("movielens-1m", "movielens", RATINGS, False),
        ("synthetic", None, RATINGS, False),
        # A folder of books of one's own.
        (
            "books",
            "movielens",
            {"click": "binary", "price": "regression"},
            True,
        ),
        ("shop", None, {"watch": "binary"}, False),
    ],
)
def test_targets_are_standardised_but_for_the_papers_ratings(
    name: str, preset: str | None, tasks: dict[str, str], standardized: bool
) -> None:
    schema = Schema(name, {"user": "id"}, tasks)
    config = TrainConfig("data", "run", preset=preset)
    resolved = resolve_config(config, schema)
    assert resolved.standardize_targets is standardized
    for given in (True, False):
        config = replace(config, standardize_targets=given)
        resolved = resolve_config(config, schema)
        assert resolved.standardize_targets is given


def test_first_id_feature_is_hashed() -> None:
    assert resolved().hash_feature == "user"
    assert resolved(hash_feature="film").hash_feature == "film"


def test_options_get_their_types() -> None:
    assert resolved(
        gate="top-k", gate_options={"noisy": "true"}
    ).gate_options == {"noisy": True}


@pytest.mark.parametrize("gate", ["comet", "comet+", "dselect-k"])
def test_gates_that_start_dense_are_led_to_their_k(gate: str) -> None:
    options = resolved(gate=gate).gate_options
    assert options == default_options(gate, k=2)
    assert options["entropy_weight"] > 0
    given = resolved(gate=gate, gate_options={"entropy_weight": 0.0})
    assert given.gate_options == options | {"entropy_weight": 0.0}
    published = {"gamma": 10.0, "entropy_weight": 0.1}
    given = resolved(gate=gate, gate_options=published)
    assert given.gate_options == published


def test_expert_choice_takes_its_capacity_from_k() -> None:
    def options(gate: str = "expert-choice", **fields: Any) -> dict[str, Any]:
        return resolved(gate=gate, **fields).gate_options

    assert options() == {"capacity_factor": 2.0}
    assert options("expert-choice+", k=4) == {"capacity_factor": 4.0}
    given = {"capacity_factor": 1.5}
    assert options(k=4, gate_options=given) == given


def test_an_annealed_temperature_is_on_record() -> None:
    def options(**fields: Any) -> dict[str, Any]:
        return resolved(gate="gumbel-softmax", **fields).gate_options

    assert options() == {"temperature": None}
    assert options(gate_options={"temperature": "2"}) == {"temperature": 2.0}


def test_data_folder_and_backend_are_named() -> None:
    config = resolve_config(TrainConfig("data", "run"), SCHEMA)
    assert config.data == str(Path("data").resolve())
    assert config.backend == keras.backend.backend()
    assert resolved().data == "synthetic"


def test_sizes_are_the_preset_s_unless_given() -> None:
    config = resolved(k=3, head_units=[])
    assert config.preset == "compact"
    assert (config.num_experts, config.k) == (8, 3)
    assert (config.expert_units, config.head_units) == ([64], [])
    assert (config.expert_dropout, config.embedding_dim) == (0.1, None)
    assert config.learning_rate == 1e-3
    published = resolved(preset="movielens", k=3, head_units=[])
    assert (published.num_experts, published.k) == (16, 3)
    assert (published.expert_units, published.head_units) == ([256], [])
    assert (published.expert_dropout, published.embedding_dim) == (0.5, 128)
    assert published.learning_rate == 3e-4


def test_images_have_the_preset_of_their_name() -> None:
    schema = Schema("multi-mnist", {"image": "image"}, {"a": "multiclass"})
    config = resolve_config(TrainConfig("data", "run"), schema)
    assert config.preset == "multi-mnist"
    assert (config.num_experts, config.k) == (16, 4)
    assert config.expert_units == [50, 50]
    other = resolve_config(TrainConfig("data", "run", preset="digits"), schema)
    assert (other.num_experts, other.expert_units) == (8, [50])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"preset": "svhn"}, "one of .'compact', 'movielens'. for the data"),
        ({"task_weights": {"click": 1.0}}, "for the tasks .*'click'"),
        ({"task_weights": {"watch": 1.0}}, "given for all tasks"),
        (
            {"task_weights": {"watch": 0, "rating": 0, "share": 0}},
            "must not all be 0",
        ),
        ({"hash_feature": "age"}, "one of the id features"),
    ],
)
def test_what_does_not_fit_the_data(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        resolved(**fields)
    assert not isinstance(raised.value, DataError)


@pytest.mark.parametrize(
    ("fields", "name", "min_rows"),
    [
        ({}, "lazy-adam", 100_000),
        ({"min_table_rows": 7}, "lazy-adam", 7),
        ({"table_optimizer": "adam"}, "adam", 1),
        ({"table_optimizer": "lazy-adam"}, "lazy-adam", 1),
        (
            {"table_optimizer": "rowwise-adagrad", "min_table_rows": 7},
            "rowwise-adagrad",
            7,
        ),
        ({"optimizer": "adagrad"}, None, 1),
    ],
)
def test_large_tables_are_trained_by_rows_unless_told_otherwise(
    fields: dict[str, Any], name: str | None, min_rows: int
) -> None:
    config = resolved(**fields)
    assert config.table_optimizer == name
    assert config.min_table_rows == min_rows


def test_images_have_no_tables() -> None:
    schema = Schema("svhn", {"image": "image"}, {"a": "multiclass"})
    config = resolve_config(TrainConfig("data", "run"), schema)
    assert config.table_optimizer is None


def test_adam_for_tables_alone_is_no_optimizer() -> None:
    assert resolved(table_optimizer="adam").table_optimizer == "adam"
    assert resolved(optimizer="adagrad").table_optimizer is None
    with pytest.raises(ValueError, match="where the optimizer is adagrad"):
        resolved(table_optimizer="adam", optimizer="adagrad")
