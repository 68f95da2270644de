from collections.abc import Callable

from recsys.data.streaming.pool_reader import Arrays

MOST_BYTES = 1 << 29


class KeptUnits:
    """Keeps units in memory once they were read, while there is room.

    Args:
        load: Reads a unit, as in `PoolReader`.
        most_bytes: Most bytes of all arrays that are kept together. Units for
            which there is no room are read anew each time.

    Example:
    >>> read = []
    >>> def load(unit):
    ...     read.append(unit)
    ...     return ({"row": np.arange(8, dtype="int8")},)
    >>> import numpy as np
    >>> units = KeptUnits(load, most_bytes=10)
    >>> for unit in (0, 1, 0, 1):
    ...     _ = units(unit)
    >>> read
    [0, 1, 1]
    """

    def __init__(
        self, load: Callable[[int], Arrays], most_bytes: int = MOST_BYTES
    ) -> None:
        self._load = load
        self._left = most_bytes
        self._kept: dict[int, Arrays] = {}

    def __call__(self, unit: int) -> Arrays:
        if unit in self._kept:
            return self._kept[unit]
        arrays = self._load(unit)
        size = sum(
            values.nbytes for group in arrays for values in group.values()
        )
        if size <= self._left:
            self._left -= size
            self._kept[unit] = arrays
        return arrays
