"""Argument checks whose messages say what was expected and received."""

import math
import reprlib
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor

# Sizes and indices are 32-bit integers in the graphs of the backends.
LARGEST_SIZE = 2**31 - 1

# Bits of an integer that a message writes out.
_LONGEST = 1000


def check_integer(
    name: str, value: object, minimum: int, maximum: int | None = None
) -> int:
    """Returns `value` when it is an integer within the bounds.

    Args:
        name: The argument's name, for the message.
        value: The argument to check.
        minimum: Smallest value allowed.
        maximum: Largest value allowed, or `None` for no upper bound.

    Returns:
        `value` as an `int`.

    Raises:
        TypeError: If `value` is not an integer (booleans are not).
        ValueError: If it lies outside the bounds.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"`{name}` must be an integer. "
            f"Received: {name}={value!r} of type {type(value).__name__}"
        )
    number: int = value.__index__()
    if number < minimum or (maximum is not None and number > maximum):
        bound = (
            f"at least {minimum}"
            if maximum is None
            else f"between {minimum} and {maximum}"
        )
        raise ValueError(
            f"`{name}` must be {bound}. Received: {name}={_shown(number)}"
        )
    return number


def check_size(name: str, value: object, minimum: int = 1) -> int:
    """Returns `value` when it can be the size of an axis of a tensor.

    Args:
        name: The argument's name, for the message.
        value: The argument to check.
        minimum: Smallest size allowed. Defaults to 1.

    Returns:
        `value` as an `int`.

    Raises:
        TypeError: If `value` is not an integer (booleans are not).
        ValueError: If it is below the minimum or above `LARGEST_SIZE`.
    """
    size = check_integer(name, value, minimum)
    if size > LARGEST_SIZE:
        raise ValueError(
            f"`{name}` must be at most {LARGEST_SIZE}. "
            f"Received: {name}={_shown(size)}"
        )
    return size


def check_positive(name: str, value: object) -> float:
    """Returns `value` as a float when it is a finite number above 0."""
    number = _as_float(name, value)
    if not 0 < number < float("inf"):
        raise ValueError(
            f"`{name}` must be a finite number above 0. "
            f"Received: {name}={value!r}"
        )
    return number


def check_non_negative(name: str, value: object) -> float:
    """Returns `value` as a float when it is a finite number, at least 0."""
    number = _as_float(name, value)
    if not 0 <= number < float("inf"):
        raise ValueError(
            f"`{name}` must be a finite number, at least 0. "
            f"Received: {name}={value!r}"
        )
    return number


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Returns `value` when it is one of the strings in `choices`."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(choice) for choice in choices)
        raise ValueError(
            f"`{name}` must be one of {options}. Received: {name}={value!r}"
        )
    return value


def check_tensor(name: str, value: object, smallest_rank: int = 0) -> None:
    """Raises an error unless `value` is a tensor of numbers.

    Args:
        name: The argument's name, for the message.
        value: The argument to check: a tensor of the backend, symbolic or
            not, a variable or an array.
        smallest_rank: Minimum number of axes. Defaults to 0.

    Raises:
        TypeError: If it is no tensor, or its entries are neither booleans,
            integers nor real numbers.
        ValueError: If it has too few axes.
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        raise TypeError(
            f"`{name}` must be a tensor. Received: "
            f"{name}={reprlib.repr(value)} of type {type(value).__name__}"
        )
    if not _is_real(dtype):
        raise TypeError(
            f"`{name}` must hold booleans, integers or real numbers. "
            f"Received: {name} of dtype {dtype}"
        )
    rank = getattr(shape, "rank", 0)
    if rank is not None and len(shape) < smallest_rank:  # TensorFlow's unknown.
        raise ValueError(
            f"`{name}` must have at least {smallest_rank} axes. "
            f"Received: {name} of shape {tuple(shape)}"
        )


def check_count(name: str, value: object, minimum: int) -> None:
    """Raises an error unless `value` is an integer, or a tensor of one.

    Args:
        name: The argument's name, for the message.
        value: The argument to check. A tensor's value is not looked at.
        minimum: Smallest value allowed.

    Raises:
        TypeError: If `value` is neither.
        ValueError: If it is an integer below the minimum.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        check_integer(name, value, minimum)
    elif not keras.backend.is_int_dtype(keras.backend.standardize_dtype(dtype)):
        raise TypeError(
            f"`{name}` must be an integer. Received: {name} of dtype {dtype}"
        )


def as_tensor(name: str, value: object, smallest_rank: int = 0) -> Tensor:
    """Returns `value` as a tensor of the backend.

    Args:
        name: The argument's name, for the message.
        value: The argument to check: a tensor, an array, a number, or nested
            lists of numbers.
        smallest_rank: Minimum number of axes. Defaults to 0.

    Raises:
        TypeError: If it holds anything but booleans, integers and real numbers.
        ValueError: If it has too few axes, or lists differ in their lengths.
    """
    array = value
    if getattr(value, "dtype", None) is None and not isinstance(value, str):
        try:
            array = np.asarray(value)
        except ValueError:
            raise ValueError(
                f"`{name}` must be a tensor, or lists of equal lengths. "
                f"Received: {name}={reprlib.repr(value)}"
            ) from None
        if array.dtype.kind not in "biuf":
            array = value
    check_tensor(name, array, smallest_rank)
    if isinstance(value, keras.KerasTensor):
        return value
    return ops.convert_to_tensor(value)


def _shown(number: int) -> str:
    """The digits of an integer, or how many: Python writes no 4,300 of them."""
    if number.bit_length() <= _LONGEST:
        return str(number)
    digits = int(number.bit_length() * math.log10(2)) + 1
    return f"an integer of about {digits:,} digits"


def _is_real(dtype: object) -> bool:
    try:
        known = keras.backend.standardize_dtype(dtype)
    except ValueError:  # Objects, and what only one backend knows.
        return False
    return known == "bool" or bool(
        keras.backend.is_int_dtype(known) or keras.backend.is_float_dtype(known)
    )


def _as_float(name: str, value: Any) -> float:
    if isinstance(value, (bool, str)):
        raise TypeError(
            f"`{name}` must be a number. "
            f"Received: {name}={value!r} of type {type(value).__name__}"
        )
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{name}` must be a number. "
            f"Received: {name}={value!r} of type {type(value).__name__}"
        ) from None
