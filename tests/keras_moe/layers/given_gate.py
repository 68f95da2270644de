from typing import Any

import keras
import numpy as np

from keras_moe.layers import Gate


@keras.saving.register_keras_serializable(package="tests")
class GivenGate(Gate):
    """A gate whose inputs are the weights, so that tests choose them."""

    def __init__(self, *args: Any, bounded: bool = False, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.always_sparse = bounded

    def build(self, input_shape: Any) -> None:
        pass

    def compute_weights(
        self, inputs: Any, training: bool | None, mask: Any
    ) -> Any:
        return inputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "k": self.k,
            "bounded": self.always_sparse,
        }


def balanced(rows: int, n: int, k: int) -> np.ndarray:
    """Weights that give every expert as many rows as any other."""
    return _weights(rows, n, lambda row: [(row * k + j) % n for j in range(k)])


def skewed(rows: int, n: int, k: int) -> np.ndarray:
    """Weights that send every row to the same k experts, the last ones."""
    return _weights(rows, n, lambda row: range(n - k, n))


def ragged(rows: int, n: int, k: int) -> np.ndarray:
    """Weights of 0 to k experts per row; the first expert is never chosen."""
    return _weights(
        rows, n, lambda row: {1 + row * j % (n - 1) for j in range(row % k + 1)}
    )


def dense(rows: int, n: int, k: int) -> np.ndarray:
    """Weights of all experts in every row."""
    return _weights(rows, n, lambda row: range(n))


def _weights(rows: int, n: int, chosen: Any) -> np.ndarray:
    rng = np.random.default_rng(rows * n)
    weights = np.zeros((rows, n), "float32")
    for row in range(rows):
        experts = list(chosen(row))
        weights[row, experts] = rng.uniform(0.1, 1.0, len(experts))
    return weights
