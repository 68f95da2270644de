from collections.abc import Callable
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from typing import Protocol

import numpy as np

from recsys.data.streaming.row_order import RowOrder
from recsys.data.streaming.split_stream import SplitStream
from recsys.features.list_room import joined

if TYPE_CHECKING:
    import pandas as pd


Arrays = tuple[dict[str, np.ndarray], ...]


class PoolReader:
    """Rows in an order, of which two pools are in memory.

    While rows of one pool are asked for, the next one is read in a thread.
    Whatever is asked for, no more is read than the pools that it lies in and
    the one behind them.

    Args:
        order: The order of the rows.
        load: Reads a unit, by its index: tuples of dicts of arrays
            `(rows, ...)`, of the same shapes and types in all units but for
            the number of rows. It is called in the thread.
        thread: Runs one call at a time.

    Example:
    >>> from recsys.data.streaming.row_order import StoredOrder
    >>> with ThreadPoolExecutor(1) as thread:
    ...     reader = PoolReader(
    ...         StoredOrder([2, 2]),
    ...         lambda unit: ({"unit": np.array([unit, unit])},),
    ...         thread,
    ...     )
    ...     reader.read(1, 3)
    ({'unit': array([0, 1])},)
    """

    def __init__(
        self,
        order: RowOrder,
        load: Callable[[int], Arrays],
        thread: ThreadPoolExecutor,
    ) -> None:
        self.order = order
        self._load = load
        self._thread = thread
        self._pools: dict[int, Future[Arrays]] = {}

    def read(self, start: int, stop: int) -> Arrays:
        """Returns rows that follow each other.

        Args:
            start: How many rows are before the first one.
            stop: How many are before the one after the last one.
        """
        pieces = [
            # Views would keep a whole pool in memory.
            _taken(self._pool(pool), slice(first, last))
            for pool, first, last in self.order.pieces(start, stop)
        ]
        return _joined(pieces) if len(pieces) > 1 else pieces[0]

    def close(self) -> None:
        """Lets go of all pools."""
        self._release(range(0))

    def _pool(self, pool: int) -> Arrays:
        wanted = range(pool, min(pool + 2, len(self.order.pools)))
        self._release(wanted)
        for index in wanted:
            if index not in self._pools:
                self._pools[index] = self._thread.submit(self._mixed, index)
        return self._pools[pool].result()

    def _release(self, wanted: range) -> None:
        for index in self._pools.keys() - set(wanted):
            self._pools.pop(index).cancel()

    def _mixed(self, pool: int) -> Arrays:
        units = [
            _sliced(self._load(unit), self.order.rows_of_unit(unit))
            for unit in self.order.pools[pool]
        ]
        return _joined(units, self.order.rows(pool))


def _joined(
    parts: Sequence[Arrays], order: np.ndarray | slice = slice(None)
) -> Arrays:
    return tuple(
        {
            name: joined([group[name] for group in groups])[order]
            for name in groups[0]
        }
        for groups in zip(*parts, strict=True)
    )


def _sliced(arrays: Arrays, rows: slice) -> Arrays:
    return tuple(
        {name: values[rows] for name, values in group.items()}
        for group in arrays
    )


def _taken(arrays: Arrays, rows: slice) -> Arrays:
    return tuple(
        {name: values[rows].copy() for name, values in group.items()}
        for group in arrays
    )


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


class Encoder(Protocol):
    """Makes arrays `(rows, ...)` of the rows of a table."""

    def __call__(self, rows: "pd.DataFrame", /) -> Arrays: ...


class EncodedUnits:
    """The units of a split as arrays, each read and encoded when called.

    Args:
        split: The split.
        encoder: Encodes the rows of a unit.

    Call arguments:
        unit: Index of the unit.

    Returns:
        The arrays, as `PoolReader` takes them.
    """

    def __init__(self, split: SplitStream, encoder: Encoder) -> None:
        self.split = split
        self.encoder = encoder

    def __call__(self, unit: int) -> Arrays:
        return self.encoder(self.split.read(self.split.units[unit]))
