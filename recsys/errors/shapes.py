"""The shapes of what structured files hold, checked field by field."""

from typing import Any
from typing import TypeVar

from pydantic import AfterValidator
from pydantic import TypeAdapter
from pydantic import ValidationError
from pydantic import ValidatorFunctionWrapHandler
from pydantic import WrapValidator
from pydantic_core import ErrorDetails
from pydantic_core import PydanticCustomError

from recsys.errors import FileError
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import printable
from recsys.errors.shown import shown

Shape = TypeVar("Shape")

# What is expected where pydantic reports an error of a type; {names} are
# those of the error's context.
_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "above {gt:.10g}",
    "greater_than_equal": "at least {ge:.10g}",
    "int_type": "an integer",
    "invalid_key": "a name that is a text",
    "less_than": "below {lt:.10g}",
    "less_than_equal": "at most {le:,.10g}",
    "list_type": "a list",
    "missing": "a value",
    "model_type": "an object",
    "string_type": "a text",
    "too_long": "at most {max_length:,} long",
    "too_short": "at least {min_length} long",
}
# Errors of a field that there is none of.
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def check_shape(
    content: object, shape: Any, file: object, line: int | None = None
) -> Any:
    """Returns what a structured file holds as what it has to be.

    Args:
        content: What the file holds, such as JSON.
        shape: What that has to be: a type, dataclass or model as pydantic
            takes it. The ValueErrors of its validators say all there is to
            say, but for the place.
        file: The file, for the error message.
        line: The line, where each line is a content of its own.

    Raises:
        FileError: A field is missing, unknown or wrong. The message names the
            first one.

    Example:
    >>> check_shape({"k": [1, None]}, dict[str, list[int]], "space.json")
    Traceback (most recent call last):
    ...
    recsys.errors.FileError: space.json: expected an integer at k[1]. \
Received: None
    """
    try:
        return TypeAdapter(shape).validate_python(content)
    except ValidationError as error:
        first = first_error(error)
        place = _place(first)
        if first["type"] == "value_error":
            where = f"{file}" if line is None else f"{file}, line {line}"
            text = f"{where}{place and f', {place}'}: {own_words(first)}"
            raise FileError(printable(text)) from None
        raise FileError.at(
            file,
            expected_by(first, shape) + (place and f" at {place}"),
            "none" if first["type"] == "missing" else shown(first["input"]),
            line=line,
        ) from None


def described(expected: str) -> WrapValidator:
    """Annotates what is expected where a value, or a part, has another type.

    Example:
    >>> from typing import Annotated
    >>> Units = Annotated[list[int], described("a list of integers")]
    >>> check_shape({"units": [8, None]}, dict[str, Units], "config.json")
    Traceback (most recent call last):
    ...
    recsys.errors.FileError: config.json: expected a list of integers at \
units. Received: [8, None]
    """

    def check(value: object, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            if not is_of_type(first_error(error)):
                raise
            raise PydanticCustomError(
                "described_type", "{expected}", {"expected": expected}
            ) from None

    return WrapValidator(check)


def filled(expected: str) -> AfterValidator:
    """Annotates a text that must have more than blanks in it.

    Example:
    >>> from typing import Annotated
    >>> Name = Annotated[str, filled("a name")]
    >>> check_shape({"name": " "}, dict[str, Name], "dataset.json")
    Traceback (most recent call last):
    ...
    recsys.errors.FileError: dataset.json: expected a name at name. \
Received: ' '
    """

    def check(value: str) -> str:
        if not value.strip():
            raise PydanticCustomError(
                "blank", "{expected}", {"expected": expected}
            )
        return value

    return AfterValidator(check)


def _whole(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("broken_text", "valid Unicode text") from None
    return value


# A text without half a character, a lone surrogate, which no file can have.
WHOLE = AfterValidator(_whole)


def first_error(error: ValidationError) -> ErrorDetails:
    """The error to report; a wrong name explains a missing one."""
    errors = error.errors(include_url=False)
    return next((e for e in errors if e["type"] in UNKNOWN), errors[0])


def is_of_type(error: ErrorDetails) -> bool:
    """Returns whether a value has another type than it should."""
    return error["type"].endswith("_type")


def own_words(error: ErrorDetails) -> str:
    """The message of a validator of this package."""
    return error["msg"].removeprefix("Value error, ")


def expected_by(error: ErrorDetails, shape: Any) -> str:
    """The expectation of a shape at an error."""
    if error["type"] in UNKNOWN:
        known = TypeAdapter(shape).json_schema()["properties"]
        hint = did_you_mean(error["loc"][-1], known)
        return f"one of the fields {', '.join(known)}{hint}"
    text = _EXPECTED.get(error["type"])
    if text is None:
        return error["msg"].removeprefix("Input should be ")
    return text.format(**error.get("ctx", {}))


def _place(error: ErrorDetails) -> str:
    """The way to the value, such as `models.Top-k.k`."""
    place = ""
    for step in error["loc"]:
        if step != "[key]":  # Of a name, instead of what has the name.
            place += f"[{step}]" if isinstance(step, int) else f".{step}"
    return place.removeprefix(".")
