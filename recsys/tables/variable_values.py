from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys.row_blocks import RowBlocks
from recsys.tables.backend_rows import backend_rows
from recsys.tables.row_split import row_split
from recsys.tables.row_split import shape_of

_BYTES_AT_ONCE = 1 << 26


def variable_values(variable: keras.Variable) -> Any:
    """Returns the values of a variable, in blocks of rows if there are many.

    TensorFlow takes the memory of a table that is trained by rows twice to
    return all of it at once.

    Args:
        variable: A variable with a value.

    Returns:
        An array, or `RowBlocks`.
    """
    split, shape = row_split(variable), shape_of(variable)
    dtype = np.dtype(variable.dtype)
    row_bytes = prod(shape[1:]) * dtype.itemsize
    at_once = max(1, _BYTES_AT_ONCE // max(1, row_bytes))
    if split is not None:
        return RowBlocks(shape, dtype, partial(_parts, variable, at_once))
    if not shape or shape[0] <= at_once:
        return variable.numpy()

    def blocks() -> Iterator[Any]:
        for start in range(0, shape[0], at_once):
            rows = ops.arange(start, min(start + at_once, shape[0]))
            yield ops.convert_to_numpy(backend_rows.read(variable, rows))

    return RowBlocks(shape, dtype, blocks)


def _parts(variable: keras.Variable, at_once: int) -> Iterator[Any]:
    """The rows of a variable that is split, without padding."""
    num_rows = shape_of(variable)[0]
    shards = {
        shard.index[0].start or 0: shard.data
        for shard in variable.value.addressable_shards
    }
    for first in sorted(shards):
        share = shards[first][: max(0, num_rows - first)]
        for start in range(0, len(share), at_once):
            yield np.asarray(share[start : start + at_once])
