"""The separator of a text file."""

import csv
import gzip
import io
import zlib
from pathlib import Path

SEPARATORS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}
_SEEN = 65_536  # Characters of a file that are looked at.


def named_separator(separator: str) -> str:
    r"""Returns the character that a user calls a separator.

    Args:
        separator: `"comma"`, `"tab"`, `"semicolon"` or `"pipe"`, or the
            character itself; `\t` may be written as two characters.

    Raises:
        ValueError: It is none of these.

    Example:
    >>> named_separator("semicolon"), named_separator("|")
    (';', '|')
    """
    character = SEPARATORS.get(separator, separator.replace("\\t", "\t"))
    if character not in SEPARATORS.values():
        raise ValueError(
            "`separator` must be comma, tab, semicolon or pipe, or the "
            f"character itself. Received: separator={separator!r}"
        )
    return character


def detected_separator(path: Path, width: int | None = None) -> str:
    r"""Returns what separates the fields of a file.

    A name that ends in `.tsv` says that it is a tab. Otherwise it is a comma,
    unless the header has none: then it is the one other separator that divides
    the header and the first row into the same number of fields, two or more.
    Of a file without a header, it is the one that divides the first row into
    as many fields as there are columns, if only one does.

    Args:
        path: The file, packed if it ends in `.gz`.
        width: Number of the columns of a file without a header. Defaults to
            `None`, for a file with one.

    Example:
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "prices.csv")
    >>> path.write_text("item;price\n7;9,50\n")
    18
    >>> detected_separator(path)
    ';'
    """
    if ".tsv" in path.suffixes:
        return "\t"
    text = _beginning(path)
    fitting = [
        separator
        for separator in SEPARATORS.values()
        if _divides(text, separator, width)
    ]
    if width is not None:
        return fitting[0] if len(fitting) == 1 else ","
    if "," in next(iter(text.splitlines()), "") or len(fitting) != 1:
        return ","
    return fitting[0]


def _beginning(path: Path) -> str:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            return file.read(_SEEN).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error):
        return ""  # Whoever reads the whole file says what is wrong with it.


def _divides(text: str, separator: str, width: int | None) -> bool:
    """Returns whether the first two lines have as many fields, over 1."""
    try:
        reader = csv.reader(io.StringIO(text), delimiter=separator)
        header, row = next(reader, []), next(reader, None)
    except csv.Error:
        return False
    if width is not None:
        return len(header) == width
    return len(header) > 1 and (row is None or len(row) == len(header))
