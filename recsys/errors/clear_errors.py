from dataclasses import fields
from functools import wraps
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from recsys.errors.shapes import UNKNOWN
from recsys.errors.shapes import Shape
from recsys.errors.shapes import expected_by
from recsys.errors.shapes import first_error
from recsys.errors.shapes import is_of_type
from recsys.errors.shapes import own_words
from recsys.errors.shown import shown


def with_clear_errors(shape: type[Shape]) -> type[Shape]:
    """Makes a pydantic dataclass raise what wrong arguments raise elsewhere.

    Its constructor names the first wrong field: in a TypeError where the value
    has another type, in a ValueError otherwise. A ValueError of its validators
    says all there is to say.

    Example:
    >>> from pydantic import Field
    >>> from pydantic.dataclasses import dataclass
    >>> @with_clear_errors
    ... @dataclass
    ... class Top:
    ...     k: int = Field(ge=1)
    >>> Top(k=0)
    Traceback (most recent call last):
    ...
    ValueError: `k` must be at least 1. Received: k=0
    """
    validate: Any = shape.__init__

    @wraps(validate)
    def init(self: Shape, *args: object, **kwargs: object) -> None:
        try:
            validate(self, *args, **kwargs)
        except ValidationError as error:
            raise _clear(first_error(error), shape) from None

    shape.__init__ = init  # type: ignore[assignment, method-assign]
    return shape


def _clear(error: ErrorDetails, shape: Any) -> TypeError | ValueError:
    if error["type"] == "value_error":
        return ValueError(own_words(error))
    if error["type"] == "unexpected_positional_argument":
        return TypeError(f"expected at most {error['loc'][0]} arguments")
    name = error["loc"][0]
    if isinstance(name, int):  # Given by its place.
        name = fields(shape)[name].name
    expected, received = expected_by(error, shape), shown(error["input"])
    if error["type"] in UNKNOWN:
        return ValueError(f"expected {expected}. Received: {shown(name)}")
    if error["type"] == "missing":
        return ValueError(f"`{name}` must be given. Received: none")
    kind = TypeError if is_of_type(error) else ValueError
    return kind(f"`{name}` must be {expected}. Received: {name}={received}")
