from collections.abc import Iterator
from math import prod
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys.row_blocks import RowBlocks
from recsys.tables.backend_rows import backend_rows

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
    shape = tuple(variable.shape)
    dtype = np.dtype(variable.dtype)
    row_bytes = prod(shape[1:]) * dtype.itemsize
    at_once = max(1, _BYTES_AT_ONCE // max(1, row_bytes))
    if not shape or shape[0] <= at_once:
        return variable.numpy()

    def blocks() -> Iterator[Any]:
        for start in range(0, shape[0], at_once):
            rows = ops.arange(start, min(start + at_once, shape[0]))
            yield ops.convert_to_numpy(backend_rows.read(variable, rows))

    return RowBlocks(shape, dtype, blocks)
