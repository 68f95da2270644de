from collections.abc import Sequence

import numpy as np
import pandas as pd

from recsys.retrieval.rerank import RERANKERS
from recsys.retrieval.rerank import cosine_similarity
from recsys.retrieval.rerank import relevance
from recsys.retrieval.rerank import reranked
from recsys.retrieval.rerank import shortfall

_SLACK = 1e-5  # Of a score of float32, relative to 1 and the value.


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
        places = reranked(
            RERANKERS[rerank],
            relevance(table["score"].iloc[scored]),
            cosine_similarity(vectors[scored]),
            top,
            diversity,
        )
        chosen = scored[places].tolist()
    unscored = np.flatnonzero(table["score"].isna()).tolist()
    rows = [*chosen, *unscored][:top]
    return table.iloc[rows].reset_index(drop=True)


def is_diverse(
    table: pd.DataFrame,
    vectors: np.ndarray,
    places: Sequence[int | None],
    rerank: str,
    diversity: float,
    top: int,
) -> bool:
    """Returns whether items are those of `diverse_rows`, or about as good.

    Scores of float32 leave open which of nearly equal items is better.

    Args:
        table: As in `diverse_rows`.
        vectors: The same.
        places: Rows of the items in the table, `None` for one that is not
            there.
        rerank: As in `diverse_rows`.
        diversity: The same.
        top: The same.
    """
    scores = table["score"]
    scored = scores[scores.notna()].to_numpy()
    count = len(scored)
    if len(places) != min(top, len(table)) or None in places:
        return False
    chosen = [place for place in places if place is not None]
    # Rows without a score follow those with one.
    if sorted(place >= count for place in chosen) != [
        place >= count for place in chosen
    ]:
        return False
    if not count:
        return True
    span = np.ptp(scored) or 1.0
    return (
        shortfall(
            RERANKERS[rerank],
            relevance(scored),
            cosine_similarity(vectors[:count]),
            [place for place in chosen if place < count],
            diversity,
            _SLACK * max(1.0, np.abs(scored).max()) / span,
        )
        <= _SLACK
    )
