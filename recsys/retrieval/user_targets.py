from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.data.schema import Schema
from recsys.data.times import parse_times
from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids

# Users, the items' ids and their numbers, and times or `None`.
Part = tuple[pd.Series, pd.Series, np.ndarray, np.ndarray | None]


@dataclass(frozen=True, eq=False)
class UserTargets:
    """The different items that each user of a split has, U users, T targets.

    Attributes:
        rows: The row whose query is the user's, the first in time, int64
            `(U,)` in ascending order.
        starts: Where the targets of each user begin, int64 `(U + 1,)`.
        items: Numbers of the items of one user after the other, int64
            `(T,)`; 0 for one that is not in the catalogue.
    """

    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Self:
        """Collects the targets.

        Args:
            parts: Of the rows of a split part by part: the users, the ids of
                the items, their numbers, an integer array `(rows,)` with 0
                for an unknown one, and when each row was, an array `(rows,)`,
                or `None`. Rows without a user are nobody's.

        Example:
        >>> ids = pd.Series([7, 8, 7, 7])
        >>> users = pd.Series(["b", "b", "a", "b"])
        >>> numbers = np.array([1, 0, 1, 1])
        >>> targets = UserTargets.of([(users, ids, numbers, None)])
        >>> targets.rows.tolist(), targets.counts.tolist()
        ([0, 2], [2, 1])
        """
        users, ids, numbers, times = ([], [], [], [])
        for user, item, number, time in parts:
            if not len(number):
                continue
            users.append(as_ids(user, "users"))
            ids.append(as_ids(item, "items"))
            numbers.append(np.asarray(number, np.int64))
            times.append(np.zeros(len(number)) if time is None else time)
        if not users:
            empty = np.zeros(0, np.int64)
            return cls(empty, np.zeros(1, np.int64), empty)
        order = np.argsort(np.concatenate(times), kind="stable")
        return cls._of_columns(
            _codes(users)[order],
            _keys(ids, np.concatenate(numbers))[order],
            order,
        )

    @classmethod
    def _of_columns(
        cls, users: np.ndarray, keys: np.ndarray, rows: np.ndarray
    ) -> Self:
        """Of rows in the order of time.

        Args:
            users: Int64 array `(rows,)`, -1 for none.
            keys: What tells items apart, `(rows,)`, positive in the catalogue.
            rows: Where the split has them, `(rows,)`.
        """
        there = users >= 0
        users, keys, rows = users[there], keys[there], rows[there]
        _, first = np.unique(users, return_index=True)
        queries = rows[first]
        place = np.empty(len(first), np.int64)  # Of a user, by its query.
        place[np.argsort(queries)] = np.arange(len(first))
        pairs = np.unique(np.stack([place[users], keys], axis=1), axis=0)
        counts = np.bincount(pairs[:, 0], minlength=len(first))
        starts = np.concatenate([[0], np.cumsum(counts)])
        return cls(np.sort(queries), starts, np.maximum(pairs[:, 1], 0))

    @property
    def counts(self) -> np.ndarray:
        """Number of targets of each user, int64 `(U,)`."""
        return np.diff(self.starts)

    def within(self, start: int, end: int) -> np.ndarray:
        """Returns the users whose query is one of some rows.

        Args:
            start: The first row.
            end: The row behind the last one.
        """
        return np.arange(*np.searchsorted(self.rows, [start, end]))

    def pairs(self, users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the targets of some users.

        Args:
            users: Integer array `(users,)`, a range.

        Returns:
            Whose each is, counted from the first of these users, and the
            numbers of the items, arrays of the same length.
        """
        if not len(users):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        whose = np.repeat(np.arange(len(users)), self.counts[users])
        return whose, self.items[
            self.starts[users[0]] : self.starts[users[-1] + 1]
        ]


def times_of(frame: pd.DataFrame, schema: Schema) -> np.ndarray | None:
    """Returns when rows were, an array `(rows,)`; `None` if it is not known.

    Args:
        frame: The rows.
        schema: What their columns mean.
    """
    if schema.time is None:
        return None
    return parse_times(frame[schema.time], "the split").to_numpy()


def _codes(columns: list[pd.Series]) -> np.ndarray:
    """Numbers ids from 0; -1 for missing ones."""
    ids = pd.concat(list(unified_ids(columns)), ignore_index=True)
    return pd.factorize(ids)[0].astype(np.int64)


def _keys(columns: list[pd.Series], numbers: np.ndarray) -> np.ndarray:
    """The numbers of items, and below 0 something for each unknown one."""
    keys = numbers.copy()
    unknown = numbers == 0
    ids = pd.concat(list(unified_ids(columns)), ignore_index=True)
    keys[unknown] = -2 - pd.factorize(ids[unknown])[0]
    return keys
