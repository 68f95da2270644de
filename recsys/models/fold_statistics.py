from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class FoldStatistics:
    """For each training row, the statistics of its ids from other rows.

    The rows are dealt out into ten folds; a row has the statistics of the nine
    others, in which an id that is only in its own is as an unknown one.

    Attributes:
        tables: By column, float32 `(folds, ids + 1, numbers)`: the statistics
            without the rows of each fold.
        folds: The fold of each row.
        products: Those of `LabelFactors`, float32 `(rows, targets)`, behind
            the statistics of columns. None unless given.
    """

    tables: Mapping[str, np.ndarray]
    folds: npt.NDArray[np.int8]
    products: npt.NDArray[np.float32] | None = None

    def __call__(
        self, codes: Mapping[str, np.ndarray], start: int = 0
    ) -> np.ndarray:
        """Returns the statistics of rows that are one after the other.

        Args:
            codes: By column, the number of each row's id.
            start: Which row of the training split is the first.

        Returns:
            Float32 array `(rows, columns x numbers + targets)`.
        """
        rows = slice(start, start + len(next(iter(codes.values()))))
        folds = self.folds[rows]
        parts = [
            table[folds, codes[name]] for name, table in self.tables.items()
        ]
        if self.products is not None:
            parts.append(self.products[rows])
        return np.concatenate(parts, axis=1)
