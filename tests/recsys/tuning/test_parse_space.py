import re
from typing import Any

import pytest

from recsys.tuning.dimensions import Choices
from recsys.tuning.dimensions import IntegerRange
from recsys.tuning.dimensions import Range
from recsys.tuning.parse_space import parse_space

pytestmark = pytest.mark.once("torch")

COMET = {"gate": "comet"}


def test_lists_ranges_and_options() -> None:
    space = parse_space(
        {
            "learning_rate": {"min": 1e-4, "max": 1e-3, "sampling": "log"},
            "k": {"min": 1, "max": 4},
            "batch_size": [256, 512],
            "optimizer": ["adam", "adagrad"],
            "weighting": ["fixed", "uncertainty", "gradnorm", "dwa", "pcgrad"],
            "gate_options": {
                "gamma": {"min": 1, "max": 10},
                "entropy_weight": [0.1],
            },
            "task_weights": {"watch": {"min": 0.1, "max": 0.9, "step": 0.4}},
        },
        COMET,
    )
    assert space.dimensions == {
        "learning_rate": Range(1e-4, 1e-3, sampling="log"),
        "k": IntegerRange(1, 4),
        "batch_size": Choices([256, 512]),
        "optimizer": Choices(["adam", "adagrad"]),
        "weighting": Choices(
            ["fixed", "uncertainty", "gradnorm", "dwa", "pcgrad"]
        ),
        "gate_options.gamma": Range(1, 10),
        "gate_options.entropy_weight": Choices([0.1]),
        "task_weights.watch": Range(0.1, 0.9, step=0.4),
    }
    assert list(space.searched) == [
        "learning_rate",
        "k",
        "batch_size",
        "optimizer",
        "weighting",
        "gate_options.gamma",
        "task_weights.watch",
    ]


def test_what_is_given_is_not_searched() -> None:
    content = {
        "k": [1, 2],
        "epochs": [100],
        "gate_options": {"gamma": [1.0, 5.0], "entropy_weight": [0.1, 1.0]},
    }
    given = {**COMET, "k": 3, "gate_options": {"gamma": 2.0}}
    space = parse_space(content, given)
    assert list(space.searched) == ["gate_options.entropy_weight"]
    assert space.fields({"gate_options.entropy_weight": 1.0}) == {
        "gate": "comet",
        "k": 3,
        "epochs": 100,
        "gate_options": {"gamma": 2.0, "entropy_weight": 1.0},
    }
    assert given["gate_options"] == {"gamma": 2.0}


def test_drawn_values_become_fields() -> None:
    content = {"expert_units": [[8], [4, 4]], "k": {"min": 1, "max": 2}}
    space = parse_space(content, COMET)
    drawn = {"expert_units": "[4, 4]", "k": 2, "tuner/round": 1}
    values = space.decode(drawn)
    assert values == {"expert_units": [4, 4], "k": 2}
    assert space.fields(values) == {**COMET, **values}


def test_examples_have_each_value_and_the_ends_of_ranges() -> None:
    space = parse_space(
        {"k": [1, 2], "learning_rate": {"min": 0.1, "max": 0.2}}, COMET
    )
    examples = [(e["k"], e["learning_rate"]) for e in space.examples()]
    assert examples == [(1, 0.1), (2, 0.1), (1, 0.2)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected the fields to be searched by name. Received: []"),
        (None, "expected the fields to be searched by name. Received: None"),
        ({1: [2]}, "expected the fields to be searched by name. Received: {1"),
        ({"k": {1: 2, "min": 1, "max": 2}}, "`k`: expected a name that is a t"),
        ({"momentum": [1]}, "must be among tower, tower_width"),
        ({"momentum": [1]}, "Received: 'momentum'"),
        ({"gate": ["comet"]}, "Received: 'gate'"),
        ({"out": ["a", "b"]}, "Received: 'out'"),
        ({"standardize_targets": [True, False]}, "'standardize_targets'"),
        ({"gate_options": [1]}, "`gate_options`: expected what to search by"),
        (
            {"gate_options": {"temperature": [1]}},
            "Received: 'gate_options.temperature'",
        ),
        ({"k": 2}, "`k`: expected a list of choices, or a range with min and"),
        ({"k": []}, "`k`: expected at least one value"),
        ({"k": {"min": 1}}, "`k`: expected a value at max. Received: none"),
        (
            {"k": {"min": 0.5, "max": 2}},
            "`k`: expected an integer at min. Received: 0.5",
        ),
        (
            {"k": {"min": True, "max": 2}},
            "`k`: expected an integer at min. Received: True",
        ),
        ({"k": {"min": 1, "max": 10**400}}, "`k`: expected at most 4,294,96"),
        (
            {"k": {"min": 1, "max": 2, "steps": 1}},
            "`k`: expected one of the fields min, max, sampling, step (did you "
            "mean 'step'?) at steps. Received: 1",
        ),
        (
            {"k": {"min": 1, "max": 2, "sampling": "uniform"}},
            "`k`: expected 'linear' or 'log' at sampling. Received: 'uniform'",
        ),
        (
            {"learning_rate": {"min": "a", "max": 1}},
            "`learning_rate`: expected a number at min. Received: 'a'",
        ),
        (
            {"learning_rate": {"min": 1, "max": float("inf")}},
            "`learning_rate`: expected a finite number at max. Received: inf",
        ),
        (
            {"learning_rate": {"min": 1, "max": 0.1}},
            "`learning_rate`: expected `max` to be above min, 1. Received: ma",
        ),
        (
            {"architecture": {"min": 1, "max": 2}},
            "`architecture`: expected a list of choices, as it is not a number",
        ),
        (
            {"gate_options": {"gamma": {"min": 0, "max": 1, "step": "a"}}},
            "`gate_options.gamma`: expected a number at step. Received: 'a'",
        ),
    ],
)
def test_wrong_spaces(content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_space(content, COMET)


def test_options_are_those_of_the_gate() -> None:
    content = {"gate_options": {"temperature": {"min": 1, "max": 2}}}
    space = parse_space(content, {"gate": "moesart+"})
    assert space.dimensions == {"gate_options.temperature": Range(1, 2)}
    with pytest.raises(ValueError, match="`gate` must be one of"):
        parse_space(content, {"gate": "none"})
