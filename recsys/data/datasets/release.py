import logging
from collections.abc import Mapping

from recsys.errors import DataError

_log = logging.getLogger(__name__)


def check_release(
    name: str,
    file: object,
    counts: Mapping[str, int],
    published: Mapping[str, int],
) -> bool:
    """Checks what was counted in a download against what was published.

    Args:
        name: Name of the data set.
        file: Where the counts come from, for the messages.
        counts: What was counted.
        published: The same of the whole release. The first entry tells
            whether the download is whole; if not, a warning says so.

    Returns:
        Whether the download is whole.

    Raises:
        DataError: It is, but another count differs.

    Example:
    >>> check_release("films", "a.csv", {"ratings": 9}, {"ratings": 9})
    True
    """
    whole = next(iter(published))
    if counts[whole] != published[whole]:
        _log.warning(
            "%s holds %d %s, %s has %d: prepared as a subset.",
            file,
            counts[whole],
            whole,
            name,
            published[whole],
        )
        return False
    if counts != published:
        raise DataError.at(file, f"{published}", f"{counts}")
    return True
