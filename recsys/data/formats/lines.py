import io
import re
from collections.abc import Iterator
from pathlib import Path

from rich.progress import Progress

from recsys.errors import DataError
from recsys.errors.shown import shown

CHUNK = 1 << 20  # bytes parsed at a time


def parse_lines(
    text: bytes,
    form: str,
    expected: str,
    file: Path,
    progress: Progress,
    first_line: int = 1,
) -> Iterator[list[tuple[bytes, ...]]]:
    r"""Parses lines that all have one form.

    Args:
        text: The lines, which end in `\n` or `\r\n`.
        form: Regular expression of a whole line without its end, one group a
            field, two groups at least.
        expected: The form in words, for the error message.
        file: Where the text comes from, for the error message.
        progress: Shows how many bytes are done.
        first_line: Number of the first line in the file.

    Yields:
        The fields of each line, for as many lines as are parsed at a time.

    Raises:
        DataError: A line has another form.

    Example:
    >>> silent = Progress(disable=True)
    >>> list(parse_lines(b"1,a\n2,b\n", r"(\d),(\w)", "", Path("x"), silent))
    [[(b'1', b'a'), (b'2', b'b')]]
    """
    pattern = re.compile(f"^{form}\r?$".encode(), re.MULTILINE)
    task = progress.add_task(f"Reading {file.name}", total=len(text))
    stream = io.BytesIO(text)
    line = first_line
    while lines := stream.readlines(CHUNK):
        matches = pattern.findall(b"".join(lines))
        if len(matches) < len(lines):
            bad = next(
                i for i, row in enumerate(lines) if not pattern.match(row)
            )
            raise DataError.at(
                file,
                expected,
                shown(lines[bad].decode("latin-1").rstrip("\r\n")),
                line=line + bad,
            )
        yield matches
        line += len(lines)
        progress.update(task, completed=stream.tell())
