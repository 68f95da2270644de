import numpy as np

from keras_moe.types import Tensor
from recsys.models.calibration.calibrator import Calibrator
from recsys.models.calibration.calibrator import Numbers
from recsys.models.calibration.calibrator import inside
from recsys.models.calibration.calibrator import log_odds
from recsys.models.calibration.logistic import fit_logistic


class Platt(Calibrator):
    """Platt scaling of the logit: σ(a logit(p) + b), with a of at least 0.

    Two parameters, a and b: it corrects probabilities that are too certain,
    and a wrong base rate, as after negative sampling, from few rows.

    References:
        Platt. Probabilistic Outputs for Support Vector Machines and
        Comparisons to Regularized Likelihood Methods. 1999, section 2.1.
    """

    type = "platt"

    @staticmethod
    def is_size(count: int) -> bool:
        return count == 2

    @staticmethod
    def fit(
        labels: Numbers, probabilities: Numbers, weights: Numbers
    ) -> Numbers:
        log_p, log_q = log_odds(probabilities)
        logits = (log_p + log_q)[:, None]  # (N, 1)
        slopes, intercept = fit_logistic(logits, labels, weights)
        return np.array([*slopes, intercept])

    @staticmethod
    def apply(probabilities: Tensor, parameters: Tensor) -> Tensor:
        from keras import ops

        p = inside(probabilities)
        logits = ops.log(p) - ops.log1p(-p)  # (B, 1)
        return ops.sigmoid(parameters[:, 0:1] * logits + parameters[:, 1:2])
