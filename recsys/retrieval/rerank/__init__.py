"""Rerankers, which trade relevance for diversity: one file, one line each."""

from recsys.errors.choices import check_choice
from recsys.retrieval.rerank.dpp import DPP
from recsys.retrieval.rerank.mmr import MMR
from recsys.retrieval.rerank.reranker import Reranker
from recsys.retrieval.rerank.reranker import (
    cosine_similarity as cosine_similarity,
)
from recsys.retrieval.rerank.reranker import relevance as relevance
from recsys.retrieval.rerank.reranker import reranked as reranked
from recsys.retrieval.rerank.reranker import shortfall as shortfall

RERANKERS: dict[str, type[Reranker]] = {"mmr": MMR, "dpp": DPP}
DIVERSITY = 0.3  # Unless another one is given.


def check_rerank(rerank: str | None, diversity: float) -> None:
    """Checks what a list is made diverse by.

    Args:
        rerank: A name among `RERANKERS`, or `None`.
        diversity: How much diversity counts.

    Raises:
        ValueError: There is no such reranker, or the diversity is not between
            0 and 1.
    """
    if rerank is not None:
        check_choice("rerank", rerank, RERANKERS)
    if not 0 <= diversity <= 1:
        raise ValueError(
            f"`diversity` must be from 0 to 1. Received: diversity={diversity}"
        )
