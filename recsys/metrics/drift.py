"""Differences between the distributions of two samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

_BINS = 10
# Categories that are told apart; all others are one.
_MOST_CATEGORIES = 50
# Expected count of a category from which on the test of counts holds.
_LEAST_EXPECTED = 5


@dataclass(frozen=True)
class Drift:
    """Difference between two samples of a column.

    Attributes:
        psi: The population stability index, `Σ (q - p) log(q / p)` over bins;
            as a rule of thumb below 0.1 none, above 0.25 much.
        p_value: Probability of a difference as large between samples of one
            distribution, of independent rows.
    """

    psi: float
    p_value: float


def psi(
    before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]
) -> float:
    """Returns the population stability index of counts.

    Args:
        before: Counts `(bins,)`.
        after: Counts `(bins,)`. A half is added to all counts: an empty bin
            would be infinitely far away.

    Example:
    >>> round(psi(np.array([50.0, 50.0]), np.array([50.0, 50.0])), 3)
    0.0
    >>> round(psi(np.array([80.0, 20.0]), np.array([20.0, 80.0])), 2)
    1.63
    """
    p = (before + 0.5) / (before + 0.5).sum()
    q = (after + 0.5) / (after + 0.5).sum()
    return float(((q - p) * np.log(q / p)).sum())


def number_drift(before: npt.ArrayLike, after: npt.ArrayLike) -> Drift:
    """Compares numbers: in deciles of the first sample, and by its ends.

    Missing ones are a bin of their own. The test is that of Kolmogorov and
    Smirnov; where more or fewer are missing, a test of counts as well, and the
    smaller of both p-values doubled.

    Args:
        before: Numbers `(N,)`, NaN where missing.
        after: Numbers `(M,)`, the same.
    """
    from scipy.stats import ks_2samp

    first = np.asarray(before, np.float64)
    second = np.asarray(after, np.float64)
    known = [sample[~np.isnan(sample)] for sample in (first, second)]
    missing = [np.isnan(sample).sum() for sample in (first, second)]
    counts = np.array([[len(sample)] for sample in known], np.float64)
    if len(known[0]):
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        edges = np.unique(np.quantile(known[0], inner))
        counts = np.stack(
            [
                np.bincount(
                    np.searchsorted(edges, sample), minlength=len(edges) + 1
                )
                for sample in known
            ]
        ).astype(np.float64)  # (2, bins)
    counts = np.column_stack([counts, missing])
    present = [len(sample) for sample in known]
    p_values = [_count_test(np.array([present, missing]).T)]
    if all(map(len, known)):
        p_values.append(float(ks_2samp(*known, method="asymp").pvalue))
    return Drift(psi(*counts), min(1.0, len(p_values) * min(p_values)))


def category_drift(before: pd.Series, after: pd.Series) -> Drift:
    """Compares categories, such as ids: the 50 most frequent ones of both.

    All others are one category, as are all that are expected less than five
    times in a sample, and missing ones. The test is Pearson's χ² of counts.

    Args:
        before: Values `(N,)`.
        after: Values `(M,)`.
    """
    both = pd.concat([before, after], ignore_index=True)
    codes, values = pd.factorize(both)
    codes = codes + 1  # 0 for missing ones.
    counts = np.stack(
        [
            np.bincount(part, minlength=len(values) + 1)
            for part in (codes[: len(before)], codes[len(before) :])
        ]
    ).astype(np.float64)  # (2, categories)
    missing, counts = counts[:, :1], counts[:, 1:]
    # Which of the rare ones come first must not depend on the samples.
    is_rare = _are_rare(np.concatenate([missing, counts], 1))[1:]
    order = np.argsort(-counts.sum(0) + is_rare * len(both), kind="stable")
    num_kept = min(_MOST_CATEGORIES, int((~is_rare).sum()))
    kept = counts[:, order[:num_kept]]
    rest = counts[:, order[num_kept:]].sum(1, keepdims=True)
    counts = np.concatenate([missing, kept, rest], 1)
    return Drift(psi(*counts), _count_test(counts))


def _count_test(counts: npt.ArrayLike) -> float:
    """The p-value of counts `(2, categories)` by the χ² test.

    Rare categories are added up: the test holds for expected counts from 5 on.
    """
    from scipy.stats import chi2_contingency

    table = np.asarray(counts, np.float64)
    if not table.sum(1).all():
        return 1.0
    rare = _are_rare(table)
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(1)])
    table = table[:, table.sum(0) > 0]
    if table.shape[1] < 2:
        return 1.0
    return float(chi2_contingency(table, correction=False).pvalue)


def _are_rare(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Categories that the smaller sample is expected to have less than 5 of."""
    rows = counts.sum(1)
    share = rows.min() / max(1.0, rows.sum())
    rare: npt.NDArray[np.bool_] = counts.sum(0) * share < _LEAST_EXPECTED
    return rare


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values corrected for their number, by Holm's method.

    The probability that any of them is below a limit although its hypothesis
    is true, is at most the limit, however they depend on each other.

    Args:
        p_values: The p-values.

    Example:
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]

    References:
        Holm, A Simple Sequentially Rejective Multiple Test Procedure,
        Scandinavian Journal of Statistics 1979.
    """
    corrected = np.empty(len(p_values))
    largest = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        product = (len(p_values) - rank) * p_values[index]
        largest = max(largest, min(1.0, product))
        corrected[index] = largest
    return corrected.tolist()
