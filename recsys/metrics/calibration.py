from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_positive
from recsys.metrics.scored_rows import check_probabilities

DEFAULT_BINS = 15


@dataclass(frozen=True, eq=False)
class CalibrationBins:
    """Rows in bins of their probability, all of the same width.

    Of M bins, bin m holds `(m / M, (m + 1) / M]`; 0 is in the first.

    Attributes:
        weights: Weight of the rows in each bin, float64 `(M,)`.
        predicted: Mean probability in each bin, NaN where it is empty.
        observed: Share of positive rows in each bin, NaN where it is empty.
    """

    weights: npt.NDArray[np.float64]
    predicted: npt.NDArray[np.float64]
    observed: npt.NDArray[np.float64]


def calibration_bins(
    rows: ScoredRows, bins: int = DEFAULT_BINS
) -> CalibrationBins:
    """Returns how often labels are 1, bin by bin of their probability.

    Args:
        rows: The rows, with probabilities for scores.
        bins: Number of bins.

    Raises:
        ValueError: A score is no probability, or `bins` is less than 1.
    """
    check_positive("bins", bins)
    check_probabilities(rows)
    probabilities = rows.scores.astype(np.float64)
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    where = np.searchsorted(edges, probabilities)
    weights = np.bincount(where, rows.weights, bins).astype(np.float64)
    sums = np.stack(
        [
            np.bincount(where, rows.weighted(values), bins)
            for values in (probabilities, rows.labels)
        ]
    )
    empty = np.full(sums.shape, np.nan)
    return CalibrationBins(
        weights, *np.divide(sums, weights, empty, where=weights > 0)
    )


def ece(rows: ScoredRows, bins: int = DEFAULT_BINS) -> float | None:
    """Returns the expected calibration error.

        Σ_m (n_m / n) |observed_m - predicted_m|

    over the bins m of `calibration_bins`, with `n_m` the rows in a bin, or
    their weight. It depends on the number of bins, and a constant that is
    right on average has 0: look at it beside a metric of the ranking.

    Args:
        rows: The rows, with probabilities for scores.
        bins: Number of bins; 15 as in Guo et al. unless given.

    Returns:
        The error, `None` where there is no row.

    Raises:
        ValueError: A score is no probability, or `bins` is less than 1.

    Example:
    >>> from recsys.metrics import ScoredRows, ece
    >>> ece(ScoredRows.of([1, 0, 0, 0], [0.75, 0.75, 0.25, 0.25]), bins=2)
    0.25

    References:
        Naeini et al., Obtaining Well Calibrated Probabilities Using Bayesian
        Binning, 2015, for the binary form; Guo et al., On Calibration of
        Modern Neural Networks, 2017, equation 3, for the borders of the bins.
    """
    bins_of_rows = calibration_bins(rows, bins)
    total = bins_of_rows.weights.sum()
    if not total:
        return None
    gaps = np.abs(bins_of_rows.observed - bins_of_rows.predicted)
    return float(np.nansum(bins_of_rows.weights * gaps) / total)
