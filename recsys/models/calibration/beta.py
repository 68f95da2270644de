import numpy as np

from keras_moe.types import Tensor
from recsys.models.calibration.calibrator import Calibrator
from recsys.models.calibration.calibrator import Numbers
from recsys.models.calibration.calibrator import inside
from recsys.models.calibration.calibrator import log_odds
from recsys.models.calibration.logistic import fit_logistic


class Beta(Calibrator):
    """Beta calibration: σ(a log p - b log(1 - p) + c), a and b at least 0.

    Three parameters: unlike Platt's two, it corrects small and large
    probabilities by different amounts, and can leave them as they are.

    References:
        Kull, Silva Filho, Flach. Beta Calibration: a Well-Founded and Easily
        Implemented Improvement on Logistic Calibration for Binary Classifiers.
        AISTATS 2017, section 3.2. The targets are smoothed as Platt's.
    """

    type = "beta"

    @staticmethod
    def is_size(count: int) -> bool:
        return count == 3

    @staticmethod
    def fit(
        labels: Numbers, probabilities: Numbers, weights: Numbers
    ) -> Numbers:
        columns = np.stack(log_odds(probabilities), axis=1)
        slopes, intercept = fit_logistic(columns, labels, weights)
        return np.array([*slopes, intercept])

    @staticmethod
    def apply(probabilities: Tensor, parameters: Tensor) -> Tensor:
        from keras import ops

        p = inside(probabilities)
        a, b, c = (parameters[:, i : i + 1] for i in range(3))  # (B, 1)
        return ops.sigmoid(a * ops.log(p) - b * ops.log1p(-p) + c)
