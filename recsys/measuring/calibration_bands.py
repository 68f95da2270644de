from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from recsys.files.json_files import JsonObject
from recsys.measuring.scored_sample import ScoredSample
from recsys.models.multi_task_model import MultiTaskModel
from recsys.tasks.chains import labels_of

# Kinds of tasks that predict one number, the mean of a label.
KINDS = ("binary", "regression")
_BINS = 10


class Bin(NamedTuple):
    """Rows with about the same prediction.

    Attributes:
        rows: How many.
        predicted: Mean of their predictions.
        observed: Mean of their labels.
        low: Lower end of the 95 % interval of `observed`.
        high: Its upper end.
        least: Least of their predictions.
        most: Largest of their predictions.
    """

    rows: int
    predicted: float
    observed: float
    low: float
    high: float
    least: float
    most: float


def binned(
    labels: np.ndarray, predicted: np.ndarray, binary: bool
) -> list[Bin]:
    """Returns rows in groups of about equal size by their prediction.

    Rows with the same prediction are in one group, however many they are.

    Args:
        labels: Float array `(rows,)`, none missing.
        predicted: Float array `(rows,)`.
        binary: Whether the labels are 0 and 1. Intervals of their rates are
            those of Clopper and Pearson, those of other means 1.96 standard
            errors to both sides.

    Example:
    >>> found = binned(np.array([0.0, 1.0]), np.array([0.2, 0.7]), True)
    >>> [(b.rows, b.observed, round(b.high, 3)) for b in found]
    [(1, 0.0, 0.975), (1, 1.0, 1.0)]
    """
    order = np.argsort(predicted, kind="stable")
    ordered = predicted[order]
    # Where groups of equal size would start, or the first of its equals.
    count = min(_BINS, len(order))
    starts = ordered[np.arange(count) * len(order) // count]
    borders = np.unique(np.searchsorted(ordered, starts))[1:]
    groups = np.split(order, borders)
    return [_bin(labels[rows], predicted[rows], binary) for rows in groups]


def calibration_bands(
    model: MultiTaskModel, sample: ScoredSample
) -> JsonObject:
    """Measures where the labels are of rows with about the same prediction.

    Args:
        model: A model.
        sample: Rows that it has scored.

    Returns:
        By task that predicts one number and has labels, `"rows"` with a label,
        `"method"` of its calibration, `None` without one, and `"bins"`, the
        fields of `Bin` by name, predictions ascending. Nothing of a model
        whose tasks were not trained.
    """
    if not model.has_trained_tasks:
        return {}
    predictions = sample.scores.predictions
    bands: JsonObject = {}
    for task, labels in labels_of(sample.rows, model.tasks).items():
        kind = model.tasks[task].type
        known = ~np.isnan(labels)
        if kind not in KINDS or not known.any():
            continue
        predicted = predictions[task][known]
        if not np.isfinite(predicted).all():
            continue
        bins = binned(labels[known], predicted, kind == "binary")
        calibration = model.calibrations.get(task)
        bands[task] = {
            "rows": int(known.sum()),
            "method": None if calibration is None else calibration.method,
            "bins": [interval._asdict() for interval in bins],
        }
    return bands


def _bin(labels: np.ndarray, predicted: np.ndarray, binary: bool) -> Bin:
    count, mean = len(labels), float(labels.mean())
    if binary:
        ones = int(labels.sum())
        zeros = count - ones
        low = beta.ppf(0.025, ones, zeros + 1) if ones else 0.0
        high = beta.ppf(0.975, ones + 1, zeros) if zeros else 1.0
    else:
        error = labels.std(ddof=1) / count**0.5 if count > 1 else 0.0
        low, high = mean - 1.96 * error, mean + 1.96 * error
    return Bin(
        count,
        float(predicted.mean()),
        mean,
        float(low),
        float(high),
        float(predicted.min()),
        float(predicted.max()),
    )
