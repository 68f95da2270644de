import math
from abc import ABC
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Self

import numpy as np

from recsys.serving.import_faiss import import_faiss

if TYPE_CHECKING:
    import faiss

_STEP = 1.25
_CLOSE = 1e-5  # Of a score, relative to the largest one.


class FaissIndex(ABC):
    """Finds most of the items with the largest scalar products, by faiss.

    How hard it looks is part of its file: faiss keeps it there.

    Args:
        index: An index of faiss that holds item 1 first.

    Attributes:
        effort: How hard it looks for as many items as it was tuned for.
    """

    def __init__(self, index: "faiss.Index") -> None:
        self._index = index

    @classmethod
    @abstractmethod
    def build(cls, vectors: np.ndarray) -> Self:
        """Makes the index of some vectors.

        Args:
            vectors: Float32 array `(items, dim)`, that of item 1 first.
        """

    @property
    @abstractmethod
    def effort(self) -> int: ...

    @effort.setter
    @abstractmethod
    def effort(self, value: int) -> None: ...

    @abstractmethod
    def _look(self, queries: np.ndarray, count: int, usual: int) -> np.ndarray:
        """Searches for more items than usual, as well as for the usual ones.

        Returns:
            Items counted from 0, `(queries, count)`; -1 for none.
        """

    @abstractmethod
    def _look_everywhere(self, queries: np.ndarray, count: int) -> np.ndarray:
        """Does the same among all items, one by one."""

    @property
    def num_items(self) -> int:
        """Number of items."""
        return int(self._index.ntotal)

    def tune(
        self,
        vectors: np.ndarray,
        queries: np.ndarray,
        count: int,
        recall: float,
    ) -> float:
        """Looks as hard as it takes to find what is to be found.

        The effort grows by a quarter until it is enough. An item that ties
        with the last of the best is one of them.

        Args:
            vectors: What the index was built from.
            queries: Float32 array `(queries, dim)` to try it with.
            count: How many items are asked for.
            recall: The share of the best items that it has to find.

        Returns:
            The share that it finds, less than `recall` where even the most
            effort that is worth it is not enough.
        """
        faiss = import_faiss()

        exact = faiss.IndexFlatIP(vectors.shape[1])
        exact.add(vectors)
        best, _ = exact.search(queries, count)
        least = best[:, -1:] - _CLOSE * np.abs(best).max()
        self.effort, most = self._efforts(count)
        while True:
            numbers = self._look(queries, count, count)
            scores = np.einsum("qd,qcd->qc", queries, vectors[numbers])
            share = float(((scores >= least) & (numbers >= 0)).mean())
            if share >= recall or self.effort >= most:
                return share
            self.effort = min(most, math.ceil(_STEP * self.effort))

    @abstractmethod
    def _efforts(self, count: int) -> tuple[int, int]:
        """The least and the most effort to find as many items."""

    def unseen(
        self, queries: np.ndarray, seen: np.ndarray, count: int
    ) -> np.ndarray:
        """Finds items that are not seen, however many are.

        Args:
            queries: Float32 array `(queries, dim)`.
            seen: Integer array `(queries, any)`, the numbers of items that
                are left out, 0 for none.
            count: How many items are asked for.

        Returns:
            Their numbers, int32 `(queries, count)`, the best first; 0 behind
            them where there are no more.
        """
        if not len(queries):
            return np.zeros((0, count), np.int32)
        depth = min(self.num_items, count + seen.shape[1])
        nearest = self._look(queries, depth, count) + 1
        numbers = _without(nearest, seen, count)
        # An approximate index may end before it has found enough.
        left = self.num_items - _distinct(seen)
        short = (numbers > 0).sum(axis=1) < np.minimum(count, left)
        if short.any():
            nearest = self._look_everywhere(queries[short], depth) + 1
            numbers[short] = _without(nearest, seen[short], count)
        return numbers

    def write(self, file: Path) -> None:
        """Writes a file that `read_index` reads."""
        faiss = import_faiss()

        faiss.write_index(self._index, str(file))


def _without(numbers: np.ndarray, seen: np.ndarray, count: int) -> np.ndarray:
    """The first numbers of each row that are not seen, 0 behind them."""
    # One set of integers for all rows, where each has its own.
    most = max(numbers.max(), seen.max(initial=0)) + 1
    rows = np.arange(len(numbers))[:, None] * most
    left = (numbers > 0) & ~np.isin(numbers + rows, seen + rows)
    order = np.argsort(~left, axis=1, kind="stable")[:, :count]
    unseen = np.where(left, numbers, 0)
    return np.take_along_axis(unseen, order, axis=1).astype(np.int32)


def _distinct(seen: np.ndarray) -> np.ndarray:
    """Number of different items of each row."""
    ordered = np.sort(seen, axis=1)
    is_first = np.ones(ordered.shape, bool)
    is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return (is_first & (ordered > 0)).sum(axis=1)
