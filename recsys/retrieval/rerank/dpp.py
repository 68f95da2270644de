import numpy as np

from recsys.retrieval.rerank.reranker import Numbers
from recsys.retrieval.rerank.reranker import Reranker

LEAST_VOLUME = 1e-10  # Squared, below which rounding decides.
# Gain of an item without volume, to which its relevance is added: below that
# of any other.
NO_VOLUME = -1e6


class DPP(Reranker):
    """Determinantal point process, the greedy search for its mode.

    Of the kernel

        L_ij = q_i S_ij q_j,  q = exp(α r),  S = (1 + cosine) / 2,
        α = (1 - d) / (2 d)

    it chooses one item after the other that makes the determinant of the
    chosen items' part of L the largest, by a Cholesky factor that grows by a
    row for each: O(top² C). This maximizes (1 - d) Σ r + d log det S. Once no
    item adds volume, the most relevant ones follow.

    References:
        Chen, Zhang, Zhou. Fast Greedy MAP Inference for Determinantal Point
        Process to Improve Recommendation Diversity. NeurIPS 2018, algorithm 1
        and equations 8 and 13.
    """

    def __init__(
        self, relevance: Numbers, similarity: Numbers, diversity: float
    ) -> None:
        super().__init__(relevance, similarity, diversity)
        self._kernel = (1 + similarity) / 2
        self._volumes = np.diag(self._kernel).copy()
        self._factors: list[Numbers] = []  # Rows (C,) of the Cholesky factor.

    def gains(self) -> Numbers:
        """Returns log q² of each item and the log of the volume it adds."""
        if self._diversity == 0:
            return self._relevance
        has_volume = self._volumes > LEAST_VOLUME
        # Beside the volume of S, not of L: q may overflow.
        weights = (1 - self._diversity) / self._diversity * self._relevance
        gains = weights + np.log(np.where(has_volume, self._volumes, 1.0))
        return np.where(has_volume, gains, NO_VOLUME + self._relevance)

    def choose(self, place: int) -> None:
        volume = self._volumes[place]
        if volume <= LEAST_VOLUME:
            return  # It is between the chosen ones: no volume changes.
        row = self._kernel[place].copy()
        for factor in self._factors:
            row -= factor[place] * factor
        row /= np.sqrt(volume)
        self._factors.append(row)
        self._volumes = self._volumes - row**2
