import json
from dataclasses import fields
from dataclasses import replace
from typing import Any
from typing import get_type_hints

import pytest

from recsys import TrainConfig
from recsys.config.resolved_config import ResolvedConfig

# Never None in a run, but in a configuration.
DECIDED = [
    "preset",
    "num_experts",
    "k",
    "expert_units",
    "expert_dropout",
    "head_units",
    "learning_rate",
    "epoch_average",
    "standardize_targets",
    "min_table_rows",
    "select",
    "backend",
]


def resolved(**given: Any) -> ResolvedConfig:
    return ResolvedConfig.of(TrainConfig("synthetic", "run", **given))


def test_it_has_the_fields_of_any_configuration_in_their_order() -> None:
    names = [field.name for field in fields(TrainConfig)]
    assert [field.name for field in fields(ResolvedConfig)] == names
    assert [*resolved().to_mapping()] == names


def test_nothing_that_is_decided_may_be_none() -> None:
    hints = get_type_hints(ResolvedConfig)
    for name, before in get_type_hints(TrainConfig).items():
        expected = before if name not in DECIDED else hints[name] | None
        assert (name, expected) == (name, before)
    assert None not in [getattr(resolved(), name) for name in DECIDED]


def test_sizes_are_those_of_the_preset_unless_given() -> None:
    config = resolved(preset="svhn", k=3, head_units=[])
    assert (config.num_experts, config.k) == (8, 3)
    assert (config.expert_units, config.head_units) == ([50, 50], [])
    assert config.expert_dropout == 0.0
    assert resolved().num_experts == 8


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, True),
        ({"epochs": 1}, False),
        ({"epoch_average": 0.0}, False),
        ({"preset": "movielens"}, False),
        ({"preset": "movielens", "epoch_average": 0.5}, True),
    ],
)
def test_epochs_are_averaged_but_for_published_presets(
    given: dict[str, Any], expected: bool
) -> None:
    assert resolved(**given).averages_epochs is expected


@pytest.mark.parametrize(
    ("given", "select"),
    [
        ({}, "tasks"),
        ({"retrieval": True}, "parts"),
        ({"retrieval": True, "tower": "dense"}, "parts"),
        ({"retrieval": True, "tower": "hstu"}, "tasks"),
        ({"retrieval": True, "select": "recall@10"}, "recall@10"),
    ],
)
def test_what_an_epoch_is_chosen_by(given: dict[str, Any], select: str) -> None:
    assert resolved(**given).select == select


def test_what_is_given_stays() -> None:
    given = {
        "standardize_targets": True,
        "min_table_rows": 7,
        "backend": "jax",
        "learning_rate": 0.5,
        "retrieval": True,
    }
    config = resolved(**given)
    assert config.to_mapping().items() >= given.items()
    assert ResolvedConfig.of(config) == config


def test_it_comes_back_from_json() -> None:
    text = json.dumps(resolved(gate="top-k").to_mapping())
    again = ResolvedConfig.from_mapping({**json.loads(text), "versions": {}})
    assert again == resolved(gate="top-k")


def test_none_has_no_default() -> None:
    content = resolved().to_mapping()
    for name in DECIDED:
        rest = {key: content[key] for key in content if key != name}
        with pytest.raises(ValueError, match=f"`{name}` must be given"):
            ResolvedConfig.from_mapping(rest)


def test_errors_are_those_of_any_configuration() -> None:
    message = r"`k` must be at most 4, the number of experts\. Received: k=5"
    with pytest.raises(ValueError, match=message):
        replace(resolved(num_experts=4), k=5)
    with pytest.raises(TypeError, match="`k` must be an integer"):
        replace(resolved(), k=None)  # type: ignore[arg-type]


def test_a_split_cuts_hidden_layers_and_multiplies_experts() -> None:
    config = resolved(num_experts=4, split_experts=2, expert_units=[8, 6, 5])
    assert config.routed_experts == 8
    assert config.routed_units == [4, 3, 5]
    assert resolved(num_experts=4).routed_experts == 4


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (None, r"must be 1 unless `expert_units` has at least two.*\[64\]"),
        ([], "must be 1 unless `expert_units` has at least two"),
        ([8, 6, 5], "must divide each of `expert_units` but the last. Rec"),
    ],
)
def test_a_split_needs_hidden_layers_that_it_divides(
    units: list[int] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=f"`split_experts` {message}"):
        resolved(split_experts=4, expert_units=units)
