from collections.abc import Hashable
from collections.abc import Iterable
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def first_duplicate(names: Iterable[Name]) -> Name | None:
    """Returns the first name that has been there before, `None` without one.

    Args:
        names: Names, read once.

    Example:
    >>> first_duplicate(["a", "b", "c", "b", "a"]), first_duplicate("abc")
    ('b', None)
    """
    seen: set[Name] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
