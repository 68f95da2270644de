from recsys.errors import FileError
from recsys.shown import shown as shown


class DataError(FileError):
    """Data that cannot be used, with the place where it went wrong.

    Example:
    >>> print(DataError.at("a.csv", "0 or 1", shown(3), column="watch", row=2))
    a.csv, column 'watch', data row 2 (counted from 1): expected 0 or 1. \
Received: 3
    """
