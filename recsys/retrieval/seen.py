from collections.abc import Iterable
from typing import Self

import numpy as np
import pandas as pd

from recsys.features.id_positions import id_positions
from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids

Pairs = tuple[pd.Series, np.ndarray]


class Seen:
    """The items each user has had.

    Args:
        users: The users, each once, in any order, as `as_ids` has them.
        starts: Int64 array `(users + 1,)`, where the items of each begin.
        items: Int32 array with the items of one user after the other.

    Example:
    >>> seen = Seen.of([(pd.Series(["b", "a", "b"]), np.array([3, 1, 2]))])
    >>> seen.by("b").tolist(), seen.by("nobody").tolist()
    ([2, 3], [])
    """

    def __init__(
        self, users: pd.Index, starts: np.ndarray, items: np.ndarray
    ) -> None:
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
        codes: list[np.ndarray] = []
        numbers: list[np.ndarray] = []
        known: pd.Series = pd.Series([], dtype="int64")
        for users, items in parts:
            ids = as_ids(users, "users")
            there = ids.notna().to_numpy() & (items > 0)
            # What is known keeps its place where it becomes a text.
            known, ids = unified_ids([known, as_ids(ids[there], "users")])
            new = ids[~ids.isin(known)].drop_duplicates()
            known = pd.concat([known, new]) if len(known) else new
            codes.append(pd.Index(known).get_indexer(pd.Index(ids)))
            numbers.append(np.asarray(items[there], np.int32))
        users_of = np.concatenate([np.zeros(0, np.int64), *codes])
        items_of = np.concatenate([np.zeros(0, np.int32), *numbers])
        order = np.lexsort([items_of, users_of])
        counts = np.bincount(users_of, minlength=len(known))
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(pd.Index(known), starts, items_of[order])

    def by(self, user: object) -> np.ndarray:
        """Returns the items of one user, in ascending order, maybe twice."""
        _, items = self.pairs(pd.Series([user]))
        return items

    def pairs(self, users: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """Returns the items of some users.

        Args:
            users: The users of some rows.

        Returns:
            Two arrays of the same length: rows, counted from 0, and items.
        """
        codes = id_positions(users, self.users)
        known = codes >= 0
        starts, ends = self.starts[codes], self.starts[codes + 1]
        lengths = np.where(known, ends - starts, 0)
        rows = np.repeat(np.arange(len(codes)), lengths)
        first = np.cumsum(lengths) - lengths
        places = np.arange(len(rows)) - first[rows] + starts[rows]
        return rows, self.items[places]


def splits_before(split: str) -> tuple[str, ...]:
    """Returns the splits whose rows count as seen in the metrics of a split.

    Example:
    >>> splits_before("test")
    ('train', 'validation')
    """
    return ("train", "validation") if split == "test" else ("train",)
