"""Options that are one of a few names, which the program knows."""

from collections.abc import Iterable

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from recsys.errors.shown import did_you_mean


def check_choice(option: str, value: str, choices: Iterable[str]) -> None:
    """Checks an option that has a name of its own among a few.

    Args:
        option: The option.
        value: What it was given.
        choices: What it may be.

    Raises:
        ValueError: It is none of them.

    Example:
    >>> check_choice("index", "fais", ["brute-force", "faiss"])
    Traceback (most recent call last):
    ...
    ValueError: `index` must be one of brute-force, faiss. \
Received: index='fais' (did you mean 'faiss'?)
    """
    known = tuple(choices)
    if value not in known:
        raise ValueError(
            f"`{option}` must be one of {', '.join(known)}. "
            f"Received: {option}={value!r}{did_you_mean(value, known)}"
        )


def one_of(choices: Iterable[str]) -> AfterValidator:
    """Annotates a text that is one of a few.

    Example:
    >>> from typing import Annotated
    >>> from recsys.errors.shapes import check_shape
    >>> Optimizer = Annotated[str, one_of(["adam", "adagrad"])]
    >>> check_shape("adamm", Optimizer, "config.json")
    Traceback (most recent call last):
    ...
    recsys.errors.FileError: config.json: expected one of adam, adagrad \
(did you mean 'adam'?). Received: 'adamm'
    """
    known = tuple(choices)

    def check(value: str) -> str:
        if value not in known:
            names = f"{', '.join(known)}{did_you_mean(value, known)}"
            raise PydanticCustomError(
                "choice", "one of {choices}", {"choices": names}
            )
        return value

    return AfterValidator(check)
