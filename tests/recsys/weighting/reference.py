"""Methods of weighing on NumPy, on gradients written out as vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np

RATE = 0.03
TASKS = ("click", "price")
Gradients = np.ndarray[Any, Any]


class Quadratics:
    """x @ kernel + bias of each task, with squared errors.

    All parameters are one vector: the kernel, then the biases.
    """

    def __init__(self, kernel: Any, biases: Any) -> None:
        self.parameters = np.concatenate([kernel, biases]).astype("float64")

    def losses(self, x: Any, y: Any) -> Any:
        return np.square(self._errors(x, y)).mean(axis=0)

    def gradients(self, x: Any, y: Any) -> Gradients:
        """A row for each task, by all parameters."""
        errors = self._errors(x, y)
        by_kernel = 2 * errors.T @ x / len(x)
        by_bias = np.diag(2 * errors.mean(axis=0))
        return np.concatenate([by_kernel, by_bias], axis=1)

    def _errors(self, x: Any, y: Any) -> Any:
        width = x.shape[1]
        predictions = x @ self.parameters[:width, None]
        return predictions + self.parameters[width:] - y


def pcgrad(order: Callable[[int], Any]) -> Callable[..., Any]:
    """Algorithm 1: returns the direction of a step."""

    def direction(losses: Any, gradients: Gradients, epoch: int) -> Any:
        projected = gradients.copy()
        for i in range(len(gradients)):
            for j in order(i):
                dot = projected[i] @ gradients[j]
                if j != i and dot < 0:
                    square = gradients[j] @ gradients[j]
                    projected[i] -= dot / square * gradients[j]
        return projected.sum(axis=0)

    return direction


class Uncertainty:
    def __init__(self, squared: Any) -> None:
        self.scales = np.where(squared, 0.5, 1.0)
        self.s = np.zeros(len(squared))

    def __call__(self, losses: Any, gradients: Gradients, epoch: int) -> Any:
        factors = self.scales * np.exp(-self.s)
        self.s = self.s - RATE * (0.5 - factors * losses)
        return factors @ gradients


class GradNorm:
    def __init__(self, shared: int, alpha: float = 1.5) -> None:
        self.shared, self.alpha = shared, alpha
        self.w: Any = None

    def __call__(self, losses: Any, gradients: Gradients, epoch: int) -> Any:
        if self.w is None:
            self.w, self.first = np.ones(len(losses)), losses
        before = self.w
        norms = np.linalg.norm(gradients[:, : self.shared], axis=1)
        relative = losses / self.first
        rates = relative / relative.mean()
        target = (before * norms).mean() * rates**self.alpha
        moved = before - RATE * np.sign(before * norms - target) * norms
        self.w = len(losses) * moved / moved.sum()
        return before @ gradients


class DynamicWeightAverage:
    def __init__(self) -> None:
        self.epochs: list[list[Any]] = []

    def __call__(self, losses: Any, gradients: Gradients, epoch: int) -> Any:
        if epoch == len(self.epochs):
            self.epochs.append([])
        self.epochs[epoch].append(losses)
        rates = np.ones(len(losses))
        if epoch >= 2:
            last, before = (np.mean(self.epochs[epoch - n], 0) for n in (1, 2))
            rates = last / before
        powers = np.exp(rates / 2)
        return len(losses) * powers / powers.sum() @ gradients
