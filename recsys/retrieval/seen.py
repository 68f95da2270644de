from collections.abc import Iterable
from typing import Any
from typing import Self

import numpy as np
import pandas as pd

Pairs = tuple[Any, Any]


class Seen:
    """Which items each user has had.

    Args:
        users: The users, each once, in any order.
        starts: Int64 array `(users + 1,)`, where the items of each begin.
        items: Int32 array with the items of one user after the other.

    Example:
    >>> seen = Seen.of([(pd.Series(["b", "a", "b"]), np.array([3, 1, 2]))])
    >>> seen.by("b").tolist(), seen.by("nobody").tolist()
    ([2, 3], [])
    """

    def __init__(self, users: "pd.Index[Any]", starts: Any, items: Any) -> None:
        self.users = users
        self.starts = starts
        self.items = items

    @classmethod
    def of(cls, parts: Iterable[Pairs]) -> Self:
        """Collects what users have had.

        Args:
            parts: Users and the numbers of items, a series and an integer
                array `(rows,)`. What is missing, or unknown, counts nothing.
        """
        codes: list[Any] = []
        numbers: list[Any] = []
        known: pd.Index[Any] = pd.Index([])
        for users, items in parts:
            there = users.notna().to_numpy() & (items > 0)
            ids = pd.Index(users[there])
            new = ids.unique().difference(known, sort=False)
            known = known.append(new) if len(known) else new
            codes.append(known.get_indexer(ids))
            numbers.append(np.asarray(items[there], np.int32))
        users_of = np.concatenate([np.zeros(0, np.int64), *codes])
        items_of = np.concatenate([np.zeros(0, np.int32), *numbers])
        order = np.lexsort([items_of, users_of])
        counts = np.bincount(users_of, minlength=len(known))
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(known, starts, items_of[order])

    def by(self, user: Any) -> Any:
        """Returns the items of one user, in ascending order, maybe twice."""
        _, items = self.pairs(pd.Series([user]))
        return items

    def pairs(self, users: "pd.Series[Any]") -> Pairs:
        """Returns the items of some users.

        Args:
            users: The users of some rows.

        Returns:
            Two arrays of the same length: rows, counted from 0, and items.
        """
        codes = self.users.get_indexer(pd.Index(users))
        known = codes >= 0
        starts, ends = self.starts[codes], self.starts[codes + 1]
        lengths = np.where(known, ends - starts, 0)
        rows = np.repeat(np.arange(len(codes)), lengths)
        first = np.cumsum(lengths) - lengths
        places = np.arange(len(rows)) - first[rows] + starts[rows]
        return rows, self.items[places]
