"""Finds what pages would request from another host."""

import re
from collections.abc import Iterator
from pathlib import Path

_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?"
    r"(?:src|data)=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?![^>]*rel=[\"']?(?:canonical|alternate|license))[^>]*?"
    r"href=[\"']?((?:https?:)?//[^\"'\s>]+)",
    re.IGNORECASE,
)
_STYLED = re.compile(
    r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')\s]+)"
)


def requests_elsewhere(site: Path) -> list[str]:
    """Returns a line per request of a page or style sheet to another host.

    Args:
        site: Folder of the built pages.
    """
    return sorted(set(_lines(site)))


def _lines(site: Path) -> Iterator[str]:
    patterns = {".html": (_LOADED, _STYLED), ".css": (_STYLED,)}
    for file in site.rglob("*"):
        for pattern in patterns.get(file.suffix, ()):
            text = file.read_text(encoding="utf-8")
            for match in pattern.finditer(text):
                address = next(filter(None, match.groups()))
                yield f"{file.relative_to(site)}: {address}"
