"""The types of the fields that a configuration has."""

import math
import os
from typing import Annotated
from typing import Any

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
