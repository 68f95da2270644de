"""Reads a search space in the form that a YAML file has."""

from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated
from typing import Any
from typing import get_args
from typing import get_origin
from typing import get_type_hints

from pydantic import AfterValidator

from recsys.config.train_config import TrainConfig
from recsys.errors import FileError
from recsys.errors.shapes import check_shape
from recsys.errors.shapes import described
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.models.gates import option_types
from recsys.tuning.dimensions import Choices
from recsys.tuning.dimensions import Dimension
from recsys.tuning.dimensions import IntegerRange
from recsys.tuning.dimensions import Range
from recsys.tuning.space import Space

# What a sweep is about; all its trials share them. Losses of standardised
# targets cannot be compared with others.
_SHARED = (
    "data",
    "out",
    "warm_start",
    "gate",
    "backend",
    "standardize_targets",
    "streaming",
    "checkpoint_steps",
    "distribute",
    "track",
)

_Choices = Annotated[list[Any], AfterValidator(Choices)]
_Fields = Annotated[JsonObject, described("the fields to be searched by name")]
_Entries = Annotated[JsonObject, described("what to search by name")]


def parse_space(content: JsonMapping, given: JsonMapping) -> Space:
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


def _searchable(gate: str) -> dict[str, object]:
    """The types of what can be searched, by name."""
    hints = get_type_hints(TrainConfig)
    names = [item.name for item in fields(TrainConfig)]
    kinds = {name: hints[name] for name in names if name not in _SHARED}
    for option, hint in option_types(gate).items():
        kinds[f"gate_options.{option}"] = hint
    return kinds


def _is_given(name: str, given: JsonMapping) -> bool:
    field, _, key = name.partition(".")
    return field in given and (not key or key in given[field])


def _flat(
    content: JsonMapping, known: list[str]
) -> Iterator[tuple[str, object]]:
    """Yields names and descriptions; options get their dotted names."""
    hints = get_type_hints(TrainConfig)
    for name, description in _checked(content, _Fields, "space").items():
        if get_origin(hints.get(name)) is not dict:
            _check_known(name, known)
            yield name, description
            continue
        for key, entry in _checked(description, _Entries, name).items():
            if name == "gate_options":
                _check_known(f"{name}.{key}", known)
            yield f"{name}.{key}", entry


def _check_known(name: str, known: list[str]) -> None:
    if name not in known:
        raise ValueError(
            f"the fields to be searched must be among {', '.join(known)}"
            f"{did_you_mean(name, known)}. Received: {shown(name)}"
        )


def _dimension(
    name: str, description: object, kinds: Mapping[str, object]
) -> Dimension:
    # The weights of tasks, whose names only the data know.
    hint = kinds.get(name, float)
    types = {hint, *get_args(hint)}
    is_number = bool({int, float} & types)
    if isinstance(description, list):
        shape: object = _Choices
    elif isinstance(description, Mapping) and is_number:
        shape = Range if float in types else IntegerRange
    else:
        rest = "or a range with min and max"
        if not is_number:
            rest = "as it is not a number"
        raise ValueError(
            f"`{name}`: expected a list of choices, {rest}. "
            f"Received: {shown(description)}"
        )
    return _checked(description, shape, name)


def _checked(content: object, shape: object, name: str) -> Any:
    try:
        return check_shape(content, shape, f"`{name}`")
    except FileError as error:  # The caller knows the file's name.
        raise ValueError(str(error)) from None
