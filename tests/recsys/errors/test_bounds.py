import typing
from dataclasses import fields

import numpy as np
import pytest

from recsys.columns.kind import Kind
from recsys.columns.kind import declared
from recsys.config.train_config import TrainConfig
from recsys.errors.bounds import check_count
from recsys.errors.bounds import check_seed
from recsys.features import FEATURES
from recsys.tasks import TASKS

HUGE = 10**30


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "`jobs` must be at least 1. Received: jobs=0"),
        (9, "`jobs` must be at most 8. Received: jobs=9"),
        (HUGE, f"`jobs` must be at most 8. Received: jobs={HUGE}"),
    ],
)
def test_counts(value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_count("jobs", value, most=8)


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_counts_are_integers(value: object) -> None:
    with pytest.raises(TypeError, match="`jobs` must be an integer"):
        check_count("jobs", value)


def test_counts_and_seeds_within_their_bounds() -> None:
    check_count("jobs", np.int64(8), most=8)
    check_seed(np.int64(0))
    check_seed(2**32 - 1)


@pytest.mark.parametrize("seed", [-1, 2**32, HUGE, 0.5])
def test_seeds(seed: object) -> None:
    with pytest.raises(ValueError, match="`seed` must be at least 0 and below"):
        check_seed(seed)


def numbers(hints: dict[str, object], names: list[str]) -> list[str]:
    """The names of what may be an integer or a float, or a list of them."""
    return [
        name
        for name in names
        if {int, float} & set(_types(hints[name])) and name != "type"
    ]


def _types(hint: object) -> list[object]:
    parts = typing.get_args(hint)
    return [hint, *(one for part in parts for one in _types(part))]


HINTS = typing.get_type_hints(TrainConfig)


@pytest.mark.parametrize(
    "name", numbers(HINTS, [field.name for field in fields(TrainConfig)])
)
@pytest.mark.parametrize("number", [HUGE, -HUGE, 1e300, float("inf")])
def test_every_number_of_a_configuration_is_bounded(
    name: str, number: float
) -> None:
    kinds = _types(HINTS[name])
    value: object = number
    if any(typing.get_origin(kind) is dict for kind in kinds):
        value = {"watch": number}
    elif any(typing.get_origin(kind) is list for kind in kinds):
        value = [number]
    with pytest.raises((ValueError, TypeError), match=f"`{name}` must be"):
        TrainConfig(data="d", out="o", **{name: value})  # type: ignore[arg-type]


KINDS = [*FEATURES.values(), *TASKS.values()]
OPTIONS = [
    (kind, name)
    for kind in KINDS
    for name in numbers(
        {name: one.annotation for name, one in kind.model_fields.items()},
        [*kind.model_fields],
    )
]


@pytest.mark.parametrize("number", [HUGE, -HUGE, float("inf"), float("nan")])
@pytest.mark.parametrize(("kind", "name"), OPTIONS)
def test_every_number_of_a_declaration_is_bounded(
    kind: type[Kind], name: str, number: float
) -> None:
    hint = kind.model_fields[name].annotation
    value: object = number
    if any(typing.get_origin(one) is list for one in _types(hint)):
        value = [number, number]
    declaration = {"type": kind.type, name: value}
    kinds = {kind.type: kind}
    with pytest.raises(ValueError, match=name) as caught:
        declared(declaration, kinds, "'features'", "user")
    assert "Received: " in str(caught.value)
    assert len(str(caught.value)) < 500


def test_there_are_such_options() -> None:
    assert {"dim", "buckets", "length", "min_count", "focal"} <= {
        name for _, name in OPTIONS
    }
