"""Splits of users' sequences: the last item is the test's."""

import numpy as np

# With fewer items, a user has no item to be tested by and one before it.
FEWEST = 3


def positions_of(users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where each row stands in the sequence of its user.

    Args:
        users: Array `(rows,)`; the rows of a user follow one another.

    Returns:
        Two int64 arrays `(rows,)`: the position, counted from 0, and the
        length of the user's sequence.

    Example:
    >>> positions, lengths = positions_of(np.array(["a", "a", "b"]))
    >>> positions.tolist(), lengths.tolist()
    ([0, 1, 0], [2, 2, 1])
    """
    first = np.append(True, users[1:] != users[:-1])
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(users)))
    positions = np.arange(len(users)) - np.repeat(starts, counts)
    return positions, np.repeat(counts, counts)


def leave_one_out(
    positions: np.ndarray, lengths: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns which rows are in each split.

    The last item of each user is in the test split, the one before it in the
    validation split, and all others in the training split. So are all items
    of a user with fewer than three.

    Args:
        positions: Where each row stands in the sequence of its user,
            `(rows,)`, counted from 0.
        lengths: How long that sequence is, `(rows,)`.

    Returns:
        By split, increasing row numbers.

    References:
        Kang, McAuley. Self-Attentive Sequential Recommendation. ICDM 2018,
        section IV.A.

    Example:
    >>> splits = leave_one_out(np.array([0, 1, 2, 0]), np.array([3, 3, 3, 1]))
    >>> {split: rows.tolist() for split, rows in splits.items()}
    {'train': [0, 3], 'validation': [1], 'test': [2]}
    """
    from_end = np.where(lengths >= FEWEST, lengths - positions, FEWEST)
    return {
        "train": np.flatnonzero(from_end >= FEWEST),
        "validation": np.flatnonzero(from_end == 2),
        "test": np.flatnonzero(from_end == 1),
    }


def earlier_items(
    items: np.ndarray, positions: np.ndarray, rows: np.ndarray, length: int
) -> np.ndarray:
    """Returns the items that the user of each row had before it.

    Args:
        items: Array of all items, `(all rows,)`, those of a user one after
            the other, oldest first.
        positions: Where each stands in the sequence of its user.
        rows: Row numbers.
        length: Most items of a history, the last ones.

    Returns:
        Array `(len(rows),)` of arrays, oldest first, which share the memory
        of `items`.

    Example:
    >>> items = np.array([5, 6, 7])
    >>> before = earlier_items(items, np.arange(3), np.array([0, 2]), 9)
    >>> [one.tolist() for one in before]
    [[], [5, 6]]
    """
    before = np.empty(len(rows), object)
    starts = rows - np.minimum(positions[rows], length)
    for place, (start, row) in enumerate(zip(starts, rows, strict=True)):
        before[place] = items[start:row]
    return before
