"""Differences between two models on the same rows, with intervals.

A metric M of N rows is compared by its influences: what each row adds to the
deviation of the estimate, with a sum of 0. The rows of a group, such as a user,
depend on each other, so the influences are added up within groups first:

    Var(M_new - M_old) ≈ G / (G - 1) Σ_g (Σ_{i in g} (u_i^new - u_i^old))²

The two models share rows and groups, so what is hard for both cancels out.

References:
    Obuchowski, Nonparametric Analysis of Clustered ROC Curve Data, Biometrics
    1997, for the AUC; Liang and Zeger, Longitudinal Data Analysis Using
    Generalized Linear Models, Biometrika 1986, for sums within groups.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A metric of a sample.

    Attributes:
        value: The metric.
        influences: Array `(N,)`, the influence of each row.
    """

    value: float
    influences: Floats

    def relative_to(self, other: "Estimate") -> "Estimate":
        """Returns the relative difference `self / other - 1`."""
        ratio = self.value / other.value
        influences = self.influences - ratio * other.influences
        return Estimate(ratio - 1, influences / other.value)

    def minus(self, other: "Estimate") -> "Estimate":
        """Returns the difference `self - other`."""
        influences = self.influences - other.influences
        return Estimate(self.value - other.value, influences)

    def change_from(self, other: "Estimate") -> "Estimate":
        """Returns the relative difference, or `minus` where it has none."""
        if other.value > 0:
            return self.relative_to(other)
        return self.minus(other)

    def interval(
        self, confidence: float, groups: npt.NDArray[np.integer] | None = None
    ) -> tuple[float, float]:
        """Returns a two-sided interval by the t distribution.

        Args:
            confidence: Probability to cover the true value, such as 0.95.
            groups: Array `(N,)` of 0, 1, ..., the group of each row; each row
                is one by itself unless given.

        Returns:
            The ends; infinite where there are fewer than two groups.
        """
        from scipy.stats import t

        sums: np.ndarray = self.influences
        if groups is not None:
            sums = np.bincount(groups, sums)[np.bincount(groups) > 0]
        if len(sums) < 2:
            return -np.inf, np.inf
        variance = len(sums) / (len(sums) - 1) * float(np.square(sums).sum())
        quantile = t.ppf((1 + confidence) / 2, len(sums) - 1)
        half = float(quantile * np.sqrt(variance))
        return self.value - half, self.value + half


def mean_estimate(values: Floats, weights: Floats) -> Estimate:
    """Returns the weighted mean of a value of each row.

    Args:
        values: Array `(N,)`.
        weights: Array `(N,)`, not negative, with a positive sum.

    Example:
    >>> mean_estimate(np.array([0.0, 1.0]), np.array([1.0, 3.0])).value
    0.75
    """
    total = weights.sum()
    mean = float(values @ weights / total)
    return Estimate(mean, weights * (values - mean) / total)


def auc_estimate(
    labels: npt.NDArray[np.bool_], scores: Floats, weights: Floats
) -> Estimate | None:
    """Returns the area under the ROC curve, pairs of equal scores count 1/2.

    Args:
        labels: Array `(N,)`.
        scores: Array `(N,)`.
        weights: Array `(N,)`, not negative.

    Returns:
        The AUC, `None` where one of the classes has no weight.

    Example:
    >>> labels = np.array([True, False, False])
    >>> auc_estimate(labels, np.array([0.5, 0.5, 0.1]), np.ones(3)).value
    0.75
    """
    positive = np.where(labels, weights, 0.0)
    negative = np.where(labels, 0.0, weights)
    num_positive, num_negative = positive.sum(), negative.sum()
    if not (num_positive and num_negative):
        return None
    values, places = np.unique(scores, return_inverse=True)  # (U,), (N,)

    def share_below(of_class: Floats, total: float) -> Floats:
        """The share of a class with lower scores than each row, (N,)."""
        here = np.bincount(places, of_class, len(values))
        below: Floats = ((np.cumsum(here) - here / 2) / total)[places]
        return below

    above = share_below(negative, num_negative)  # P(a negative is lower)
    below = 1 - share_below(positive, num_positive)  # P(a positive is higher)
    area = float(positive @ above / num_positive)
    influences = (
        positive * (above - area) / num_positive
        + negative * (below - area) / num_negative
    )
    return Estimate(area, influences)
