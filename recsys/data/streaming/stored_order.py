from collections.abc import Sequence
from typing import Any

from recsys.data.streaming.row_order import RowOrder


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

    def rows(self, pool: int) -> Any:
        return slice(None)
