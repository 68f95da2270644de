"""Argument checks whose messages say what was expected and received."""

from typing import Any


def check_integer(
    name: str, value: Any, minimum: int, maximum: int | None = None
) -> int:
    """Returns `value` when it is an integer within the bounds.

    Args:
        name: The argument's name, for the message.
        value: What the caller passed.
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
    value = value.__index__()
    if value < minimum or (maximum is not None and value > maximum):
        bound = (
            f"at least {minimum}"
            if maximum is None
            else f"between {minimum} and {maximum}"
        )
        raise ValueError(f"`{name}` must be {bound}. Received: {name}={value}")
    return value


def check_positive(name: str, value: Any) -> float:
    """Returns `value` as a float when it is a finite number above 0."""
    number = _as_float(name, value)
    if not 0 < number < float("inf"):
        raise ValueError(
            f"`{name}` must be a finite number above 0. "
            f"Received: {name}={value!r}"
        )
    return number


def check_non_negative(name: str, value: Any) -> float:
    """Returns `value` as a float when it is a finite number, at least 0."""
    number = _as_float(name, value)
    if not 0 <= number < float("inf"):
        raise ValueError(
            f"`{name}` must be a finite number, at least 0. "
            f"Received: {name}={value!r}"
        )
    return number


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Returns `value` when it is one of the strings in `choices`."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(choice) for choice in choices)
        raise ValueError(
            f"`{name}` must be one of {options}. Received: {name}={value!r}"
        )
    return value


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
