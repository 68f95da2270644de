"""The shapes of what structured files hold, checked field by field."""

from typing import Any
from typing import TypeVar

from pydantic import TypeAdapter
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from recsys.errors import FileError
from recsys.nearest import did_you_mean
from recsys.shown import printable
from recsys.shown import shown

Shape = TypeVar("Shape")

# What is expected where pydantic reports an error of a type.
_EXPECTED = {
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "an integer",
    "list_type": "a list",
    "missing": "a value",
    "model_type": "an object",
    "string_type": "a text",
}


def check_shape(
    content: Any, shape: Any, file: object, line: int | None = None
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
    adapter = TypeAdapter(shape)
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = _place(first)
        if first["type"] == "value_error":
            where = f"{file}" if line is None else f"{file}, line {line}"
            text = first["msg"].removeprefix("Value error, ")
            text = f"{where}{place and f', {place}'}: {text}"
            raise FileError(printable(text)) from None
        raise FileError.at(
            file,
            _expected(first, adapter) + (place and f" at {place}"),
            "none" if first["type"] == "missing" else shown(first["input"]),
            line=line,
        ) from None


def _expected(error: ErrorDetails, adapter: TypeAdapter[Any]) -> str:
    kind = error["type"]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        known = adapter.json_schema()["properties"]
        hint = did_you_mean(error["loc"][-1], known)
        return f"one of the fields {', '.join(known)}{hint}"
    return _EXPECTED.get(kind, error["msg"].removeprefix("Input should be "))


def _place(error: ErrorDetails) -> str:
    """The way to the value, such as `models.Top-k.k`."""
    place = ""
    for step in error["loc"]:
        if step != "[key]":  # Of a name, instead of what has the name.
            place += f"[{step}]" if isinstance(step, int) else f".{step}"
    return place.removeprefix(".")
