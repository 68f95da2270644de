import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from recsys import FileError
from recsys import TrainConfig
from recsys.config.config_file import read_fields


def test_integers_are_taken_as_numbers() -> None:
    config = TrainConfig(
        "synthetic", "run", learning_rate=1, task_weights={"a": 1}
    )
    assert config.learning_rate == 1.0


def test_paths_are_taken_as_strings() -> None:
    assert TrainConfig("synthetic", Path("runs", "a")).out == str(
        Path("runs", "a")
    )


def test_sequences_and_mappings_are_taken_as_lists_and_dicts() -> None:
    weights = MappingProxyType({"a": 0.5})
    config = TrainConfig(
        "synthetic", "run", expert_units=(8, 4), task_weights=weights
    )
    assert config.to_mapping()["expert_units"] == [8, 4]
    assert config.to_mapping()["task_weights"] == {"a": 0.5}


def test_mapping_is_json_and_comes_back() -> None:
    config = TrainConfig(
        "synthetic",
        "run",
        gate_options={"gamma": 10.0},
        expert_units=[8, 4],
        table_optimizer="lazy-adam",
    )
    mapping = json.loads(json.dumps(config.to_mapping()))
    assert TrainConfig.from_mapping({**mapping, "versions": {}}) == config


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num_experts", 1, "at least 2"),
        ("k", 0, "at least 1"),
        ("embedding_dim", 0, "at least 1"),
        ("expert_units", [8, 0], "at least 1"),
        ("head_units", [-1], "at least 1"),
        ("expert_dropout", 1.0, "below 1"),
        ("expert_dropout", -0.1, "at least 0"),
        ("unknown_rate", 1.0, "below 1"),
        ("task_weights", {"watch": -0.1}, "at least 0"),
        ("task_weights", {"watch": float("nan")}, "finite"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", float("nan"), "finite"),
        ("learning_rate", float("inf"), "finite"),
        ("learning_rate", 10**400, "at most 4,294,967,296"),
        ("task_weights", {"watch": 0.5, "rating": float("inf")}, "finite"),
        ("search_entropy_weight", float("inf"), "finite"),
        ("gate_options", {"gamma": float("nan")}, "finite"),
        ("gate_options", {"gamma": float("-inf")}, "finite"),
        ("learning_rate", 1e300, "at most 4,294,967,296"),
        ("retrieval_weight", 1e10, "at most 4,294,967,296"),
        ("gate_options", {"gamma": -1e10}, "at most 4,294,967,296"),
        ("embedding_dim", 10**400, "at most 1,048,576"),
        ("embedding_dim", 10**9, "at most 1,048,576"),
        ("retrieval_dim", 10**9, "at most 1,048,576"),
        ("num_experts", 10**9, "at most 65,536"),
        ("task_experts", 10**9, "at most 65,536"),
        ("shared_experts", -1, "at least 0"),
        ("shared_experts", 10**9, "at most 65,536"),
        ("split_experts", 0, "at least 1"),
        ("num_levels", 10**9, "at most 1,024"),
        ("cross_layers", 10**9, "at most 1,024"),
        ("epochs", 2**33, "at most 4,294,967,296"),
        ("batch_size", 2**33, "at most 4,294,967,296"),
        ("expert_units", [8, 2**33], "at most 1,048,576"),
        ("head_units", [10**9], "at most 1,048,576"),
        ("bottom_units", [1] * 1025, "at most 1,024 long"),
        ("batch_size", 0, "at least 1"),
        ("epochs", 0, "at least 1"),
        ("patience", 0, "at least 1"),
        ("seed", -1, "at least 0"),
        ("seed", 2**32, "below 4294967296"),
        ("execution", "fast", "one of auto, dense, sparse"),
        ("optimizer", "sgd", "one of adam, adagrad"),
        (
            "table_optimizer",
            "adagrad",
            "one of adam, lazy-adam, rowwise-adagrad",
        ),
        (
            "weighting",
            "pareto",
            "one of fixed, uncertainty, gradnorm, dwa, pcgrad",
        ),
        ("table_learning_rate", 0.0, "above 0"),
        ("min_table_rows", 0, "at least 1"),
        ("search_normalized", "both", "one of rows, columns"),
        ("search_schedule", "slow", "one of published, annealed"),
        ("backend", "numpy", "one of tensorflow, jax, torch"),
    ],
)
def test_value_outside_its_bounds_is_named(
    name: str, value: Any, expected: str
) -> None:
    near = r"( \(did you mean .*\?\))?"
    message = f"`{name}` must be {expected}{near}. Received: {name}="
    with pytest.raises(ValueError, match=message):
        TrainConfig("synthetic", "run", **{name: value})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("data", 1, "a string"),
        ("gate", None, "a string"),
        ("hash_feature", 1, "a string"),
        ("k", 2.0, "an integer"),
        ("k", True, "an integer"),
        ("learning_rate", "fast", "a number"),
        ("expert_units", 256, "a list of integers"),
        ("expert_units", ["256"], "a list of integers"),
        ("expert_units", [True], "a list of integers"),
        ("learning_rate", True, "a number"),
        ("standardize_targets", 1, "true or false"),
        ("task_weights", {"watch": "0.9"}, "numbers by name"),
        ("gate_options", "gamma=1", "values by name"),
    ],
)
def test_value_of_another_type_is_named(
    name: str, value: Any, expected: str
) -> None:
    fields = {"data": "synthetic", "out": "run", name: value}
    with pytest.raises(TypeError, match=f"`{name}` must be {expected}. Rec"):
        TrainConfig(**fields)


def test_integer_of_thousands_of_digits_is_named() -> None:
    """Python refuses to write it out."""
    with pytest.raises(ValueError, match=r"`k` must be at most .* 5,000 dig"):
        TrainConfig("synthetic", "run", k=10**4999)
    with pytest.raises(TypeError, match=r"`gate` must be .* 5,000 digits"):
        TrainConfig("synthetic", "run", gate=10**4999)


def test_unknown_field_is_named() -> None:
    with pytest.raises(ValueError, match="Received: 'momentum'"):
        TrainConfig.from_mapping(
            {"data": "synthetic", "out": "run", "momentum": 0.9}
        )


def test_what_an_unknown_field_is_close_to_is_named() -> None:
    """Also where it is why another one is missing."""
    with pytest.raises(ValueError, match=r"mean 'data'\?\)\. Received: 'dat'"):
        TrainConfig.from_mapping({"dat": "synthetic", "out": "run"})


def test_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match="`out` must be given"):
        TrainConfig.from_mapping({"data": "synthetic"})


@pytest.mark.parametrize("gate", ["commet", "commet+"])
def test_a_gate_that_there_is_not_is_refused_with_a_near_one(gate: str) -> None:
    with pytest.raises(ValueError, match="`gate` must be one of soft") as error:
        TrainConfig("synthetic", "run", gate=gate)
    assert str(error.value).endswith(
        f"(did you mean 'comet'?). Received: gate={gate!r}"
    )


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"num_experts": 4, "k": 5}, 4),
        ({"num_experts": 4, "k": 5, "gate": "top-k+"}, 4),
        ({"k": 17}, 16),
        ({"preset": "svhn", "k": 9}, 8),
        ({"preset": "multi-mnist", "num_experts": 3}, 3),
        ({"architecture": "cgc", "num_experts": 4, "k": 9}, 8),
        ({"architecture": "home", "num_experts": 8, "k": 5}, 4),
    ],
)
def test_more_experts_per_example_than_a_gate_has_are_refused(
    fields: dict[str, Any], most: int
) -> None:
    message = f"`k` must be at most {most}, the number of .*Received: k="
    with pytest.raises(ValueError, match=message):
        TrainConfig("synthetic", "run", **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_experts": 4, "k": 4},
        {"num_experts": 32, "k": 17},
        {"k": 16},
        {"architecture": "ple", "num_experts": 4, "k": 8},
        {"architecture": "stem", "num_experts": 4, "k": 12},
        {"architecture": "home", "num_experts": 8, "k": 4},
        # What has no k, or no gate.
        {"num_experts": 4, "k": 5, "gate": "softmax"},
        {"num_experts": 4, "k": 5, "architecture": "shared-bottom"},
    ],
)
def test_as_many_as_it_has_are_taken(fields: dict[str, Any]) -> None:
    config = TrainConfig("synthetic", "run", **fields)
    assert config.to_mapping().items() >= fields.items()


def test_how_many_experts_there_are_may_be_said_elsewhere(
    tmp_path: Path,
) -> None:
    file = tmp_path / "part.json"
    file.write_text('{"k": 20}')
    assert read_fields(file) == {"k": 20}
    file.write_text('{"k": 20, "num_experts": 8}')
    with pytest.raises(FileError, match=r"part\.json: `k` must be at most 8"):
        read_fields(file)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"architecture": "home", "task_experts": 1, "gate": "softmax"},
            "`task_experts` must be at least 2 for the architecture 'home'",
        ),
        (
            # Which is why two of them cannot be chosen.
            {"architecture": "home", "task_experts": 1, "gate": "comet"},
            "`task_experts` must be at least 2 for the architecture 'home'",
        ),
        (
            {"architecture": "stem", "scenario_model": "pepnet"},
            "`scenario_model` must be none for the architecture 'stem'",
        ),
        (
            {"task_groups": {"watch": "time"}},
            "`task_groups` must be left out for the architecture 'mmoe'",
        ),
        (
            {"architecture": "adatt", "execution": "sparse"},
            "`execution` must not be 'sparse' for the architecture 'adatt'",
        ),
    ],
)
def test_fields_that_do_not_fit_the_architecture_are_named(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"{message}.*Received: "):
        TrainConfig("synthetic", "run", **fields)


@pytest.mark.parametrize("architecture", ["cgc", "ple", "shared-bottom"])
@pytest.mark.parametrize(
    ("name", "value", "default"),
    [("shared_experts", 1, 0), ("split_experts", 2, 1)],
)
def test_options_of_mixtures_are_refused_elsewhere(
    name: str, value: int, default: int, architecture: str
) -> None:
    message = (
        f"`{name}` must be {default} for the architecture {architecture!r}; it "
        f"is an option of mmoe and moe. Received: {name}={value}"
    )
    with pytest.raises(ValueError, match=message):
        TrainConfig(
            "synthetic", "run", architecture=architecture, **{name: value}
        )


def test_k_counts_experts_after_the_split() -> None:
    fields = {"num_experts": 4, "split_experts": 3}
    assert TrainConfig("synthetic", "run", k=12, **fields).k == 12
    with pytest.raises(ValueError, match="`k` must be at most 12"):
        TrainConfig("synthetic", "run", k=13, **fields)
