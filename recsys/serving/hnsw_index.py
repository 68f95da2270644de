from typing import TYPE_CHECKING
from typing import Self

from recsys.serving.faiss_index import FaissIndex
from recsys.serving.import_faiss import import_faiss

if TYPE_CHECKING:
    import numpy as np

# More efConstruction than faiss has by itself makes worse graphs of scalar
# products, which are no distances.
_NEIGHBOURS = 32
# How much harder than for as many items as are asked for is not worth it.
_MOST_EFFORT = 64


class HnswIndex(FaissIndex):
    """A graph in which neighbours lead to neighbours: fast, and large.

    `effort` is efSearch, the number of items that are kept in sight. The mean
    of all vectors is taken off each: that takes the same off all scores of a
    query, and leaves a graph that needs far less effort.

    References:
        Malkov, Yashunin. Efficient and robust approximate nearest neighbor
        search using Hierarchical Navigable Small World graphs. TPAMI 2020.
    """

    @classmethod
    def build(cls, vectors: "np.ndarray") -> Self:
        faiss = import_faiss()

        index = faiss.IndexHNSWFlat(
            vectors.shape[1], _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT
        )
        index.add(vectors - vectors.mean(axis=0))
        return cls(index)

    @property
    def effort(self) -> int:
        return int(self._index.hnsw.efSearch)

    @effort.setter
    def effort(self, value: int) -> None:
        self._index.hnsw.efSearch = value

    def _efforts(self, count: int) -> tuple[int, int]:
        return count, max(count, min(self.num_items, _MOST_EFFORT * count))

    def _look(
        self, queries: "np.ndarray", count: int, usual: int
    ) -> "np.ndarray":
        faiss = import_faiss()

        effort = self.effort + count - usual
        options = faiss.SearchParametersHNSW(efSearch=effort)
        return self._index.search(queries, count, params=options)[1]

    def _look_everywhere(
        self, queries: "np.ndarray", count: int
    ) -> "np.ndarray":
        faiss = import_faiss()

        vectors = faiss.downcast_index(self._index.storage)
        return vectors.search(queries, count)[1]
