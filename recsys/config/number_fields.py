"""The types of numbers that a configuration has."""

import math
from typing import Annotated
from typing import Any

from pydantic import BeforeValidator
from pydantic import Field
from pydantic_core import PydanticCustomError

from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.bounds import MOST_EXPERTS


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
