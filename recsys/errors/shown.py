"""Contents of files in a form that a terminal can show."""

import difflib
import math
import reprlib
import sys
from collections.abc import Iterable
from collections.abc import Mapping
from itertools import islice
from typing import Any

_MOST_DIGITS = 40
_MOST_NAMES, _MOST_OF_NAME = 20, 100  # Of a list of names.
_MOST_LETTERS = 300


class _Shorten(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write out an integer of more than 4,300 digits.
        digits = math.ceil(x.bit_length() * math.log10(2))
        if digits > _MOST_DIGITS:
            return f"an integer of about {digits:,} digits"
        return repr(x)

    def repr_dict(self, x: Mapping[object, object], level: int) -> str:
        # Otherwise all names would be sorted to show a few.
        first = dict(islice(x.items(), self.maxdict))
        text = super().repr_dict(first, level)
        return text if len(first) == len(x) else f"{text[:-1]}, ...}}"


_shorten = _Shorten()
_shorten.maxstring = _shorten.maxother = 100


def shown(value: object) -> str:
    """Returns a short, readable form of any value for an error message.

    Example:
    >>> import numpy as np
    >>> shown(np.float64(0.5)), shown("text")
    ('0.5', "'text'")
    """
    # Without NumPy, whose import takes time, nothing is of its types.
    numpy: Any = sys.modules.get("numpy")
    plain: Any = value
    if numpy is not None and isinstance(value, numpy.generic):
        plain = plain.item()
    return shortened(_shorten.repr(plain), _MOST_LETTERS)


def shortened(text: str, most: int) -> str:
    """Returns a text with its middle left out where it is too long.

    Args:
        text: The text.
        most: Most letters of the result, at least 3.

    Example:
    >>> shortened("abcdefghijklm", 9), shortened("abc", 9)
    ('abc...klm', 'abc')
    """
    if len(text) <= most:
        return text
    end = (most - 3) // 2
    return f"{text[: most - 3 - end]}...{text[len(text) - end :]}"


def listed(names: Iterable[object]) -> str:
    """Returns a list of names that an error message has room for.

    Example:
    >>> listed(["watch", "rating"]), listed(range(1000))[-30:]
    ('watch, rating', '17, 18, 19, ... (1,000 in all)')
    """
    every = [str(name) for name in names]
    first = ", ".join(
        shortened(name, _MOST_OF_NAME) for name in every[:_MOST_NAMES]
    )
    if len(every) <= _MOST_NAMES:
        return first
    return f"{first}, ... ({len(every):,} in all)"


def printable(text: str) -> str:
    r"""Returns a text as one line, with control characters written out.

    A file's name or content could otherwise move the cursor of a terminal,
    colour it or write over what stands there.

    Example:
    >>> print(printable("red: \x1b[31m,\n  café"))
    red: \x1b[31m, café
    """
    return "".join(
        letter
        if letter.isprintable()
        else letter.encode("unicode_escape").decode()
        for letter in " ".join(text.split())
    )


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
    folded = {
        candidate.casefold(): candidate for candidate in islice(known, _MOST)
    }
    close = difflib.get_close_matches(str(name).casefold(), folded, n=1)
    return f" (did you mean {folded[close[0]]!r}?)" if close else ""
