import numpy as np

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.metrics.confidence_interval import median_interval


def latency_check(
    seconds: np.ndarray, rows: int, rules: PromotionRules
) -> Check:
    """Checks the median of new by old latencies.

    Args:
        seconds: Array `(repeats, 2)`, of the old and of the new model in turn.
        rows: How many rows they took.
        rules: What is allowed.

    Returns:
        The check, which passes unless the interval lies above the limit; with
        the median milliseconds of both models.
    """
    ratios = seconds[:, 1] / seconds[:, 0]
    ratio, most = float(np.median(ratios)), rules.most_latency_ratio
    ends = median_interval(ratios, rules.confidence)
    old, new = (1000 * np.median(seconds, 0)).tolist()
    name = f"milliseconds for {rows} rows"
    details = {"old": old, "new": new}
    return Check("cost", name, ends[0] <= most, ratio, most, ends, details)
