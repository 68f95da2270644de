from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np


class RowOrder:
    """An order of rows of which few are held at a time.

    Some units are a pool; pools follow each other, and the rows of a pool come
    in an order of their own.

    Attributes:
        pools: For each pool, the indices of its units.
        ends: Integer array `(pools,)`, how many rows a pool and those before
            it have.

    Args:
        sizes: For each unit of a pool, by index, how many rows it has there,
            at least one.
        pools: For each pool, the indices of its units.
    """

    def __init__(
        self,
        sizes: Sequence[int] | Mapping[int, int],
        pools: Iterable[list[int]],
    ) -> None:
        self.pools = list(pools)
        self.ends = np.cumsum(
            [sum(sizes[unit] for unit in pool) for pool in self.pools]
        )

    def rows(self, pool: int) -> np.ndarray | slice:
        """Returns the order of the rows of a pool, an index of an array.

        Args:
            pool: Index of the pool; its rows are those of its units one after
                the other.
        """
        raise NotImplementedError

    def rows_of_unit(self, unit: int) -> slice:
        """Returns which rows of a unit there are; all unless overridden.

        Args:
            unit: Index of a unit of a pool.
        """
        return slice(None)

    def size(self, pool: int) -> int:
        """Returns how many rows a pool has."""
        return int(self.ends[pool]) - self._start(pool)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yields where some rows are that follow each other.

        Args:
            start: How many rows are before the first one.
            stop: How many are before the one after the last one.

        Yields:
            A pool, and as of `start` and `stop` in its order.
        """
        pool = int(np.searchsorted(self.ends, start, side="right"))
        while start < stop:
            end = min(stop, int(self.ends[pool]))
            before = self._start(pool)
            yield pool, start - before, end - before
            start, pool = end, pool + 1

    def _start(self, pool: int) -> int:
        return int(self.ends[pool - 1]) if pool else 0


class StoredOrder(RowOrder):
    """The order in which rows are stored; each unit is a pool.

    Args:
        sizes: How many rows each unit has, at least one.

    Example:
    >>> order = StoredOrder([3, 2])
    >>> list(order.pieces(2, 5))
    [(0, 2, 3), (1, 0, 2)]
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(sizes, [[unit] for unit in range(len(sizes))])

    def rows(self, pool: int) -> slice:
        return slice(None)
