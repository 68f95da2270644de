import difflib
from collections.abc import Iterable
from itertools import islice

# Names beyond them take too long to compare, or are no slip of the pen.
_LONGEST, _MOST = 100, 1000


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns the end of a sentence that names what a wrong name is close to.

    Upper and lower case make no difference.

    Args:
        name: The wrong name.
        known: The names that there are.

    Returns:
        A text in parentheses with a space before it, empty where nothing is
        close.

    Example:
    >>> did_you_mean("feature", ["name", "features", "tasks"])
    " (did you mean 'features'?)"
    >>> did_you_mean("USER", ["user", "item"])
    " (did you mean 'user'?)"
    >>> did_you_mean("licence", ["name", "features", "tasks"])
    ''
    """
    if len(str(name)) > _LONGEST:
        return ""
    folded = {one.casefold(): one for one in islice(known, _MOST)}
    close = difflib.get_close_matches(str(name).casefold(), folded, n=1)
    return f" (did you mean {folded[close[0]]!r}?)" if close else ""
