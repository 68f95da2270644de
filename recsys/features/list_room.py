from collections.abc import Sequence

import numpy as np

from recsys.features.id_list import NOTHING


def with_room_of(lists: np.ndarray, template: np.ndarray) -> np.ndarray:
    """Returns lists, an array `(rows, room, ...)`, with the room of a template.

    What is no list, `(rows,)`, comes back as it is.

    Example:
    >>> with_room_of(np.array([[7, 8]]), np.zeros((5, 3))).tolist()
    [[7, 8, -1]]
    """
    if lists.shape[1:] == template.shape[1:]:
        return lists
    room = template.shape[1]
    lists = lists[:, :room]
    padding = [(0, 0)] * lists.ndim
    padding[1] = (0, room - lists.shape[1])
    return np.pad(lists, padding, constant_values=NOTHING)


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the rows of arrays, one after the other.

    Lists get the room of the longest one of all.

    Args:
        arrays: Arrays `(rows, ...)` of the same feature, or label.

    Example:
    >>> joined([np.array([[7]]), np.array([[8, 9]])]).tolist()
    [[7, -1], [8, 9]]
    """
    longest = max(arrays, key=lambda values: values.shape[1:])
    return np.concatenate([with_room_of(values, longest) for values in arrays])
