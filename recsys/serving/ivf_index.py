from typing import Self

import numpy as np

from recsys.serving.faiss_index import FaissIndex
from recsys.serving.import_faiss import import_faiss

# Rows of a cluster that k-means looks at; faiss warns of fewer.
_LEAST_ROWS, _MOST_ROWS = 39, 64


class IvfIndex(FaissIndex):
    """Clusters of items, of which the nearest are looked through.

    `effort` is nprobe, the number of these. Scalar products become distances
    by a further dimension, in which an item has what its vector is shorter
    than the longest one, and a query nothing: clusters of distances are far
    more even.

    References:
        Bachrach et al. Speeding up the Xbox recommender system using a
        Euclidean transformation for inner-product spaces. RecSys 2014.
    """

    @classmethod
    def build(cls, vectors: np.ndarray) -> Self:
        faiss = import_faiss()

        num_items, dim = vectors.shape
        squares = np.square(vectors, dtype=np.float64).sum(axis=1)
        missing = np.sqrt(squares.max() - squares)[:, None]
        vectors = np.hstack([vectors, missing]).astype(np.float32)
        lists = min(4 * num_items**0.5, num_items / _LEAST_ROWS)
        index = faiss.IndexIVFFlat(
            faiss.IndexFlatL2(dim + 1), dim + 1, max(1, int(lists))
        )
        index.cp.max_points_per_centroid = _MOST_ROWS
        index.train(vectors)
        index.add(vectors)
        return cls(index)

    @property
    def effort(self) -> int:
        return int(self._index.nprobe)

    @effort.setter
    def effort(self, value: int) -> None:
        self._index.nprobe = value

    def _efforts(self, count: int) -> tuple[int, int]:
        return 1, int(self._index.nlist)

    def _look(self, queries: np.ndarray, count: int, usual: int) -> np.ndarray:
        return self._probe(queries, count, -(-self.effort * count // usual))

    def _look_everywhere(self, queries: np.ndarray, count: int) -> np.ndarray:
        return self._probe(queries, count, self._index.nlist)

    def _probe(self, queries: np.ndarray, count: int, lists: int) -> np.ndarray:
        faiss = import_faiss()

        options = faiss.SearchParametersIVF(
            nprobe=min(lists, self._index.nlist)
        )
        queries = np.pad(queries, ((0, 0), (0, 1)))
        return self._index.search(queries, count, params=options)[1]
