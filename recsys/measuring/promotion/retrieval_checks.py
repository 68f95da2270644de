"""The retrieval of two models, compared query by query."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.measuring.clusters import clusters_of
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.retrieval_metrics import RetrievalMetrics
from recsys.metrics.paired_difference import Estimate
from recsys.metrics.paired_difference import Floats
from recsys.metrics.paired_difference import mean_estimate

if TYPE_CHECKING:
    from recsys.measuring.measure_retrieval import RetrievalMeasure


@dataclass(frozen=True, eq=False)
class QueryMetrics:
    """The metrics of a retrieval for each query by itself.

    Attributes:
        rows: By metric, such as `"recall@10"`, that of each row that counts,
            `(R,)`.
        weights: How much each row counts, `(R,)`.
        clusters: The user of each row, int64 `(R,)`; `None` where the data
            name none.
        users: By metric, such as `"user_recall@10"`, that of each user,
            `(U,)`.
    """

    rows: dict[str, Floats]
    weights: Floats
    clusters: npt.NDArray[np.int64] | None
    users: dict[str, Floats]


def measure_queries(measure: "RetrievalMeasure") -> QueryMetrics:
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


def retrieval_checks(
    old: QueryMetrics, new: QueryMetrics, rules: PromotionRules
) -> Iterator[Check]:
    """Checks that no metric of the retrieval falls.

    No correction for their number is needed: a model passes only if all do.

    Args:
        old: What the old model retrieves for each query.
        new: The same of the new model, for the same queries.
        rules: What is allowed.

    Yields:
        A check of each metric that both have, by row and by user; of none
        where no row counts.
    """
    for name in (name for name in old.rows if name in new.rows):
        if old.weights.sum() > 0:
            before = mean_estimate(old.rows[name], old.weights)
            after = mean_estimate(new.rows[name], new.weights)
            yield _check(name, before, after, old.clusters, rules)
    for name in (name for name in old.users if name in new.users):
        alone = np.ones(len(old.users[name]))
        if len(alone):
            before = mean_estimate(old.users[name], alone)
            after = mean_estimate(new.users[name], alone)
            yield _check(name, before, after, None, rules)


def _check(
    name: str,
    old: Estimate,
    new: Estimate,
    clusters: np.ndarray | None,
    rules: PromotionRules,
) -> Check:
    change, most = new.change_from(old), rules.most_retrieval_drop
    ends = change.interval(rules.confidence, clusters)
    details = {"old": old.value, "new": new.value, "rows": len(old.influences)}
    return Check(
        "retrieval", name, ends[0] >= -most, change.value, most, ends, details
    )
