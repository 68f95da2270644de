"""The largest sizes and numbers that options and declarations may have.

They are far beyond what anyone trains, and keep what is computed with them
from overflowing and loops over them from never ending. Whether a model within
them fits into memory is another question: `recsys.models.expected_memory`.
"""

from numbers import Integral
from typing import Annotated

from pydantic import Field

from recsys.errors.shown import shown

# Rows, steps, epochs, workers and other counts; seeds are below it.
LARGEST_COUNT = 2**32
LARGEST_WIDTH = 2**20  # Of an embedding, a layer, a vector or a list.
MOST_LAYERS = 2**10  # One after the other.
MOST_EXPERTS = 2**16
MOST_BUCKETS = 2**31 - 2  # Their numbers, from 1, are int32.
LARGEST_ID_COUNT = 2**53  # Occurrences of an id.
MOST_REPEATS = 10**6  # Of what is computed on all rows again.
LARGEST_FOCUS = 1e3  # Exponent of the focal loss.

Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
Width = Annotated[int, Field(ge=1, le=LARGEST_WIDTH)]
Layers = Annotated[int, Field(ge=1, le=MOST_LAYERS)]
Buckets = Annotated[int, Field(ge=1, le=MOST_BUCKETS)]
IdCount = Annotated[int, Field(ge=1, le=LARGEST_ID_COUNT)]


def check_seed(seed: object) -> None:
    """Checks the seed of random numbers.

    Raises:
        ValueError: It is not at least 0 and below 2^32.
    """
    if not isinstance(seed, Integral) or not 0 <= int(seed) < LARGEST_COUNT:
        raise ValueError(
            "`seed` must be at least 0 and below 2^32. "
            f"Received: seed={shown(seed)}"
        )


def check_count(name: str, value: object, most: int = LARGEST_COUNT) -> None:
    """Checks an option that counts something.

    Args:
        name: The option.
        value: What it was given.
        most: The largest number that it may have. Defaults to
            `LARGEST_COUNT`.

    Raises:
        TypeError: The value is no integer.
        ValueError: It is not between 1 and `most`.

    Example:
    >>> check_count("jobs", 0)
    Traceback (most recent call last):
    ...
    ValueError: `jobs` must be at least 1. Received: jobs=0
    """
    received = f"Received: {name}={shown(value)}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"`{name}` must be an integer. {received}")
    if int(value) < 1:
        raise ValueError(f"`{name}` must be at least 1. {received}")
    if int(value) > most:
        raise ValueError(f"`{name}` must be at most {most:,}. {received}")
