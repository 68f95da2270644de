"""Draws of items that a user has not had, exact for any share of them."""

import numpy as np


class UnseenItems:
    """Draws items for users, none that they have had, by weights.

    An item has as many tickets as its weight, items in their order one after
    the other, and a draw is a uniform one of the tickets that the user's own
    items leave. No draw is rejected, however much a user has had.

    Args:
        users: Users of the pairs that there were, integers from 0,
            `(pairs,)`. A pair may be there more than once.
        items: Their items, integers from 0, `(pairs,)`.
        weights: How often an item is drawn beside others: integers of at
            least 0, `(items,)`.

    Example:
    >>> users, items = np.array([0, 0]), np.array([0, 2])
    >>> unseen = UnseenItems(users, items, np.ones(4, np.int64))
    >>> drawn = unseen.draw(np.array([0]), 3, np.random.default_rng(0))
    >>> sorted(drawn[0].tolist())  # There are two.
    [-1, 1, 3]
    """

    def __init__(
        self, users: np.ndarray, items: np.ndarray, weights: np.ndarray
    ) -> None:
        self._weights = weights.astype(np.int64)
        self._ends = np.cumsum(self._weights)
        self._total = int(self._weights.sum())
        pairs = np.unique(users.astype(np.int64) * len(weights) + items)
        owners, had = np.divmod(pairs, len(weights))
        num_users = int(users.max(initial=-1)) + 1
        # Where the pairs of each user begin.
        self._first = np.searchsorted(owners, np.arange(num_users + 1))
        # Tickets of all pairs before each one, and of all.
        self._taken = np.append(0, np.cumsum(self._weights[had]))
        of_user = self._taken[:-1] - self._taken[self._first[owners]]
        starts = self._ends[had] - self._weights[had]
        # Where a pair's tickets are cut out of those that its user leaves,
        # users one after the other.
        self._cuts = owners * (self._total + 1) + starts - of_user

    def draw(
        self, users: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws items for each of several rows, none of them twice for a row.

        Args:
            users: The user of each row, one of those of the pairs, `(rows,)`.
            count: Items to draw for a row.
            rng: What draws.

        Returns:
            Items `(rows, count)`, int64; -1 behind the last one of a user
            who has had all others.
        """
        drawn = np.full((len(users), count), -1, np.int64)
        # Where the tickets of what was drawn begin among those that the user
        # leaves, in ascending order, and how many they are.
        starts = np.full(drawn.shape, np.iinfo(np.int64).max)
        widths = np.zeros(drawn.shape, np.int64)
        first, last = self._first[users], self._first[users + 1]
        left = self._total - (self._taken[last] - self._taken[first])
        for step in range(count):
            some = np.flatnonzero(left)
            ticket = rng.integers(0, left[some])
            for earlier in range(step):
                passed = ticket >= starts[some, earlier]
                ticket += np.where(passed, widths[some, earlier], 0)
            item, start = self._item(users[some], ticket)
            drawn[some, step] = item
            starts[some, step] = start
            widths[some, step] = self._weights[item]
            left[some] -= self._weights[item]
            until = slice(None), slice(step + 1)
            order = np.argsort(starts[until], axis=1)
            starts[until] = np.take_along_axis(starts[until], order, axis=1)
            widths[until] = np.take_along_axis(widths[until], order, axis=1)
        return drawn

    def _item(
        self, users: np.ndarray, ticket: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The item of each ticket that a user leaves, and where its begin."""
        keys = users * (self._total + 1) + ticket
        passed = np.searchsorted(self._cuts, keys, side="right")
        before = self._taken[passed] - self._taken[self._first[users]]
        item = np.searchsorted(self._ends, ticket + before, side="right")
        return item, self._ends[item] - self._weights[item] - before
