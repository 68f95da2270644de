import keras
import numpy as np

from recsys.data.streaming.pool_reader import Arrays
from recsys.training.shuffling import shuffled_rows


class TrainingBatches(keras.utils.PyDataset):
    """Batches of a fixed size from arrays in memory, in a new order each epoch.

    The order depends on the seed and the epoch alone, so a resumed training
    sees what an uninterrupted one would have seen. The rows that do not fill
    a batch are left out of the epoch: batches of one shape compile once.

    Args:
        arrays: The rows as `training_arrays` returns them.
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
        super().__init__()
        self.arrays = arrays
        self.num_rows = len(next(iter(arrays[0].values())))
        self.batch_size = min(batch_size, self.num_rows)
        self.seed = seed
        self.shuffle_buffer = shuffle_buffer
        self.shuffle(epoch=0)

    def shuffle(self, epoch: int, skip: int = 0) -> None:
        """Brings the rows into the order of an epoch.

        Args:
            epoch: The epoch, counted from 0.
            skip: How many of its batches to leave out at the beginning.
        """
        self._skip = skip
        generator = np.random.default_rng([self.seed, epoch])
        self.order = shuffled_rows(
            self.num_rows, self.shuffle_buffer, generator
        )

    def __len__(self) -> int:
        return self.num_rows // self.batch_size - self._skip

    def __getitem__(self, index: int) -> Arrays:
        start = (self._skip + index) * self.batch_size
        rows = self.order[start : start + self.batch_size]
        return tuple(
            {name: values[rows] for name, values in group.items()}
            for group in self.arrays
        )
