from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RowBlocks:
    """An array that is made a block of rows at a time.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
        blocks: Returns the blocks, arrays `(rows, *shape[1:])`, in order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Callable[[], Iterator[Any]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Returns the whole array, called by NumPy."""
        whole = np.empty(self.shape, dtype or self.dtype)
        start = 0
        for block in self.blocks():
            whole[start : start + len(block)] = block
            start += len(block)
        return whole
