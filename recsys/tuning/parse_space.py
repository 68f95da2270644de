"""Reads a search space in the form that a YAML file has."""

import sys
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from typing import get_args
from typing import get_origin
from typing import get_type_hints

from recsys.config import TrainConfig
from recsys.models.gates import option_types
from recsys.nearest import did_you_mean
from recsys.tuning.dimensions import Choices
from recsys.tuning.dimensions import Dimension
from recsys.tuning.dimensions import Range
from recsys.tuning.space import Space

# What a sweep is about; all its trials share them. Losses of standardised
# targets cannot be compared with others.
_SHARED = ("data", "out", "gate", "backend", "standardize_targets")

_RANGE_KEYS = ("min", "max", "sampling", "step")


def parse_space(content: Mapping[str, Any], given: Mapping[str, Any]) -> Space:
    """Reads a search space.

    Args:
        content: For each field of `TrainConfig` a list of choices, or a
            range: "min", "max" and, if wanted, "sampling" ("linear" or "log")
            and "step". For `gate_options` and `task_weights` such a list or
            range by name.
        given: Fields that all trials share. They are not searched, even if
            they are in `content`.

    Raises:
        ValueError: There is no such field or option, or what it is to be
            drawn from is not one of the above.

    Example:
    >>> content = {"k": [1, 2], "gate_options": {"gamma": [0.1, 1.0]}}
    >>> space = parse_space(content, {"gate": "comet", "k": 4})
    >>> space.fields({"gate_options.gamma": 1.0})
    {'gate': 'comet', 'k': 4, 'gate_options': {'gamma': 1.0}}
    """
    kinds = _searchable(given.get("gate", TrainConfig.gate))
    dimensions = {}
    for name, description in _flat(content, list(kinds)):
        if not _is_given(name, given):
            dimensions[name] = _dimension(name, description, kinds)
    return Space(given, dimensions)


def _searchable(gate: str) -> dict[str, Any]:
    """The types of what can be searched, by name."""
    hints = get_type_hints(TrainConfig)
    names = [item.name for item in fields(TrainConfig)]
    kinds = {name: hints[name] for name in names if name not in _SHARED}
    for option, hint in option_types(gate).items():
        kinds[f"gate_options.{option}"] = hint
    return kinds


def _is_given(name: str, given: Mapping[str, Any]) -> bool:
    field, _, key = name.partition(".")
    return field in given and (not key or key in given[field])


def _flat(
    content: Mapping[str, Any], known: list[str]
) -> Iterator[tuple[str, Any]]:
    """Yields names and descriptions; options get their dotted names."""
    if not isinstance(content, Mapping):
        raise ValueError(
            f"expected the fields to be searched by name. Received: {content!r}"
        )
    hints = get_type_hints(TrainConfig)
    for name, description in content.items():
        if get_origin(hints.get(name)) is not dict:
            _check_known(name, known)
            yield name, description
        elif not isinstance(description, Mapping):
            raise ValueError(
                f"`{name}`: expected what to search by name. "
                f"Received: {description!r}"
            )
        else:
            for key in description:
                if name == "gate_options":
                    _check_known(f"{name}.{key}", known)
                yield f"{name}.{key}", description[key]


def _check_known(name: str, known: list[str]) -> None:
    if name not in known:
        raise ValueError(
            f"the fields to be searched must be among {', '.join(known)}"
            f"{did_you_mean(name, known)}. Received: {name!r}"
        )


def _dimension(
    name: str, description: Any, kinds: Mapping[str, Any]
) -> Dimension:
    try:
        if isinstance(description, list):
            return Choices(description)
        if isinstance(description, Mapping):
            # The weights of tasks, whose names only the data know.
            return _range(description, kinds.get(name, float))
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from None
    raise ValueError(
        f"`{name}`: expected a list of choices, or a range with min and max. "
        f"Received: {description!r}"
    )


def _range(description: Mapping[str, Any], hint: Any) -> Range:
    for key in description:
        if key not in _RANGE_KEYS:
            raise ValueError(
                f"expected a range to have the keys {', '.join(_RANGE_KEYS)}"
                f"{did_you_mean(key, _RANGE_KEYS)}. Received: {key!r}"
            )
    types = get_args(hint) or (hint,)
    if not {int, float} & set(types):
        raise ValueError(
            "expected a list of choices, as it is not a number. "
            f"Received: {dict(description)}"
        )
    integer = float not in types
    step = description.get("step")
    return Range(
        _number("min", description.get("min"), integer),
        _number("max", description.get("max"), integer),
        integer,
        description.get("sampling", "linear"),
        step if step is None else _number("step", step, integer),
    )


def _number(key: str, value: Any, integer: bool) -> float:
    kinds = int if integer else int | float
    if (
        not isinstance(value, kinds)
        or isinstance(value, bool)
        or not abs(value) <= sys.float_info.max  # Nor NaN.
    ):
        expected = "an integer" if integer else "a number"
        raise ValueError(
            f"expected `{key}` to be {expected}. Received: {key}={value!r}"
        )
    return value
