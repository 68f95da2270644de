from collections.abc import Iterator

import numpy as np

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.query_metrics import QueryMetrics
from recsys.metrics.paired_difference import Estimate
from recsys.metrics.paired_difference import mean_estimate


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
