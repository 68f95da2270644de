"""The first rows of the shelf, which README.md has, on the home page."""

import re
from pathlib import Path

_MARK = "<!-- shelf -->\n"


def with_shelf_rows(page: str, readme: Path) -> str:
    """Returns the home page with the README's table of benchmarks.

    Args:
        page: Markdown with a line `<!-- shelf -->`.
        readme: The README.

    Raises:
        ValueError: The page has no such line, or the README no such table.
    """
    text = readme.read_text(encoding="utf-8")
    table = re.search(r"^\| public benchmark.*?\n(?=\n)", text, re.M | re.S)
    if _MARK not in page or table is None:
        raise ValueError(
            f"expected a line {_MARK!r} in the page and a table that begins "
            f"with 'public benchmark' in {readme.name}"
        )
    return page.replace(_MARK, table[0] + "\n")
