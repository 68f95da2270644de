import reprlib

import numpy as np

_shorten = reprlib.Repr()
_shorten.maxstring = _shorten.maxother = 100


class DataError(ValueError):
    """Data that cannot be used, with the place where it went wrong.

    The message is one line: file, column and row where there is one, what was
    expected there, and what was received. Rows are data rows counted from 1:
    the header is not counted.
    """

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
    ) -> "DataError":
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
        >>> print(DataError.at("a.csv", "0 or 1", "3", column="watch", row=2))
        a.csv, column 'watch', data row 2 (counted from 1): expected 0 or 1. \
Received: 3
        """
        place = str(file)
        if line is not None:
            place += f", line {line}"
        if column is not None:
            place += f", column {column!r}"
        if row is not None:
            place += f", data row {row} (counted from 1)"
        return cls(f"{place}: expected {expected}. Received: {received}")


def shown(value: object) -> str:
    """Returns a short, readable form of any value for an error message.

    Example:
    >>> shown(np.float64(0.5)), shown("text")
    ('0.5', "'text'")
    """
    return _shorten.repr(
        value.item() if isinstance(value, np.generic) else value
    )
