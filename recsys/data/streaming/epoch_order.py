from collections.abc import Sequence
from typing import Any

import numpy as np

from recsys.data.streaming.row_order import RowOrder


class EpochOrder(RowOrder):
    """The order of the rows of an epoch, of which few are held at a time.

    Units come in random order. As many of them as have `pool_rows` rows are a
    pool, and the rows of a pool come in random order. It depends on the
    arguments alone. Two rows of one unit are always in one pool.

    A pool that holds all rows has them in the order that `TrainingBatches`
    has for the seed and the epoch, whatever the units are.

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
        self.seed = [seed, epoch]
        pools = _pools(sizes, pool_rows, self.seed)
        super().__init__(sizes, pools if len(pools) > 1 else map(sorted, pools))

    def rows(self, pool: int) -> Any:
        seed = [*self.seed, pool] if len(self.pools) > 1 else self.seed
        return np.random.default_rng(seed).permutation(self.size(pool))


def _pools(
    sizes: Sequence[int], pool_rows: int, seed: list[int]
) -> list[list[int]]:
    """Parts units in random order, each part as small as it may be."""
    pools: list[list[int]] = []
    rows = pool_rows
    for unit in np.random.default_rng(seed).permutation(len(sizes)).tolist():
        if rows >= pool_rows:
            pools.append([])
            rows = 0
        pools[-1].append(unit)
        rows += sizes[unit]
    return pools
