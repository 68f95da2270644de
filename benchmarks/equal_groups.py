"""The experts of a bank on equal groups of rows: nothing to sort or gather."""

from typing import Any

import keras
from keras import ops

from keras_moe.layers import MLPExperts


def run_equal_groups(
    experts: MLPExperts,
    groups: Any,
    training: bool | None = None,
    one_by_one: bool = False,
) -> Any:
    """Computes each expert on its group.

    Args:
        experts: The built experts, with biases.
        groups: Tensor `(E, rows, D)`.
        training: Boolean, whether to apply dropout.
        one_by_one: Boolean, whether each group is a matmul of its own; else
            all are a batched one. Either may be the faster one.

    Returns:
        Tensor `(E, rows, H)`.
    """
    for kernel, bias, activation in zip(
        experts.kernels, experts.biases, experts.activations, strict=True
    ):
        multiply = _matmuls if one_by_one else ops.matmul
        groups = multiply(groups, kernel) + bias[:, None]  # (E, rows, H)
        groups = activation(groups)
        if training and experts.dropout > 0:
            groups = keras.random.dropout(
                groups, experts.dropout, seed=experts.seed_generator
            )
    return groups


def _matmuls(groups: Any, kernels: Any) -> Any:
    groups, kernels = map(ops.convert_to_tensor, (groups, kernels))
    count = kernels.shape[0]
    pairs = zip(
        ops.unstack(groups, num=count),  # (rows, D) each.
        ops.unstack(kernels, num=count),  # (D, H) each.
        strict=True,
    )
    return ops.stack([ops.matmul(group, kernel) for group, kernel in pairs])
