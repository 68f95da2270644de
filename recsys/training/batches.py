from collections.abc import Callable
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import keras
import numpy as np
import pandas as pd

from recsys.config.resolved_config import ResolvedConfig
from recsys.data.streaming.epoch_order import WHOLE
from recsys.data.streaming.epoch_order import EpochOrder
from recsys.data.streaming.epoch_order import Share
from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.pool_reader import EncodedUnits
from recsys.data.streaming.pool_reader import KeptUnits
from recsys.data.streaming.pool_reader import PoolReader
from recsys.data.streaming.split_stream import SplitStream
from recsys.models.fold_statistics import FoldStatistics
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.row_encoder import RowEncoder
from recsys.models.target_statistics import ROW_STATISTICS
from recsys.models.two_tower import TwoTower
from recsys.tasks.row_weight import Weighing
from recsys.training.data_parallel import process_share
from recsys.training.shuffled_batches import ShuffledBatches
from recsys.training.user_batches import UserBatches
from recsys.training.user_batches import create_user_batches

if TYPE_CHECKING:
    from recsys.data.image_dataset import Images

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


class TrainingBatches(ShuffledBatches):
    """Batches of rows from arrays in memory.

    Args:
        arrays: The rows as `RowEncoder` returns them.
        batch_size: Most rows in a batch.
        seed: Seed of the order.
        shuffle_buffer: From how many rows the next one is drawn; see
            `shuffled_rows`. Defaults to `None`, all of them.

    Example:
    >>> rows = ({"user": np.array([7, 8, 9])},)
    >>> batches = TrainingBatches(rows, batch_size=2, seed=0)
    >>> [inputs["user"].tolist() for inputs, in batches]
    [[9, 7]]
    """

    def __init__(
        self,
        arrays: Arrays,
        batch_size: int,
        seed: int,
        shuffle_buffer: int | None = None,
    ) -> None:
        num_rows = len(next(iter(arrays[0].values())))
        super().__init__(num_rows, batch_size, seed, shuffle_buffer)
        self.arrays = arrays

    def __getitem__(self, index: int) -> Arrays:
        rows = self.places(index)
        return tuple(
            {name: values[rows] for name, values in group.items()}
            for group in self.arrays
        )


AnyBatches = TrainingBatches | StreamedBatches | UserBatches


def create_batches(
    split: "pd.DataFrame | Images | SplitStream",
    model: MultiTaskModel,
    config: ResolvedConfig,
    weight: Weighing,
    position: str | None = None,
    statistics: FoldStatistics | None = None,
) -> AnyBatches:
    """Creates the batches that a model is trained on.

    Args:
        split: The training split.
        model: The model.
        config: The configuration; it has the size of a batch, the seed and
            from how many rows one is drawn.
        weight: What says what rows count; `None` for nothing.
        position: Column with the positions of rows, if any.
        statistics: The target statistics of the rows, if any.

    Returns:
        Batches of rows in memory, or for a `SplitStream` of rows that are read
        as they are needed: of those that this process has a share in. Towers
        that are trained by themselves may have batches of users.
    """
    retrieval_label = config.retrieval_label if config.retrieval else None
    encoder = RowEncoder(model, weight, retrieval_label, position)
    if isinstance(model, TwoTower) and model.part == "towers":
        assert isinstance(split, pd.DataFrame | SplitStream), "of a ranker"
        of_users = create_user_batches(model, split, encoder, config.seed)
        if of_users is not None:
            return of_users
    if not isinstance(split, SplitStream):
        return TrainingBatches(
            with_statistics(encoder(split), statistics),
            config.batch_size,
            config.seed,
            config.shuffle_buffer,
        )
    units = EncodedUnits(split, encoder)
    starts = np.cumsum([0, *split.sizes])

    def load(unit: int) -> Arrays:
        return with_statistics(units(unit), statistics, starts[unit])

    return StreamedBatches(
        split.sizes,
        KeptUnits(load),
        config.batch_size,
        config.seed,
        config.shuffle_buffer or POOL_ROWS,
        process_share(config),
    )


def with_statistics(
    arrays: Arrays, statistics: FoldStatistics | None, start: int = 0
) -> Arrays:
    """Adds target statistics to encoded rows, if there are any.

    Args:
        arrays: The rows as `RowEncoder` returns them.
        statistics: Those of the training split.
        start: Which of its rows is the first.
    """
    if statistics is None:
        return arrays
    inputs, *rest = arrays
    return ({**inputs, ROW_STATISTICS: statistics(inputs, start)}, *rest)
