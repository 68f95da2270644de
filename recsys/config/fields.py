"""The fields that a configuration has: types, texts below them, checks."""

import math
import os
from textwrap import fill
from typing import Annotated
from typing import Any
from typing import TypeVar

from pydantic import BeforeValidator
from pydantic import ConfigDict
from pydantic import Field
from pydantic_core import PydanticCustomError

from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.bounds import MOST_EXPERTS
from recsys.errors.bounds import MOST_LAYERS
from recsys.errors.bounds import Width
from recsys.errors.shapes import described

# What is not of a field's type is refused; the text below it describes it.
SHAPE = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)
Shape = TypeVar("Shape")


def _usable(number: Any) -> Any:
    """Refuses numbers that break what they go into; takes anything else."""
    if isinstance(number, float) and not math.isfinite(number):
        raise PydanticCustomError("finite", "finite")
    if isinstance(number, int | float) and abs(number) > LARGEST_COUNT:
        context = {"largest": f"{LARGEST_COUNT:,}"}
        raise PydanticCustomError("large", "at most {largest}", context)
    return number


Usable = BeforeValidator(_usable)
Share = Annotated[float, Field(ge=0, lt=1), Usable]
Weight = Annotated[float, Field(ge=0), Usable]
Rate = Annotated[float, Field(gt=0), Usable]
Experts = Annotated[int, Field(ge=2, le=MOST_EXPERTS)]


def _as_text(path: Any) -> Any:
    return os.fspath(path) if isinstance(path, os.PathLike) else path


_Lax = Field(strict=False)  # Takes tuples for lists, any mapping for a dict.
Text = Annotated[str, described("a string")]
Place = Annotated[Text, BeforeValidator(_as_text)]
Units = Annotated[
    list[Width],
    _Lax,
    Field(max_length=MOST_LAYERS),
    described("a list of integers"),
]
Weights = Annotated[dict[str, Weight], _Lax, described("numbers by name")]
Options = Annotated[
    dict[str, Annotated[Any, Usable]], _Lax, described("values by name")
]


def field_texts(shape: type) -> dict[str, str]:
    """Returns what is written below the fields of a pydantic dataclass.

    Args:
        shape: A class whose `ConfigDict` has `use_attribute_docstrings`, or
            one derived from it.

    Returns:
        A line for each field that has a text, by name; those of base classes
        last.
    """
    # A derived class does not know the texts of those that it is derived from.
    return {
        name: " ".join(field.description.split())
        for owner in shape.__mro__
        for name, field in getattr(owner, "__pydantic_fields__", {}).items()
        if field.description
    }


def with_arguments(shape: type[Shape]) -> type[Shape]:
    """Adds the texts of the fields to the docstring, as arguments.

    `help` of a class shows its docstring, and no text below a field.
    """
    before, raises, after = str(shape.__doc__).partition("    Raises:\n")
    lines = [
        fill(
            f"{name}: {text}",
            width=80,
            initial_indent=" " * 8,
            subsequent_indent=" " * 12,
            break_on_hyphens=False,
        )
        for name, text in field_texts(shape).items()
    ]
    arguments = "\n".join(["    Args:", *lines, "\n"])
    shape.__doc__ = f"{before}{arguments}{raises}{after}"
    return shape


def check_flag_with(
    name: str, value: bool, flag: str, flag_value: bool
) -> None:
    """Checks that a flag is not set without another one that it needs.

    Args:
        name: The flag that is needed.
        value: What it was given.
        flag: The flag that needs it.
        flag_value: What that was given.

    Raises:
        ValueError: Only the second is set.

    Example:
    >>> check_flag_with("retrieval", False, "tower", True)
    Traceback (most recent call last):
    ...
    ValueError: `retrieval` must be True with tower. Received: retrieval=False
    """
    if flag_value and not value:
        raise ValueError(
            f"`{name}` must be True with {flag}. Received: {name}={value}"
        )
