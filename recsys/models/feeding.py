from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np

from keras_moe.types import Structure
from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.pool_reader import EncodedUnits
from recsys.data.streaming.pool_reader import Encoder
from recsys.data.streaming.pool_reader import PoolReader
from recsys.data.streaming.row_order import StoredOrder
from recsys.data.streaming.split_stream import SplitStream
from recsys.distribution.process_group import num_shares
from recsys.distribution.process_group import own_rows
from recsys.distribution.process_group import shares
from recsys.private_names import set_number_of_batches

if TYPE_CHECKING:
    import tensorflow as tf


class InputBatches(keras.utils.PyDataset):
    """Arrays of inputs in batches, in their order.

    Args:
        inputs: For each feature, an array `(rows, ...)`; at least one row.
        batch_size: Rows in a batch; the last one may have fewer.
    """

    def __init__(
        self, inputs: Mapping[str, np.ndarray], batch_size: int
    ) -> None:
        super().__init__()
        self.inputs = dict(inputs)
        self.batch_size = batch_size

    def __len__(self) -> int:
        num_rows = len(next(iter(self.inputs.values())))
        return -(-num_rows // self.batch_size)

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray]]:
        start = index * self.batch_size
        rows = slice(start, start + self.batch_size)
        return ({name: values[rows] for name, values in self.inputs.items()},)


class _OwnRows(keras.utils.PyDataset):
    """The rows of each batch that this process has."""

    def __init__(self, batches: keras.utils.PyDataset) -> None:
        super().__init__()
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[Structure, ...]:
        return own_rows(self._batches[index])


def feed(
    batches: keras.utils.PyDataset, whole: bool = True, varying: bool = False
) -> Any:
    """Returns batches as `predict`, or `fit` without `shuffle`, takes them.

    On TensorFlow, Keras makes a `tf.data` pipeline of them that tunes itself,
    and whose end waits, every other time, for the tuner to wake up: after a
    pass of 12 seconds for another 8. This is a pipeline without a tuner.

    Args:
        batches: At least one batch of tuples of dicts of arrays, read anew
            for every pass.
        whole: Boolean, whether each has the rows of all processes that share
            a training; else those of this process alone. Defaults to `True`.
        varying: Boolean, whether the lists of a batch have the room that its
            own need, as where a split is read unit by unit. Defaults to
            `False`.

    Example:
    >>> batches = InputBatches({"user": np.arange(5)}, batch_size=2)
    >>> [len(inputs["user"]) for inputs, in feed(batches)]
    [2, 2, 1]
    """
    if keras.backend.backend() != "tensorflow":
        return _OwnRows(batches) if whole and num_shares() > 1 else batches
    import tensorflow as tf

    def spec(array: np.ndarray) -> "tf.TensorSpec":
        shape = [None, *array.shape[1:]]
        if varying and array.ndim > 1 and array.dtype == np.int32:
            shape[1] = None  # A list of numbers of ids.
        return tf.TensorSpec(shape, array.dtype)

    # The replicas of a strategy draw one after the other.
    replicas = num_shares()
    dataset = tf.data.Dataset.from_generator(
        lambda: (
            share
            for index in range(len(batches))
            for share in shares(batches[index])
        ),
        output_signature=tf.nest.map_structure(spec, batches[0]),
    )
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(len(batches) * replicas)
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = dataset.prefetch(2 * replicas).with_options(options)
    if replicas == 1:
        return dataset
    strategy = tf.distribute.get_strategy()
    distributed = strategy.distribute_datasets_from_function(lambda _: dataset)
    # It says how many shares there are, which Keras takes for steps.
    set_number_of_batches(distributed, len(batches))
    return distributed


class StreamedInputs(keras.utils.PyDataset):
    """A model's inputs for a split that is read unit by unit, in its order.

    Args:
        split: The split.
        encoder: Returns the inputs alone for rows of it.
        batch_size: Rows in a batch; the last one may have fewer.
    """

    def __init__(
        self, split: SplitStream, encoder: Encoder, batch_size: int
    ) -> None:
        super().__init__()
        self.num_rows = len(split)
        self.batch_size = batch_size
        order = StoredOrder(split.sizes)
        thread = ThreadPoolExecutor(1, "read rows")
        self._reader = PoolReader(order, EncodedUnits(split, encoder), thread)

    def __len__(self) -> int:
        return -(-self.num_rows // self.batch_size)

    def __getitem__(self, index: int) -> Arrays:
        start = index * self.batch_size
        stop = min(start + self.batch_size, self.num_rows)
        return self._reader.read(start, stop)
