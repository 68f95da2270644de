import numpy as np
import numpy.typing as npt


def median_interval(
    values: npt.ArrayLike, confidence: float
) -> tuple[float, float]:
    """Returns an interval of the median, by the sign test.

    The number of values below the median is binomial with probability 1/2,
    whatever the distribution: two of the values in their order are the ends.

    Args:
        values: Numbers `(N,)`, at least one, independent of each other.
        confidence: Least probability to cover the true median, such as 0.95;
            with few values, the smallest and the largest have less.

    Example:
    >>> median_interval(np.arange(40.0), 0.95)
    (13.0, 26.0)
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(values, np.float64))
    outside = (1 - confidence) / 2
    below = max(0, int(binom.ppf(outside, len(ordered), 0.5)) - 1)
    return float(ordered[below]), float(ordered[-1 - below])
