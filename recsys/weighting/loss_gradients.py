from collections.abc import Callable
from collections.abc import Sequence
from importlib import import_module

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor


def loss_gradients(
    losses: Callable[[], Tensor], variables: Sequence[keras.Variable]
) -> list[list[np.ndarray]]:
    """Returns the gradients of several losses, outside of a training.

    Args:
        losses: Computes float32 `(L,)`, all losses by one forward pass.
        variables: Trainable variables that are no tables trained by rows.

    Returns:
        For each loss an array like each variable, zeros where the loss does
        not depend on it.
    """
    if keras.backend.backend() == "jax":
        return _on_jax(losses, variables)
    native = import_module(
        f"recsys.weighting.{keras.backend.backend()}_gradients"
    )
    with native.recorded() as tape:
        parts = losses()
    gradients = [
        native.gradients(tape, parts, ops.convert_to_tensor(row), variables)
        for row in np.eye(parts.shape[0], dtype="float32")
    ]
    return [
        [
            np.zeros(variable.shape, "float32")
            if gradient is None
            else ops.convert_to_numpy(gradient)
            for gradient, variable in zip(of_loss, variables, strict=True)
        ]
        for of_loss in gradients
    ]


def _on_jax(
    losses: Callable[[], Tensor], variables: Sequence[keras.Variable]
) -> list[list[np.ndarray]]:
    import jax

    def of_values(values: Sequence[Tensor]) -> Tensor:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return losses()

    parts, pull_back = jax.vjp(of_values, [v.value for v in variables])
    return [
        [np.asarray(gradient) for gradient in pull_back(row)[0]]
        for row in ops.eye(parts.shape[0], dtype="float32")
    ]
