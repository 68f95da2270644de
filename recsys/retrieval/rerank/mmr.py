import numpy as np

from recsys.retrieval.rerank.reranker import Numbers
from recsys.retrieval.rerank.reranker import Reranker


class MMR(Reranker):
    """Maximal marginal relevance, one item after the other.

    Next is the one with the largest

        (1 - d) relevance_i - d max_{j chosen} similarity_ij

    References:
        Carbonell, Goldstein. The Use of MMR, Diversity-Based Reranking for
        Reordering Documents and Producing Summaries. SIGIR 1998.
    """

    def __init__(
        self, relevance: Numbers, similarity: Numbers, diversity: float
    ) -> None:
        super().__init__(relevance, similarity, diversity)
        self._nearest: Numbers | None = None

    def gains(self) -> Numbers:
        relevant = (1 - self._diversity) * self._relevance
        if self._nearest is None:
            return relevant
        return relevant - self._diversity * self._nearest

    def choose(self, place: int) -> None:
        similar = self._similarity[place]
        before = similar if self._nearest is None else self._nearest
        self._nearest = np.maximum(before, similar)
