import keras
import numpy as np
import numpy.typing as npt


class ShuffledBatches(keras.utils.PyDataset):
    """Batches of one size from what is in memory, in a new order each epoch.

    The order depends on the seed and the epoch alone, so a resumed training
    sees what an uninterrupted one would have seen. What does not fill a batch
    is left out of the epoch: batches of one shape compile once.

    Args:
        count: Of how many things there are batches, at least one.
        batch_size: Most of them in a batch.
        seed: Seed of the order.
        buffer: From how many the next one is drawn; see `shuffled_rows`.
            Defaults to `None`, all of them.
    """

    def __init__(
        self, count: int, batch_size: int, seed: int, buffer: int | None = None
    ) -> None:
        super().__init__()
        self.count = count
        self.batch_size = min(batch_size, count)
        self.seed = seed
        self.buffer = buffer
        self.shuffle(epoch=0)

    def shuffle(self, epoch: int, skip: int = 0) -> None:
        """Brings everything into the order of an epoch.

        Args:
            epoch: The epoch, counted from 0.
            skip: How many of its batches to leave out at the beginning.
        """
        self._skip = skip
        generator = np.random.default_rng([self.seed, epoch])
        self.order = shuffled_rows(self.count, self.buffer, generator)

    def __len__(self) -> int:
        return self.count // self.batch_size - self._skip

    def places(self, index: int) -> npt.NDArray[np.int64]:
        """Returns what a batch consists of, integers from 0.

        Args:
            index: Which batch of those that are not left out.
        """
        start = (self._skip + index) * self.batch_size
        return self.order[start : start + self.batch_size]


def shuffled_rows(
    num_rows: int, buffer: int | None, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Returns the rows in random order.

    A buffer that does not hold all rows is filled with the first ones. Each
    row is drawn from it at random, and the next row that was not read yet
    takes its place: what `tf.data.Dataset.shuffle` does. Rows far from each
    other in the data then stay far from each other in every epoch.

    Args:
        num_rows: Number of rows.
        buffer: How many rows the buffer holds; `None` for all.
        generator: Draws the rows.

    Returns:
        Integer array `(num_rows,)`.

    Example:
    >>> order = shuffled_rows(1000, 10, np.random.default_rng(0))
    >>> bool(np.all(order < np.arange(1000) + 10))
    True
    """
    if buffer is None or buffer >= num_rows:
        return generator.permutation(num_rows)
    held = list(range(buffer))
    places = generator.integers(buffer, size=num_rows - buffer).tolist()
    order = []
    for place, read in zip(places, range(buffer, num_rows), strict=True):
        order.append(held[place])
        held[place] = read
    return np.concatenate([order, generator.permutation(held)])
