import numpy as np
import pandas as pd

from recsys.measuring.clusters import clusters_of
from recsys.measuring.measure_retrieval import RetrievalMeasure
from recsys.measuring.query_metrics import QueryMetrics
from recsys.measuring.retrieval_metrics import RetrievalMetrics


def measure_queries(measure: RetrievalMeasure) -> QueryMetrics:
    """Measures a retrieval as `measure()` would, and keeps all queries.

    Args:
        measure: Of a model on a split, without `popular`.
    """
    metrics = RetrievalMetrics(measure.k, measure.targets, measure.keep_targets)
    parts = [np.zeros((len(metrics.names), 0))]
    weights = [np.zeros(0)]
    for rows, scores in measure.blocks():
        parts.append(metrics.add(rows, scores[""]))
        weights.append(np.asarray(rows.weights, np.float64))
    clusters = None
    if measure.user is not None:
        users = [frame[measure.user] for frame, _ in measure.counting()]
        clusters = clusters_of(pd.concat(users, ignore_index=True))
    by_row = np.concatenate(parts, 1)
    return QueryMetrics(
        dict(zip(metrics.names, by_row, strict=True)),
        np.concatenate(weights),
        clusters,
        metrics.of_users(),
    )
