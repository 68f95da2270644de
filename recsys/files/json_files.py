import json
import re
from collections.abc import Mapping
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any
from typing import TypeAlias

from recsys.errors import FileError
from recsys.errors.reading import read_text
from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.files.atomic import replacing

# What JSON has by name: numbers, texts, lists and objects. Who reads a value
# knows, or checks, which of them it is.
JsonObject: TypeAlias = dict[str, Any]

# The same, which is only read: the content of `metrics.json`, say, or fields.
JsonMapping: TypeAlias = Mapping[str, Any]


class _NamedTwiceError(Exception):
    """An object says two things of a name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


# Up to so many pairs, all at once is faster, and holds up nobody.
_FEW = 1000


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, Any]:
    if len(pairs) <= _FEW:
        content = dict(pairs)
        if len(content) == len(pairs):
            return content
    content = {}
    for name, value in pairs:
        if name in content:
            raise _NamedTwiceError(name)
        content[name] = value
    return content


class _StepwiseDecoder(json.JSONDecoder):
    """Reads in Python, a value at a time: other threads go on meanwhile."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=_once_each)
        self.scan_once = py_make_scanner(self)


# Made once: for a short text, that takes longer than to read it.
AT_ONCE: json.JSONDecoder = json.JSONDecoder(object_pairs_hook=_once_each)
STEPWISE: json.JSONDecoder = _StepwiseDecoder()

# Escapes of a text, from left to right: a whole character of two halves, half
# of one (group 1), or any other.
_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)", re.DOTALL
)


def read_json(path: Path, error: type[FileError] = FileError) -> Any:
    """Returns the content of a JSON file.

    Args:
        path: The file.
        error: The class of the error. Defaults to `FileError`.

    Raises:
        FileError: The file is not JSON, or cannot be read.
        FileNotFoundError: There is none.
    """
    return parse_json(read_text(path, "JSON", error), path, error)


def parse_json(
    text: str,
    file: object,
    error: type[FileError] = FileError,
    first_line: int = 1,
    decoder: json.JSONDecoder = AT_ONCE,
) -> Any:
    """Returns what a JSON text says.

    Args:
        text: The text.
        file: Where it comes from, for the error message.
        error: The class of the error. Defaults to `FileError`.
        first_line: Number of its first line in the file.
        decoder: `AT_ONCE` (default), or `STEPWISE`, which takes ten times as
            long and lets other threads run meanwhile.

    Raises:
        FileError: The text is not JSON, names something twice in an object,
            or holds half of a character.

    Example:
    >>> parse_json('{"k": [2]}', "space.json")
    {'k': [2]}
    """
    with reading(file, "JSON", error):
        try:
            content = decoder.decode(text)
        except _NamedTwiceError as caught:
            raise error.at(
                file, "JSON with each name once", f"{shown(caught.name)} twice"
            ) from None
        except json.JSONDecodeError as caught:
            raise error.at(
                file,
                "JSON",
                _around(caught),
                line=first_line + caught.lineno - 1,
            ) from None
    # "\ud800" alone cannot be written to any file.
    if any(escape[1] for escape in _ESCAPES.finditer(text)):
        raise error.at(file, "JSON", "bytes that are not UTF-8 text")
    return content


def _around(error: json.JSONDecodeError) -> str:
    text = error.doc[error.pos : error.pos + 20]
    return f"{shown(text) if text else 'its end'} at column {error.colno}"


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file, whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    with replacing(path) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
