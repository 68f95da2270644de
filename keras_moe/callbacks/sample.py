from collections.abc import Iterator

import keras

from keras_moe.checks import check_integer
from keras_moe.types import Structure
from keras_moe.types import Tensor


class Sample:
    """A sample of a model's inputs, to be read in batches.

    Args:
        data: Inputs of the model: an array, or a dict, list or
            tuple of arrays that share the first dimension.
        batch_size: Integer, rows per batch.

    Raises:
        TypeError: If `data` holds anything else than arrays.
        ValueError: If there are no rows, or arrays differ in their number.
    """

    def __init__(self, data: Structure, batch_size: int) -> None:
        self.data = data
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.num_rows = _count_rows(keras.tree.flatten(data))

    def __iter__(self) -> Iterator[Structure]:
        """Yields the batches, each with the structure of the data."""
        for start in range(0, self.num_rows, self.batch_size):
            rows = slice(start, start + self.batch_size)
            yield keras.tree.map_structure(
                lambda array, rows=rows: array[rows], self.data
            )


def _count_rows(arrays: list[Tensor]) -> int:
    for array in arrays:
        if not getattr(array, "shape", ()):
            raise TypeError(
                "`data` must be an array, or a dict, list or tuple of "
                f"arrays. Received: {type(array).__name__} in `data`"
            )
    counts = sorted({int(array.shape[0]) for array in arrays})
    if len(counts) != 1 or counts[0] == 0:
        raise ValueError(
            "`data` must hold at least one row, and the same number of rows "
            f"in every array. Received: arrays with {counts} rows"
        )
    return counts[0]
