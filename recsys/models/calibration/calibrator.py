from abc import ABC
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from keras_moe.types import Tensor

Numbers = npt.NDArray[np.float64]

_LEAST = 1e-7  # From 0 and 1, in float32.


class Calibrator(ABC):
    """A method that maps probabilities to calibrated ones, without a state.

    The map is a formula of a few parameters. It never decreases, so that a
    ranking by one task keeps its order.

    Attributes:
        type: Name of the method on the command line.
    """

    type: ClassVar[str]

    @staticmethod
    @abstractmethod
    def is_size(count: int) -> bool:
        """Returns whether a map can have so many parameters."""

    @staticmethod
    @abstractmethod
    def fit(
        labels: Numbers, probabilities: Numbers, weights: Numbers
    ) -> Numbers:
        """Fits the parameters to rows with both labels.

        Args:
            labels: Array `(N,)` of 0 and 1.
            probabilities: What the model predicts, `(N,)`.
            weights: What the rows count, `(N,)`, above 0.

        Returns:
            The parameters `(P,)`.
        """

    @staticmethod
    def stack(several: list[Numbers]) -> Numbers:
        """Returns parameters of several fits as one array `(G, P)`."""
        return np.stack(several)

    @staticmethod
    @abstractmethod
    def apply(probabilities: Tensor, parameters: Tensor) -> Tensor:
        """Maps probabilities.

        Args:
            probabilities: Float32 `(B, 1)`.
            parameters: Float32 `(B, P)`, or `(1, P)` for all rows.

        Returns:
            Float32 `(B, 1)`.
        """


def inside(probabilities: Tensor) -> Tensor:
    """Keeps probabilities away from 0 and 1, whose logits are infinite."""
    from keras import ops

    return ops.clip(probabilities, _LEAST, 1 - _LEAST)


def log_odds(probabilities: Numbers) -> tuple[Numbers, Numbers]:
    """Returns log p and -log(1 - p) of probabilities kept from 0 and 1."""
    kept = np.clip(probabilities, _LEAST, 1 - _LEAST)
    return np.log(kept), -np.log1p(-kept)
