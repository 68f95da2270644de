from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids
from recsys.features.list_room import joined


@dataclass(frozen=True, eq=False)
class UserSequences:
    """Items of each user, in order.

    Attributes:
        items: Numbers of items, one user after the other, int32 `(rows,)`,
            oldest first; 0 for unknown ones.
        starts: Where the items of each user begin, and the number of rows,
            int64 `(users + 1,)`.
        features: By name, what stands for a feature of each user,
            `(users, ...)`.

    Example:
    >>> users = pd.Series(["b", "a", "b"])
    >>> found = UserSequences.of([users], [np.array([1, 2, 3])], None)
    >>> [found[user].tolist() for user in range(len(found))]
    [[1, 3], [2]]
    """

    items: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    features: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        users: Iterable[pd.Series],
        items: Iterable[np.ndarray],
        times: Iterable[np.ndarray] | None,
        features: Mapping[str, Iterable[np.ndarray]] = {},
    ) -> Self:
        """Brings rows into the order of users and times.

        Args:
            users: The users of rows, part by part. Rows without one are left
                out.
            items: The numbers of their items, integer arrays, part by part.
            times: When they were, arrays that sort, part by part. The order of
                rows decides between equal times, and about all rows where it
                is `None`.
            features: By name, what stands for a feature of the rows' users,
                arrays `(rows, ...)`, part by part; that of the first row of a
                user counts.

        Returns:
            The sequences, users in the order of their first row.
        """
        ids = unified_ids([as_ids(part, "users") for part in users])
        codes, known = pd.factorize(pd.concat(ids))
        numbers = np.concatenate([*items]).astype(np.int32)
        if times is None:
            order = np.argsort(codes, kind="stable")
        else:
            order = np.lexsort([np.concatenate([*times]), codes])
        order = order[np.searchsorted(codes[order], 0) :]  # -1: no user.
        counts = np.bincount(codes[order], minlength=len(known))
        starts = np.concatenate([[0], np.cumsum(counts)])
        first_rows = np.full(len(known), len(codes))
        rows = np.flatnonzero(codes >= 0)
        np.minimum.at(first_rows, codes[rows], rows)
        of_users = {
            name: _rows_of(parts, first_rows)
            for name, parts in features.items()
        }
        return cls(numbers[order], starts, of_users)

    def __len__(self) -> int:
        """The number of users."""
        return len(self.starts) - 1

    def __getitem__(self, user: int) -> npt.NDArray[np.int32]:
        """The items of one user, counted from 0."""
        return self.items[self.starts[user] : self.starts[user + 1]]


def _rows_of(
    parts: Iterable[np.ndarray], rows: npt.NDArray[np.int64]
) -> np.ndarray:
    """The rows of those numbers, which ascend, of what is read part by part."""
    taken, offset = [], 0
    for part in parts:
        end = offset + len(part)
        first, last = np.searchsorted(rows, [offset, end])
        taken.append(part[rows[first:last] - offset])
        offset = end
    return joined(taken)
