from collections.abc import Iterable

import numpy as np

from recsys.features.list_room import with_room_of

Encoded = tuple[np.ndarray, np.ndarray]


def values_by_id(
    parts: Iterable[Encoded], rows: int, varies: bool, of: str = "an item"
) -> tuple[np.ndarray | None, str]:
    """Returns the values of a feature by id, those of its last row.

    Args:
        parts: Numbers of ids and values of rows, as a model takes them.
        rows: How many ids there are, unknown ones among them as one.
        varies: Whether the values of an id may differ.
        of: What an id is of, for the reason. Defaults to `"an item"`.

    Returns:
        Array `(rows, ...)`; `None` where values of an id differ that must
        not, or do not have to differ: no id is there twice, or all have the
        same. And why it is the one or the other, empty where values may
        differ.

    Example:
    >>> users, ages = np.array([1, 2, 1]), np.array([30.0, 40.0, 30.0])
    >>> values_by_id([(users, ages)], 3, varies=False, of="a user")
    (array([ 0., 30., 40.]), 'the same in all rows of a user')
    """
    noun = of.split()[-1]
    values, known, repeated = None, np.zeros(rows, bool), False
    for ids, column in parts:
        if values is None:
            values = np.zeros((rows, *column.shape[1:]), column.dtype)
        values, column = _alike(values, column)
        before = np.arange(len(ids))
        # Each row is compared with the row of its id before it.
        order = np.argsort(ids, kind="stable")
        same = ids[order[1:]] == ids[order[:-1]]
        before[order[1:]] = np.where(same, order[:-1], order[1:])
        if not varies:
            seen = known[ids] & (ids > 0)
            pairs = (before != np.arange(len(ids))) & (ids > 0)
            differs = _differ(column[seen], values[ids[seen]])
            differs |= _differ(column[pairs], column[before[pairs]])
            if differs:
                return None, f"differs between rows of {of}"
            repeated |= bool(seen.any() or pairs.any())
        last = order[np.append(~same, True)] if len(order) else order
        values[ids[last]] = column[last]
        known[ids] = True
    if varies or values is None:
        return values, ""
    of_known = values[1:][known[1:]]
    if not repeated:
        return None, f"no {noun} has a second row"
    if not _differ(of_known[1:], of_known[:-1]):
        return None, f"the same for all {noun}s"
    return values, f"the same in all rows of {of}"


def _differ(first: np.ndarray, second: np.ndarray) -> bool:
    equal_nan = first.dtype.kind == "f"
    return not np.array_equal(first, second, equal_nan=equal_nan)


def _alike(values: np.ndarray, column: np.ndarray) -> Encoded:
    """Lists get the room of the longest one."""
    longest = max((values, column), key=lambda array: array.shape[1:])
    return with_room_of(values, longest), with_room_of(column, longest)
