from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recsys.data.streaming.row_order import RowOrder


@dataclass(frozen=True)
class Share:
    """Index of an equal part of all rows, and number of parts."""

    index: int = 0
    count: int = 1


WHOLE = Share()


class EpochOrder(RowOrder):
    """The order of the rows of an epoch, of which few are held at a time.

    Units come in random order. As many of them as have `pool_rows` rows are a
    pool, and the rows of a pool come in random order. It depends on the
    arguments alone. Two rows of one unit are always in one pool.

    A pool that holds all rows has them in the order that `TrainingBatches`
    has for the seed and the epoch, whatever the units are.

    The units in their random order may be cut into shares, of as many rows
    each; pools are made of the units of one share. A unit that is cut belongs
    to several shares, and each of its rows to one. The rows that do not
    divide, fewer than there are shares, belong to none.

    Args:
        sizes: How many rows each unit has, at least one.
        pool_rows: Least rows of a pool, but for the last one.
        seed: Seed of the order.
        epoch: Number of the epoch.
        share: Which of the shares to order; all rows unless given.

    Example:
    >>> order = EpochOrder([3, 3, 3, 3], pool_rows=5, seed=0, epoch=0)
    >>> order.pools
    [[2, 0], [1, 3]]
    >>> list(order.pieces(4, 8))
    [(0, 4, 6), (1, 0, 2)]
    >>> order.rows(1)
    array([1, 4, 5, 3, 2, 0])
    >>> share = Share(index=1, count=2)
    >>> EpochOrder([3, 3, 3, 3], 5, seed=0, epoch=0, share=share).pools
    [[1, 3]]
    """

    def __init__(
        self,
        sizes: Sequence[int],
        pool_rows: int,
        seed: int,
        epoch: int,
        share: Share = WHOLE,
    ) -> None:
        self.seed = [seed, epoch]
        self.share = share
        units = np.random.default_rng(self.seed).permutation(len(sizes))
        pieces = _pieces(sizes, units.tolist(), share)
        self._rows_of = {piece.unit: piece for piece in pieces}
        pools = _pools(pieces, pool_rows)
        super().__init__(
            {piece.unit: piece.size for piece in pieces},
            pools if len(pools) > 1 else map(sorted, pools),
        )

    def rows_of_unit(self, unit: int) -> slice:
        piece = self._rows_of[unit]
        return slice(piece.start, piece.stop)

    def rows(self, pool: int) -> np.ndarray | slice:
        seed = [*self.seed, pool] if len(self.pools) > 1 else self.seed
        if self.share != WHOLE:
            seed = [*self.seed, pool, self.share.index]
        return np.random.default_rng(seed).permutation(self.size(pool))


class _Piece(NamedTuple):
    """Rows of a unit that follow each other."""

    unit: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def _pieces(
    sizes: Sequence[int], units: Sequence[int], share: Share
) -> list[_Piece]:
    """The units of a share, in their order, and which rows of them."""
    num_rows = sum(sizes) // share.count
    first = share.index * num_rows
    last = first + num_rows
    pieces = []
    before = 0
    for unit in units:
        start, stop = max(first - before, 0), min(last - before, sizes[unit])
        if start < stop:
            pieces.append(_Piece(unit, start, stop))
        before += sizes[unit]
    return pieces


def _pools(pieces: Sequence[_Piece], pool_rows: int) -> list[list[int]]:
    """Parts units in their order, each part as small as it may be."""
    pools: list[list[int]] = []
    rows = pool_rows
    for piece in pieces:
        if rows >= pool_rows:
            pools.append([])
            rows = 0
        pools[-1].append(piece.unit)
        rows += piece.size
    return pools
