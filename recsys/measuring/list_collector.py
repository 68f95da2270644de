from collections.abc import Iterator

import numpy as np

from recsys.measuring.retrieval_metrics import Scored
from recsys.metrics import LIST_METRICS
from recsys.metrics.recommended_lists import RecommendedLists
from recsys.metrics.recommended_lists import best_items


class ListCollector:
    """The lists that a model retrieves for the rows of a split.

    What is excluded for a row is in none of its lists, its own item included.

    Args:
        k: How many items a list has.
    """

    def __init__(self, k: int) -> None:
        self.k = k
        self._items: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def collecting(self, blocks: Iterator[Scored]) -> Iterator[Scored]:
        """Passes blocks of scores on, and keeps the lists of the model.

        Args:
            blocks: As `retrieval_metrics` takes them.
        """
        for rows, scores in blocks:
            self._items.append(best_items(scores[""], self.k, rows.excluded))
            self._weights.append(np.asarray(rows.weights, np.float64))
            yield rows, scores

    def measure(
        self, counts: np.ndarray, vectors: np.ndarray
    ) -> dict[str, float | None]:
        """Returns `LIST_METRICS` of the lists, by "<name>@<k>".

        Args:
            counts: What each item counts in the training split, `(N,)`.
            vectors: A vector for each item, `(N, D)`.
        """
        width = min(self.k, len(counts))
        nothing = np.zeros((0, width), np.int64)
        lists = RecommendedLists(
            np.concatenate([nothing, *self._items]),
            np.concatenate([np.zeros(0), *self._weights]),
            np.asarray(counts, np.float64),
            vectors,
        )
        return {
            f"{name}@{self.k}": metric(lists)
            for name, metric in LIST_METRICS.items()
        }
