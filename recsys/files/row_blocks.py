from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class RowBlocks:
    """An array that is made a block of rows at a time.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
        blocks: Returns the blocks, arrays `(rows, *shape[1:])`, in order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Callable[[], Iterator[np.ndarray]]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        """Returns the whole array, called by NumPy."""
        whole = np.empty(self.shape, dtype or self.dtype)
        start = 0
        for block in self.blocks():
            whole[start : start + len(block)] = block
            start += len(block)
        return whole
