import difflib
from collections.abc import Iterable
from itertools import islice

# Names beyond them take too long to compare, or are no slip of the pen.
_LONGEST, _MOST = 100, 1000


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns the end of a sentence that names what a wrong name is close to.

    Args:
        name: The wrong name.
        known: The names that there are.

    Returns:
        A text in parentheses with a space before it, empty where nothing is
        close.

    Example:
    >>> did_you_mean("feature", ["name", "features", "tasks"])
    " (did you mean 'features'?)"
    >>> did_you_mean("licence", ["name", "features", "tasks"])
    ''
    """
    if len(str(name)) > _LONGEST:
        return ""
    some = list(islice(known, _MOST))
    close = difflib.get_close_matches(str(name), some, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
