"""Docstrings in the form that mkdocstrings reads, an extension of griffe."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
_CALL = re.compile(
    r"^Call arguments:\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE
)
_ITEM = re.compile(r"^    (?=\S)(\w+): ", re.MULTILINE)


class ProjectDocstrings(griffe.Extension):
    """Reads `Example:` as examples, `Call arguments:` as a list."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of an object.

        Args:
            obj: A module, class, function or attribute.
        """
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """Returns a docstring with the names of sections that griffe knows."""
    text = _EXAMPLE.sub("Examples:", text)
    return _CALL.sub(lambda found: _as_list(found[1]), f"{text}\n").rstrip("\n")


def _as_list(items: str) -> str:
    listed = _ITEM.sub(r"    - **`\1`**: ", items)
    return f"Call arguments:\n{listed}"
