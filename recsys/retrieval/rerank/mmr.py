import numpy as np

from recsys.retrieval.rerank.reranker import Numbers


def mmr(
    relevance: Numbers, similarity: Numbers, top: int, diversity: float
) -> list[int]:
    """Maximal marginal relevance, one item after the other.

    Next is the one with the largest

        (1 - d) relevance_i - d max_{j chosen} similarity_ij

    Args:
        relevance: Array `(C,)` from 0 to 1.
        similarity: Array `(C, C)` of cosines.
        top: How many items to choose.
        diversity: d, from 0 (by relevance alone) to 1.

    Returns:
        Places of the items, in the order in which they are chosen. Of equal
        items, the first.

    References:
        Carbonell, Goldstein. The Use of MMR, Diversity-Based Reranking for
        Reordering Documents and Producing Summaries. SIGIR 1998.
    """
    chosen: list[int] = []
    nearest = np.zeros(len(relevance))
    open_places = np.ones(len(relevance), bool)
    for _ in range(min(top, len(relevance))):
        gains = (1 - diversity) * relevance - diversity * nearest
        best = int(np.where(open_places, gains, -np.inf).argmax())
        similar = similarity[best]
        nearest = np.maximum(nearest, similar) if chosen else similar
        chosen.append(best)
        open_places[best] = False
    return chosen
