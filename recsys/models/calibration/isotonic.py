import numpy as np

from keras_moe.types import Tensor
from recsys.models.calibration.calibrator import Calibrator
from recsys.models.calibration.calibrator import Numbers


class Isotonic(Calibrator):
    """Centered isotonic regression: linear between the blocks of a fit.

    Isotonic regression gives blocks of neighbouring rows one value. Here each
    block counts at the mean of its probabilities, and values between two
    blocks lie on a line: the map has no jumps, at which rounding would decide,
    and it hardly ever makes different probabilities equal. Of n rows, none
    gets less than 1 / (n + 2) nor more than (n + 1) / (n + 2).

    Parameters: the places of K blocks, then their values.

    References:
        Zadrozny, Elkan. Transforming Classifier Scores into Accurate
        Multiclass Probability Estimates. KDD 2002, section 3.2.
        Oron, Flournoy. Centered Isotonic Regression: Point and Interval
        Estimation for Dose-Response Studies. Statistics in Biopharmaceutical
        Research 9(3), 2017, section 2.2.
    """

    type = "isotonic"

    @staticmethod
    def is_size(count: int) -> bool:
        return count >= 4 and count % 2 == 0

    @staticmethod
    def fit(
        labels: Numbers, probabilities: Numbers, weights: Numbers
    ) -> Numbers:
        from sklearn.isotonic import IsotonicRegression

        least = 1 / (weights.sum() + 2)
        model = IsotonicRegression(y_min=least, y_max=1 - least)
        fitted = model.fit(probabilities, labels, weights).predict(
            probabilities
        )
        values, blocks = np.unique(fitted.round(12), return_inverse=True)
        sums = np.bincount(blocks, weights * probabilities)
        places = sums / np.bincount(blocks, weights)
        # In float32, in which they are looked up, some may be the same.
        places, first = np.unique(places.astype(np.float32), return_index=True)
        return np.concatenate([places, values[first]]).astype(np.float64)

    @staticmethod
    def stack(several: list[Numbers]) -> Numbers:
        """Returns tables of one length, at least 2: last blocks repeat."""
        length = max(2, *(len(numbers) // 2 for numbers in several))
        return np.stack(
            [
                np.pad(
                    numbers.reshape(2, -1),  # (2, K)
                    ((0, 0), (0, length - len(numbers) // 2)),
                    mode="edge",
                ).ravel()
                for numbers in several
            ]
        )

    @staticmethod
    def apply(probabilities: Tensor, parameters: Tensor) -> Tensor:
        from keras import ops

        places, values = ops.split(parameters, 2, axis=-1)  # (B, K) each
        starts, widths = places[:, :-1], places[:, 1:] - places[:, :-1]
        # A repeated block has no width, and nothing is added there.
        widths = ops.where(widths > 0, widths, 1.0)
        shares = ops.clip((probabilities - starts) / widths, 0.0, 1.0)
        rises = values[:, 1:] - values[:, :-1]
        added = ops.sum(shares * rises, axis=-1, keepdims=True)  # (B, 1)
        return values[:, :1] + added
