from abc import ABC
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


class Reranker(ABC):
    """A greedy choice of items: each adds the most to those before it.

    Args:
        relevance: Array `(C,)` from 0 to 1.
        similarity: Array `(C, C)` of cosines.
        diversity: d, from 0 (by relevance alone) to 1.
    """

    def __init__(
        self, relevance: Numbers, similarity: Numbers, diversity: float
    ) -> None:
        self._relevance = relevance
        self._similarity = similarity
        self._diversity = diversity

    @abstractmethod
    def gains(self) -> Numbers:
        """Returns what each item would add to the chosen ones, `(C,)`."""

    @abstractmethod
    def choose(self, place: int) -> None:
        """Adds an item, which was not chosen before.

        Args:
            place: Its place among the C.
        """


def reranked(
    kind: type[Reranker],
    relevance: Numbers,
    similarity: Numbers,
    top: int,
    diversity: float,
) -> list[int]:
    """Chooses items one after the other.

    Args:
        kind: What they are chosen by.
        relevance: Array `(C,)` from 0 to 1.
        similarity: Array `(C, C)` of cosines.
        top: How many items to choose.
        diversity: d, from 0 (by relevance alone) to 1.

    Returns:
        Places of the items, in the order in which they are chosen. Of equal
        items, the first.
    """
    reranker = kind(relevance, similarity, diversity)
    is_open = np.ones(len(relevance), bool)
    chosen: list[int] = []
    for _ in range(min(top, len(relevance))):
        best = int(np.where(is_open, reranker.gains(), -np.inf).argmax())
        reranker.choose(best)
        chosen.append(best)
        is_open[best] = False
    return chosen


def shortfall(
    kind: type[Reranker],
    relevance: Numbers,
    similarity: Numbers,
    places: Sequence[int],
    diversity: float,
    slack: float,
) -> float:
    """Returns by how much the items of a list add less than the best would.

    Args:
        kind: What they should be chosen by.
        relevance: Array `(C,)` from 0 to 1.
        similarity: Array `(C, C)` of cosines.
        places: Places of the items, in order.
        diversity: d, from 0 (by relevance alone) to 1.
        slack: By how much each relevance may be wrong.

    Returns:
        The largest difference; 0 or less for a list of the reranker.

    Example:
    >>> from recsys.retrieval.rerank.mmr import MMR
    >>> shortfall(MMR, np.array([1.0, 0.5]), np.eye(2), [1], 0.2, slack=0.0)
    0.4
    """
    most = kind(relevance + slack, similarity, diversity)
    least = kind(relevance - slack, similarity, diversity)
    is_open = np.ones(len(relevance), bool)
    largest = 0.0
    for place in places:
        best = np.where(is_open, least.gains(), -np.inf).max()
        largest = max(largest, float(best - most.gains()[place]))
        for reranker in (most, least):
            reranker.choose(place)
        is_open[place] = False
    return largest


def relevance(scores: npt.ArrayLike) -> Numbers:
    """Returns scores on a scale from 0, the least, to 1, the largest.

    Args:
        scores: Array-like `(C,)` of finite numbers.

    Example:
    >>> relevance([2.0, 4.0, 3.0]).tolist()
    [0.0, 1.0, 0.5]
    """
    values = np.asarray(scores, np.float64)
    span = np.ptp(values) if len(values) else 0.0
    return (values - values.min()) / span if span else np.ones(len(values))


def cosine_similarity(vectors: npt.ArrayLike) -> Numbers:
    """Returns the cosines of all pairs of vectors, `(C, C)`; 0 with a zero.

    Args:
        vectors: Array-like `(C, D)`.
    """
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = np.divide(rows, lengths, np.zeros_like(rows), where=lengths > 0)
    return np.asarray(units @ units.T)
