from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np


class EpochOrder:
    """The order of the rows of an epoch, of which few are held at a time.

    Units come in random order. As many of them as have `pool_rows` rows are a
    pool, and the rows of a pool come in random order. It depends on the
    arguments alone. Two rows of one unit are always in one pool.

    Attributes:
        pools: For each pool, the indices of its units.
        ends: Integer array `(pools,)`, how many rows a pool and those before
            it have.

    Args:
        sizes: How many rows each unit has, at least one.
        pool_rows: Least rows of a pool, but for the last one.
        seed: Seed of the order.
        epoch: Number of the epoch.

    Example:
    >>> order = EpochOrder([3, 3, 3, 3], pool_rows=5, seed=0, epoch=0)
    >>> order.pools
    [[2, 0], [1, 3]]
    >>> list(order.pieces(4, 8))
    [(0, 4, 6), (1, 0, 2)]
    >>> order.rows(1)
    array([1, 4, 5, 3, 2, 0])
    """

    def __init__(
        self, sizes: Sequence[int], pool_rows: int, seed: int, epoch: int
    ) -> None:
        self.seed = seed
        self.epoch = epoch
        self.pools: list[list[int]] = []
        ends: list[int] = []
        begun = end = 0
        for unit in np.random.default_rng([seed, epoch]).permutation(
            len(sizes)
        ):
            if not self.pools or end - begun >= pool_rows:
                begun = end
                self.pools.append([])
                ends.append(end)
            self.pools[-1].append(int(unit))
            end += sizes[unit]
            ends[-1] = end
        self.ends = np.array(ends)

    def rows(self, pool: int) -> Any:
        """Returns the order of the rows of a pool, an integer array.

        Args:
            pool: Index of the pool; its rows are those of its units one after
                the other.
        """
        generator = np.random.default_rng([self.seed, self.epoch, pool])
        return generator.permutation(self.ends[pool] - self._start(pool))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yields where some rows are that follow each other in the epoch.

        Args:
            start: How many rows of the epoch are before the first one.
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
