from typing import Any

import keras

from keras_moe.checks import as_tensor
from keras_moe.ops._group_sizes import check_group_sizes
from keras_moe.ops.grouped_matmul import grouped_matmul
from keras_moe.types import Tensor


def ragged_dot(rows: Tensor, kernels: Tensor, group_sizes: Tensor) -> Tensor:
    """Multiplies each row by the matrix of its group.

    `y_s = x_s A_e`, `e` being the group of row `s`: `jax.lax.ragged_dot` on
    every backend, with gradients, and computed as sparse mixtures are, by
    `grouped_matmul`. It makes layers sparse that compute all experts on all
    rows: sort the rows by their experts, multiply, put them back.

    Args:
        rows: Tensor `(S, d)`, the groups one after the other.
        kernels: Tensor `(E, d, h)`, one matrix per group.
        group_sizes: Int32 `(E,)`, the rows of each group, with a sum of at
            most `S`.

    Returns:
        Tensor `(S, h)`, of the common dtype of rows and kernels; zeros
        behind the last group, where rows may hold anything, NaN included,
        and have a gradient of zeros.

    Raises:
        TypeError: If an argument is no tensor, or `group_sizes` holds no
            integers.
        ValueError: If the shapes do not fit together; or, outside of
            compiled functions, a size is negative or their sum is above `S`.

    Example:
        >>> rows = np.ones((4, 1), "float32")
        >>> kernels = np.array([[[2.0]], [[3.0]]], "float32")
        >>> product = ragged_dot(rows, kernels, np.array([1, 2]))
        >>> keras.ops.convert_to_numpy(product).ravel().tolist()
        [2.0, 3.0, 3.0, 0.0]

    References:
        Gale et al., MegaBlocks: Efficient Sparse Training with
        Mixture-of-Experts, MLSys 2023, section 3.1 (experts of different
        numbers of rows as one grouped product).
    """
    rows = as_tensor("rows", rows)
    kernels = as_tensor("kernels", kernels)
    _check_shapes(tuple(rows.shape), tuple(kernels.shape))
    group_sizes = as_tensor("group_sizes", group_sizes)
    check_group_sizes(group_sizes, kernels.shape[0], rows.shape[0])
    arguments = (rows, kernels, group_sizes)
    if any(isinstance(argument, keras.KerasTensor) for argument in arguments):
        return _RaggedDot().symbolic_call(*arguments)
    return grouped_matmul(*arguments)


def _check_shapes(rows: tuple[Any, ...], kernels: tuple[Any, ...]) -> None:
    for name, shape, axes in (
        ("rows", rows, "(S, d)"),
        ("kernels", kernels, "(E, d, h)"),
    ):
        if len(shape) != axes.count(",") + 1:
            raise ValueError(
                f"`{name}` must have the shape {axes}. "
                f"Received: {name} of shape {shape}"
            )
    if None not in (rows[1], kernels[1]) and rows[1] != kernels[1]:
        raise ValueError(
            f"`kernels` must have as many inputs as `rows` has values, "
            f"{rows[1]}. Received: kernels of shape {kernels}"
        )


class _RaggedDot(keras.Operation):
    """The operation of a functional model."""

    def call(
        self, rows: Tensor, kernels: Tensor, group_sizes: Tensor
    ) -> Tensor:
        return ragged_dot(rows, kernels, group_sizes)

    def compute_output_spec(
        self, rows: Tensor, kernels: Tensor, group_sizes: Tensor
    ) -> keras.KerasTensor:
        dtypes = [
            keras.backend.standardize_dtype(x.dtype) for x in (rows, kernels)
        ]
        return keras.KerasTensor(
            (rows.shape[0], kernels.shape[2]),
            dtype=keras.backend.result_type(*dtypes),
        )
