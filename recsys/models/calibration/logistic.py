import numpy as np

from recsys.models.calibration.calibrator import Numbers

_CONSTANT = 1e-9  # Standard deviation of a column that says nothing.
# Inverse strength of the penalty, per row: enough for columns of which one
# follows from the others, and too weak to be seen in the slopes.
_WEAKEST = 1e7


def fit_logistic(
    columns: Numbers, labels: Numbers, weights: Numbers
) -> tuple[Numbers, float]:
    """Fits a logistic regression whose slopes are not negative.

    Its targets are Platt's: of n₊ positive and n₋ negative rows, positive ones
    count as (n₊ + 1) / (n₊ + 2) and negative ones as 1 / (n₋ + 2), which keeps
    slopes finite where the labels are separable. A column with a negative
    slope is left out.

    Args:
        columns: Array `(N, C)`.
        labels: Array `(N,)` of 0 and 1.
        weights: Array `(N,)`.

    Returns:
        The slopes `(C,)` and the intercept.

    References:
        Platt. Probabilistic Outputs for Support Vector Machines and
        Comparisons to Regularized Likelihood Methods. 1999, section 2.2.
    """
    positive = float(weights[labels == 1].sum())
    negative = float(weights[labels == 0].sum())
    targets = np.where(
        labels == 1, (positive + 1) / (positive + 2), 1 / (negative + 2)
    )
    slopes = np.zeros(columns.shape[1])
    means = np.average(columns, axis=0, weights=weights)
    deviations = np.sqrt(
        np.average((columns - means) ** 2, axis=0, weights=weights)
    )
    used = np.flatnonzero(deviations > _CONSTANT)
    while len(used):
        scaled = (columns[:, used] - means[used]) / deviations[used]
        fitted, intercept = _regression(scaled, targets, weights)
        if (fitted >= 0).all():
            slopes[used] = fitted / deviations[used]
            return slopes, intercept - float(slopes @ means)
        used = np.delete(used, fitted.argmin())
    mean = float(np.average(targets, weights=weights))
    return slopes, float(np.log(mean / (1 - mean)))


def _regression(
    columns: Numbers, targets: Numbers, weights: Numbers
) -> tuple[Numbers, float]:
    from sklearn.linear_model import LogisticRegression

    # A target between 0 and 1 is a row of each label.
    rows = len(targets)
    model = LogisticRegression(
        C=_WEAKEST / weights.sum(), solver="newton-cholesky", tol=1e-8
    )
    model.fit(
        np.concatenate([columns, columns]),
        np.repeat([1, 0], rows),
        np.concatenate([weights * targets, weights * (1 - targets)]),
    )
    return model.coef_[0], float(model.intercept_[0])
