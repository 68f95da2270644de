"""Statistics of repeated runs, and their comparison."""

import warnings
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind

# One number of each of several runs.
Values: TypeAlias = Sequence[float] | np.ndarray | pd.Series


def mean_and_error(values: Values, digits: int) -> str:
    """Returns the mean of the values and its standard error as a text.

    Example:
    >>> mean_and_error([41.0, 43.0], 2), mean_and_error([41.0], 1)
    ('42.00 ± 1.00', '41.0')
    """
    if not len(values):
        return ""
    text = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        error = np.std(values, ddof=1) / len(values) ** 0.5
        text += f" ± {error:.{digits}f}"
    return text


def p_value(losses: Values, rival: Values) -> float | None:
    """Returns that of Welch's one-sided t-test of the losses being lower.

    `None` where there are fewer than two of either, or all are alike.

    Example:
    >>> round(p_value([1.0, 1.1, 0.9], [2.0, 2.2, 1.9]), 4)
    0.0006
    >>> p_value([1.0, 1.0], [1.0, 1.0])
    """
    if len(losses) < 2 or len(rival) < 2:
        return None
    with warnings.catch_warnings():
        # Of values that are all alike; there is nothing to be done about it.
        warnings.simplefilter("ignore", RuntimeWarning)
        test = ttest_ind(losses, rival, equal_var=False, alternative="less")
    return float(test.pvalue) if np.isfinite(test.pvalue) else None


def paired_differences(runs: pd.DataFrame, rival: pd.DataFrame) -> pd.Series:
    """Returns the losses minus a rival's, seed by seed.

    Args:
        runs: The columns "seed" and "loss".
        rival: The same columns; seeds that only one of them has, or with no
            loss, do not count.

    Example:
    >>> runs = pd.DataFrame({"seed": [0, 1, 2], "loss": [4.0, 6.0, 5.0]})
    >>> rival = pd.DataFrame({"seed": [1, 0], "loss": [7.0, 4.5]})
    >>> paired_differences(runs, rival).tolist()
    [-0.5, -1.0]
    """
    both = runs.merge(rival, on="seed", suffixes=("", "_of_rival"))
    return (both["loss"] - both["loss_of_rival"]).dropna()
