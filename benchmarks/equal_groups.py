"""The experts of a bank on equal groups of rows: nothing to sort or gather."""

from typing import Any

import keras
from keras import ops

from keras_moe.layers import MLPExperts


def run_equal_groups(
    experts: MLPExperts, groups: Any, training: bool | None = None
) -> Any:
    """Computes each expert on its group, as batched matmuls.

    Args:
        experts: The built experts, with biases.
        groups: Tensor `(E, rows, D)`.
        training: Boolean, whether to apply dropout.

    Returns:
        Tensor `(E, rows, H)`.
    """
    for kernel, bias in zip(experts.kernels, experts.biases, strict=True):
        groups = ops.matmul(groups, kernel) + bias[:, None]  # (E, rows, H)
        groups = experts.activation(groups)
        if training and experts.dropout > 0:
            groups = keras.random.dropout(
                groups, experts.dropout, seed=experts.seed_generator
            )
    return groups
