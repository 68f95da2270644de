import numpy as np
import pandas as pd

from recsys.retrieval.rerank import RERANKERS
from recsys.retrieval.rerank import cosine_similarity
from recsys.retrieval.rerank import relevance


def diverse_rows(
    table: pd.DataFrame,
    vectors: np.ndarray,
    rerank: str,
    diversity: float,
    top: int,
) -> pd.DataFrame:
    """Chooses items that are relevant, and different from each other.

    Args:
        table: A row for each of C candidates, with its "score", the best
            first. Rows without a score follow those with one.
        vectors: Vectors of the items, `(C, D)`, whose cosines say how similar
            they are.
        rerank: A name among `RERANKERS`.
        diversity: How much diversity counts, from 0 to 1.
        top: How many items to choose.

    Returns:
        The chosen rows, in the order in which they are chosen.
    """
    scored = np.flatnonzero(table["score"].notna())
    chosen: list[int] = []
    if len(scored):
        places = RERANKERS[rerank](
            relevance(table["score"].iloc[scored]),
            cosine_similarity(vectors[scored]),
            top,
            diversity,
        )
        chosen = scored[places].tolist()
    unscored = np.flatnonzero(table["score"].isna()).tolist()
    rows = [*chosen, *unscored][:top]
    return table.iloc[rows].reset_index(drop=True)
