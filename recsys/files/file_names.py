"""Names of files that are made of other names, of any length."""

import hashlib
import os
import re
from collections.abc import Iterable

_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_DIGITS = 12  # Of a checksum in place of what was left out.


def short_name(name: str, most: int) -> str:
    """Returns a name of a bounded length, the same for the same name.

    Args:
        name: The name of a file.
        most: Most bytes that it may have, at least 13. File systems have room
            for 255, some for less.

    Returns:
        The name itself where it is short enough. Otherwise its beginning and
        a checksum of it, which another name does not have.

    Example:
    >>> short_name("report", 20), short_name("y" * 250, 20)
    ('report', 'yyyyyyy-27d6177e2e70')
    """
    encoded = os.fsencode(name)
    if len(encoded) <= most:
        return name
    start = encoded[: most - _DIGITS - 1].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(encoded).hexdigest()[:_DIGITS]}"


def file_names(names: Iterable[str], most: int = 100) -> dict[str, str]:
    """Names files after what is in them: different ones on every system.

    Args:
        names: Names of any letters, each of them once.
        most: Most bytes of a file's name. Defaults to 100.

    Returns:
        By name, that of its file: the name itself, unless it is too long, has
        a letter that some systems do not take, or differs from an earlier one
        in upper and lower case alone. A checksum then tells it from others.

    Example:
    >>> file_names(["click", "a/b"]), file_names(["click", "Click"])["Click"]
    ({'click': 'click', 'a/b': 'a_b-c14cddc033f6'}, 'Click-95ba4ed9329f')
    """
    files: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        file = _UNSAFE.sub("_", name)
        if file != name or file.casefold() in taken:
            digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
            file = f"{short_name(file, most - _DIGITS - 1)}-{digest}"
        files[name] = short_name(file, most)
        taken.add(files[name].casefold())
    return files
