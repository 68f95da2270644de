"""Errors that are not due to arguments."""

from dataclasses import dataclass
from typing import Self

from recsys.errors.shown import printable
from recsys.errors.shown import shortened

# Most letters of a column's name, and of what was expected or received: both
# may have come from a file of any size.
_MOST_OF_NAME, _MOST_OF_PART = 300, 1500


@dataclass(frozen=True)
class FileRows:
    """Rows of a file that are read apart from those before them.

    It is called as the file is; errors count its rows from the first one of
    the file.

    Args:
        file: The file.
        first_row: How many data rows of the file are before them.

    Example:
    >>> rows = FileRows("a.csv", first_row=1000)
    >>> print(FileError.at(rows, "0 or 1", "3", row=2))
    a.csv, data row 1002 (counted from 1): expected 0 or 1. Received: 3
    """

    file: object
    first_row: int

    def __str__(self) -> str:
        return str(self.file)


# Letters of a whole message; paths may have 4,096.
_LONGEST = 9000


class FileError(ValueError):
    """A file that cannot be used, with the place where it went wrong.

    The message is one line: file, column and row where there is one, what was
    expected there, and what was received. Rows are data rows counted from 1:
    the header is not counted. Of what would fill a screen, the middle is left
    out.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(shortened(text, _LONGEST))

    @classmethod
    def at(
        cls,
        file: object,
        expected: str,
        received: str,
        *,
        column: object = None,
        row: int | None = None,
        line: int | None = None,
    ) -> Self:
        """Builds the error of one place.

        Args:
            file: File or folder.
            expected: What should have been there.
            received: What was there instead.
            column: Name of the column, `None` for the whole file.
            row: Data row counted from 1, `None` for the whole column.
            line: Line of a raw text file counted from 1.

        Returns:
            The error, to be raised.

        Example:
        >>> print(FileError.at("a.csv", "0 or 1", "3", column="watch", row=2))
        a.csv, column 'watch', data row 2 (counted from 1): expected 0 or 1. \
Received: 3
        """
        place = str(file)
        if row is not None and isinstance(file, FileRows):
            row += file.first_row
        if line is not None:
            place += f", line {line}"
        if column is not None:
            place += f", column {shortened(repr(column), _MOST_OF_NAME)}"
        if row is not None:
            place += f", data row {row} (counted from 1)"
        expected = shortened(expected, _MOST_OF_PART)
        received = shortened(received, _MOST_OF_PART)
        return cls(
            printable(f"{place}: expected {expected}. Received: {received}")
        )


class DataError(FileError):
    """Data that cannot be used, with the place where it went wrong.

    Example:
    >>> print(DataError.at("a.csv", "0 or 1", "3", column="watch", row=2))
    a.csv, column 'watch', data row 2 (counted from 1): expected 0 or 1. \
Received: 3
    """


class RunError(Exception):
    """A run folder is not in the state that a command needs."""


class NonFiniteLossError(RunError):
    """The loss became NaN or infinite while training."""


class ExportError(RunError):
    """An exported model does not do what the trained model does."""
