from typing import Any

import numpy as np
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import CGC
from keras_moe.layers import MLPExperts
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate

ROWS, INPUTS, UNITS = 17, 5, 3


def experts(count: int, seed: int = 0) -> MLPExperts:
    """Experts without a zero in their outputs, as ReLU would have."""
    return MLPExperts(
        count,
        UNITS,
        activation="tanh",
        bias_initializer="random_normal",
        seed=seed,
    )


def small_cgc(**kwargs: Any) -> CGC:
    """Two shared experts, two of task a, one of task b."""
    arguments = {
        "gates": {"a": TopKGate(4, k=2, seed=0), "b": SoftmaxGate(3, seed=1)},
        "shared_experts": experts(2, seed=2),
        "task_experts": {"a": experts(2, seed=3), "b": experts(1, seed=4)},
    }
    return CGC(**{**arguments, **kwargs})


def run_experts(bank: MLPExperts, x: np.ndarray) -> np.ndarray:
    kernel, bias = to_numpy(bank.kernels[0]), to_numpy(bank.biases[0])
    return np.tanh(np.einsum("nd,edh->neh", x, kernel) + bias)


def logits(gate: SoftmaxGate | TopKGate, x: np.ndarray) -> np.ndarray:
    return x @ to_numpy(gate.kernel) + to_numpy(gate.bias)


def assert_all_close(actual: Any, expected: Any) -> None:
    for one, other in zip(actual, expected, strict=True):
        one, other = to_numpy(one), to_numpy(other)
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
