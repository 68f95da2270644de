from collections.abc import Callable
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import keras

from recsys.data.streaming.epoch_order import WHOLE
from recsys.data.streaming.epoch_order import EpochOrder
from recsys.data.streaming.epoch_order import Share
from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.pool_reader import PoolReader

POOL_ROWS = 1 << 20


class StreamedBatches(keras.utils.PyDataset):
    """Batches of a fixed size from units that are read one by one.

    They come in the order that `EpochOrder` has for the seed and the epoch, so
    a resumed training sees what an uninterrupted one would have seen. A batch
    may have rows of two pools or more; the rows that do not fill a batch are
    left out at the end of the epoch, so all epochs have as many steps.

    Of several processes, each may have a share of its own: as many steps as
    without, each with its part of the rows of a batch. Only units that have
    rows of the share are read. Another number of shares makes other batches
    of the rows of an epoch.

    Args:
        sizes: How many rows each unit has, at least one.
        load: As in `PoolReader`.
        batch_size: Most rows in a batch, of all shares together; so many, or
            all rows if these are fewer, divide by the number of shares.
        seed: Seed of the order.
        pool_rows: From how many rows, at least, a row is drawn; twice as many
            are in memory. It pays for a pool to have several units: rows that
            are one after the other in the data come apart.

    Example:
    >>> import numpy as np
    >>> batches = StreamedBatches(
    ...     sizes=[3, 3],
    ...     load=lambda unit: ({"row": 3 * unit + np.arange(3)},),
    ...     batch_size=2,
    ...     seed=0,
    ... )
    >>> [rows["row"].tolist() for (rows,) in batches]
    [[3, 2], [5, 4], [0, 1]]
    >>> batches.shuffle(epoch=0, skip=2)
    >>> [rows["row"].tolist() for (rows,) in batches]
    [[0, 1]]
    """

    def __init__(
        self,
        sizes: Sequence[int],
        load: Callable[[int], Arrays],
        batch_size: int,
        seed: int,
        pool_rows: int = POOL_ROWS,
        share: Share = WHOLE,
    ) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.num_rows = sum(self.sizes)
        self.batch_size = min(batch_size, self.num_rows)
        self.seed = seed
        self.pool_rows = pool_rows
        self.share = share
        self._load = load
        self._thread = ThreadPoolExecutor(1, "read rows")
        self._skip = 0
        self._reader = self._reader_of(epoch=0)

    def shuffle(self, epoch: int, skip: int = 0) -> None:
        """Brings the rows into the order of an epoch.

        Args:
            epoch: The epoch, counted from 0.
            skip: How many of its batches to leave out at the beginning. Only
                pools that have rows of others are read.
        """
        self._reader.close()
        self._skip = skip
        self._reader = self._reader_of(epoch)

    def _reader_of(self, epoch: int) -> PoolReader:
        order = EpochOrder(
            self.sizes, self.pool_rows, self.seed, epoch, self.share
        )
        return PoolReader(order, self._load, self._thread)

    def __len__(self) -> int:
        return self.num_rows // self.batch_size - self._skip

    def __getitem__(self, index: int) -> Arrays:
        size = self.batch_size // self.share.count
        start = (self._skip + index) * size
        return self._reader.read(start, start + size)
