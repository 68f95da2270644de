from collections.abc import Callable
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from typing import Any

import keras

from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.pool_reader import PoolReader
from recsys.data.streaming.split_stream import SplitStream
from recsys.data.streaming.stored_order import StoredOrder

if TYPE_CHECKING:
    import pandas as pd


class StreamedInputs(keras.utils.PyDataset):
    """A model's inputs for a split that is read unit by unit, in its order.

    Args:
        split: The split.
        encode: Returns the inputs for rows of it, an array `(rows, ...)` for
            each feature.
        batch_size: Rows in a batch; the last one may have fewer.
    """

    def __init__(
        self,
        split: SplitStream,
        encode: Callable[["pd.DataFrame"], Mapping[str, Any]],
        batch_size: int,
    ) -> None:
        super().__init__()
        self.num_rows = len(split)
        self.batch_size = batch_size

        def load(unit: int) -> Arrays:
            return (dict(encode(split.read(split.units[unit]))),)

        order = StoredOrder(split.sizes)
        thread = ThreadPoolExecutor(1, "read rows")
        self._reader = PoolReader(order, load, thread)

    def __len__(self) -> int:
        return -(-self.num_rows // self.batch_size)

    def __getitem__(self, index: int) -> Arrays:
        start = index * self.batch_size
        stop = min(start + self.batch_size, self.num_rows)
        return self._reader.read(start, stop)
