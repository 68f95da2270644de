import numpy as np

from recsys.retrieval.rerank.reranker import Numbers

_LEAST = 1e-10  # Of a squared volume, below which rounding decides.


def dpp(
    relevance: Numbers, similarity: Numbers, top: int, diversity: float
) -> list[int]:
    """Determinantal point process, the greedy search for its mode.

    Of the kernel

        L_ij = q_i S_ij q_j,  q = exp(α r),  S = (1 + cosine) / 2,
        α = (1 - d) / (2 d)

    it chooses one item after the other that makes the determinant of the
    chosen items' part of L the largest, by a Cholesky factor that grows by a
    row for each: O(top² C). This maximizes (1 - d) Σ r + d log det S. Once no
    item adds volume, the most relevant ones follow.

    Args:
        relevance: r, array `(C,)` from 0 to 1.
        similarity: Array `(C, C)` of cosines.
        top: How many items to choose.
        diversity: d, from 0 (by relevance alone) to 1.

    Returns:
        Places of the items, in the order in which they are chosen. Of equal
        items, the first.

    References:
        Chen, Zhang, Zhou. Fast Greedy MAP Inference for Determinantal Point
        Process to Improve Recommendation Diversity. NeurIPS 2018, algorithm 1
        and equations 8 and 13.
    """
    by_relevance = np.argsort(-relevance, kind="stable").tolist()
    count = min(top, len(relevance))
    if diversity == 0:
        return list(by_relevance[:count])
    # log q² of each item, beside the volume of S: q may overflow.
    weights = (1 - diversity) / diversity * relevance
    kernel = (1 + similarity) / 2
    volumes = np.diag(kernel).copy()
    factors = np.zeros((count, len(relevance)))
    chosen: list[int] = []
    open_places = np.ones(len(relevance), bool)
    for step in range(count):
        usable = open_places & (volumes > _LEAST)
        if not usable.any():
            break
        logs = np.log(np.where(usable, volumes, 1.0))
        best = int(np.where(usable, weights + logs, -np.inf).argmax())
        rest = kernel[best] - factors[:step, best] @ factors[:step]
        factors[step] = rest / np.sqrt(volumes[best])
        volumes = volumes - factors[step] ** 2
        chosen.append(best)
        open_places[best] = False
    rest_places = [place for place in by_relevance if open_places[place]]
    return [*chosen, *rest_places][:count]
