from collections.abc import Iterable

import numpy as np

Rows = tuple[np.ndarray, np.ndarray | None, np.ndarray]

# Of the distance of other rows, what that of an item's rows is at most.
_CLOSE = 0.5
# From fewer pairs nothing is concluded.
_FEWEST_PAIRS = 30


def follows_item(parts: Iterable[Rows]) -> bool:
    """Tells whether a feature that varies is one of the item all the same.

    The mean rating of a film so far differs from row to row, and yet says
    which film it is. From one row of an item to its next one, such a feature
    changes by less than half of what it does between rows taken by chance,
    between neighbours with different items, which what drifts for all items
    alike does not, and from one row of a user to the next one, which the
    user's own features do not.

    Args:
        parts: Of some rows, in their order: the items and the users, integer
            arrays `(rows,)` with 0 for unknown ones, `None` for no users, and
            the feature as a model takes it, `(rows, ...)`.
    """
    of_item, others = _Mean(), {"chance": _Mean(), "next": _Mean()}
    of_user = _Mean()
    generator = np.random.default_rng(0)
    for items, users, values in parts:
        of_item.add(_of_same(values, items))
        if users is not None:
            of_user.add(_of_same(values, users))
        by_chance = values[generator.permutation(len(values))]
        others["chance"].add(_distances(values, by_chance))
        differ = items[1:] != items[:-1]
        others["next"].add(_distances(values[1:], values[:-1])[differ])
    if of_user.count >= _FEWEST_PAIRS:
        others["user"] = of_user
    enough = min(of_item.count, others["next"].count) >= _FEWEST_PAIRS
    return enough and all(
        of_item.value < _CLOSE * other.value for other in others.values()
    )


class _Mean:
    """The mean of distances, of pairs of which both have a value."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, distances: np.ndarray) -> None:
        known = distances[~np.isnan(distances)]
        self.total += float(known.sum())
        self.count += len(known)

    @property
    def value(self) -> float:
        return self.total / max(1, self.count)


def _of_same(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The distances from each row to the next one with the same id."""
    order = np.argsort(ids, kind="stable")
    order = order[np.count_nonzero(ids == 0) :]  # Without unknown ones.
    same = ids[order[1:]] == ids[order[:-1]]
    return _distances(values[order[1:]], values[order[:-1]])[same]


def _distances(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Distances of values by row; of other than floats, 1 where they differ."""
    rows = len(some), -1
    if not rows[0]:
        return np.zeros(0)
    if some.dtype.kind != "f":
        return (some != others).reshape(rows).any(axis=1).astype(np.float64)
    apart = np.abs(some.astype(np.float64) - others.astype(np.float64))
    return apart.reshape(rows).mean(axis=1)
