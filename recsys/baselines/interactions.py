from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array

from recsys.features.id_positions import id_positions
from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids
from recsys.features.value_counts import ValueCounts

# Users, items, and how much each row counts.
Part = tuple[pd.Series, pd.Series, npt.NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions of U users with N items.

    Attributes:
        users: The ids of the users, each once.
        items: The ids of the items of the catalogue, each once.
        matrix: 1 where a user has had an item, float32 `(U + 1, N)`. The last
            row stands for whoever is unknown, and is empty.
        counts: How much the rows with each item count, float64 `(N,)`.
    """

    users: pd.Index
    items: pd.Index
    matrix: csr_array
    counts: npt.NDArray[np.float64]

    @classmethod
    def of(cls, parts: Iterable[Part], items: pd.Index) -> Self:
        """Collects what users have had.

        Args:
            parts: The rows that count, part by part. Rows without a user, or
                with an item that is not in the catalogue, tell nothing.
            items: The ids of the catalogue.

        Example:
        >>> rows = pd.Series(["b", "a", "b"]), pd.Series([8, 7, 7]), np.ones(3)
        >>> Interactions.of([rows], pd.Index([7, 8])).matrix.toarray().tolist()
        [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
        """
        kept = []
        counts = np.zeros(len(items))
        with ValueCounts() as user_counts:
            for users, ids, weights in parts:
                users = as_ids(users, "users")
                numbers = id_positions(ids, items)
                there = numbers >= 0
                known = numbers[there]
                counts += np.bincount(known, weights[there], len(items))
                kept.append((users[there], known))
                user_counts.add(users[there])
            index = all_ids(user_counts)
        rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for users, known in kept:
            codes = id_positions(users, index)
            rows.append(codes[codes >= 0])
            columns.append(known[codes >= 0])
        where = np.concatenate(rows), np.concatenate(columns)
        matrix = csr_array(
            (np.ones(len(where[0]), np.float32), where),
            shape=(len(index) + 1, len(items)),
        )
        matrix.sum_duplicates()
        matrix.data[:] = 1
        return cls(index, items, matrix, counts)

    @property
    def num_users(self) -> int:
        """Number of users, without unknown ones."""
        return len(self.users)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def codes(self, users: pd.Series) -> np.ndarray:
        """Returns the rows of the matrix of some users, integers `(rows,)`.

        Args:
            users: Their ids.
        """
        codes = id_positions(users, self.users)
        return np.where(codes < 0, self.num_users, codes)


def all_ids(counts: ValueCounts, min_count: int = 1) -> pd.Index:
    """Returns the ids that are often enough there, in ascending order.

    Args:
        counts: How often each is there.
        min_count: How often it must be. Defaults to 1.
    """
    parts = [part.index[part >= min_count] for part in counts.sorted()]
    if not parts:
        return pd.Index([], dtype="int64")
    first, *more = parts
    return first.append(more) if more else first


@dataclass(frozen=True, eq=False)
class Queries:
    """The rows of a split that count, those of a user together, B rows.

    Attributes:
        users: The ids of the users.
        items: The ids of the items.
        weights: How much each row counts, `(B,)`.
    """

    users: pd.Series
    items: pd.Series
    weights: np.ndarray

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Self:
        """Collects the rows.

        Args:
            parts: The users, the items and the weights of rows, part by part.
        """
        all_parts = list(parts)
        weights = np.concatenate(
            [np.zeros(0), *(part[2] for part in all_parts)]
        )
        users = _joined([part[0] for part in all_parts])
        items = _joined([part[1] for part in all_parts])
        order = np.argsort(pd.factorize(users)[0], kind="stable")
        return cls(
            users.iloc[order].reset_index(drop=True),
            items.iloc[order].reset_index(drop=True),
            weights[order],
        )


def _joined(columns: list[pd.Series]) -> pd.Series:
    filled = [as_ids(column, "ids") for column in columns if len(column)]
    if not filled:
        return pd.Series([], dtype="int64")
    return pd.concat(list(unified_ids(filled)), ignore_index=True)
