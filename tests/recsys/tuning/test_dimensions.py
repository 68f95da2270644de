import json
from typing import Any

import keras_tuner
import pytest

from recsys.tuning.dimensions import Choices
from recsys.tuning.dimensions import IntegerRange
from recsys.tuning.dimensions import Range

pytestmark = pytest.mark.once("torch")


@pytest.mark.parametrize(
    "values",
    [
        [0.01, 1, 10],
        ["mmoe", "ple"],
        [[256], [128, 64]],
        [True, False],
        [None, 1000],
    ],
)
def test_choices_of_any_kind_pass_through_keras_tuner(
    values: list[Any],
) -> None:
    hyperparameters = keras_tuner.HyperParameters()
    choices = Choices(values)
    choices.declare(hyperparameters, "x")
    (dimension,) = hyperparameters.space
    drawn = [choices.decode(value) for value in dimension.values]
    assert json.dumps(drawn) == json.dumps(values)
    assert choices.examples == values


def test_a_choice_of_one_is_fixed() -> None:
    assert Choices([512]).is_fixed
    assert not Choices([512, 512.5]).is_fixed
    assert not Range(1, 2).is_fixed


def drawn_by_keras_tuner(dimension: Range, count: int = 400) -> list[Any]:
    hyperparameters = keras_tuner.HyperParameters()
    dimension.declare(hyperparameters, "x")
    (declared,) = hyperparameters.space
    return [
        dimension.decode(declared.prob_to_value((i + 0.5) / count))
        for i in range(count)
    ]


def test_logarithmic_range_draws_each_decade_alike() -> None:
    drawn = drawn_by_keras_tuner(Range(1e-4, 1e-2, sampling="log"))
    assert sum(value < 1e-3 for value in drawn) == 200
    assert min(drawn) == pytest.approx(1e-4, rel=0.01)
    assert max(drawn) == pytest.approx(1e-2, rel=0.01)


def test_linear_range_draws_both_halves_alike() -> None:
    drawn = drawn_by_keras_tuner(Range(0, 2))
    assert sum(value < 1 for value in drawn) == 200
    assert all(type(value) is float for value in drawn)


@pytest.mark.parametrize(
    ("dimension", "expected"),
    [
        (IntegerRange(1, 3), {1, 2, 3}),
        (IntegerRange(1, 9, step=4), {1, 5, 9}),
        (IntegerRange(4, 32, sampling="log", step=2), {4, 8, 16, 32}),
        (Range(0.5, 1.5, step=0.5), {0.5, 1.0, 1.5}),
    ],
)
def test_steps_reach_both_ends(dimension: Range, expected: set[float]) -> None:
    drawn = drawn_by_keras_tuner(dimension)
    assert set(drawn) == expected
    kind = int if isinstance(dimension, IntegerRange) else float
    assert all(type(value) is kind for value in drawn)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, 1), "expected `max` to be above min, 2. Received: max=1"),
        ((1, 1), "expected `max` to be above min"),
        ((0, 1, "log"), "expected `min` to be above 0 where the"),
        (
            (0, 1, "uniform"),
            "`sampling` must be 'linear' or 'log'. Received: s",
        ),
        ((0, 1, "linear", 0), "expected `step` to be above 0"),
        ((1, 9, "log", 1), "expected `step` to be above 1"),
    ],
)
def test_impossible_ranges(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Range(*arguments)


def test_no_choices() -> None:
    with pytest.raises(ValueError, match="expected at least one value"):
        Choices([])


@pytest.mark.parametrize(
    ("dimension", "value"),
    [
        (Choices([1, 2]), "3"),
        (Choices([1, 2]), "true"),
        (Choices([1, 2]), 1),
        (Choices(["a", "b"]), "a"),
        (Range(1, 2), 2.1),
        (Range(1, 2), float("nan")),
        (Range(1, 2), True),
        (IntegerRange(1, 9), 1.5),
        (IntegerRange(1, 9), "2"),
    ],
)
def test_what_was_never_drawn_is_refused(
    dimension: Choices | Range, value: Any
) -> None:
    with pytest.raises(ValueError, match="Received: "):
        dimension.decode(value)


def test_a_number_may_be_written_as_another_type() -> None:
    assert Choices([1, 2]).decode("1.0") == 1
    assert IntegerRange(1, 9).decode(5.0) == 5
