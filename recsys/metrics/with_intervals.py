from collections.abc import Mapping

from recsys.metrics.confidence_interval import RowsMetric
from recsys.metrics.confidence_interval import confidence_intervals
from recsys.metrics.group_mean import GroupMean
from recsys.metrics.scored_rows import ScoredRows


def with_intervals(
    metrics: Mapping[str, RowsMetric], rows: ScoredRows, resamples: int
) -> dict[str, float | list[float] | None]:
    """Returns the values of metrics, and where they lie with 95 % confidence.

    Args:
        metrics: The metrics by name.
        rows: The rows.
        resamples: How often the rows, or their groups, are drawn anew; 0 for
            no intervals. The draws are always the same.

    Returns:
        By name, the value, `None` where there is none, and behind it as
        `<name>_interval` its `confidence_interval`, a list of two.

    Example:
    >>> from recsys.metrics import auc
    >>> rows = ScoredRows.of([1, 1, 0, 0], [0.9, 0.4, 0.5, 0.1])
    >>> with_intervals({"auc": auc}, rows, resamples=1000)
    {'auc': 0.75, 'auc_interval': [0.0, 1.0]}
    """
    wholes = {name: metric(rows) for name, metric in metrics.items()}
    values: dict[str, float | list[float] | None] = {
        name: whole.value if isinstance(whole, GroupMean) else whole
        for name, whole in wholes.items()
    }
    if not resamples:
        return values
    intervals = confidence_intervals(metrics, rows, resamples=resamples)
    named_values: dict[str, float | list[float] | None] = {}
    for name, value in values.items():
        interval = intervals[name]
        named_values[name] = value
        named_values[f"{name}_interval"] = (
            None if interval is None else [*interval]
        )
    return named_values
