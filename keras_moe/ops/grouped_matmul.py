from collections.abc import Callable

import keras
from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._blocks import matmul_by_blocks
from keras_moe.ops._group_sizes import check_group_sizes
from keras_moe.ops._tracing import has_dynamic_shapes
from keras_moe.types import Activation
from keras_moe.types import Tensor

if keras.backend.backend() == "torch":
    from keras_moe.ops._torch_groups import affine_groups
else:
    from keras_moe.ops._split_groups import affine_groups


def grouped_matmul(
    inputs: Tensor,
    kernels: Tensor,
    group_sizes: Tensor,
    biases: Tensor | None = None,
    activation: Activation | None = None,
) -> Tensor:
    """Multiplies the rows of each group by the group's matrix.

    Where shapes may depend on values, each group is one matmul. Elsewhere,
    under XLA, a loop goes over blocks of rows. On accelerators that have one,
    a single kernel computes all groups. Rows behind the last group cost
    nothing.

    Args:
        inputs: Tensor `(S, D)`, the groups one after the other.
        kernels: Tensor `(E, D, H)`, one matrix per group.
        group_sizes: Int32 `(E,)`, the rows of each group, with a sum of at
            most `S`.
        biases: Tensor `(E, H)`, added to each row of the group. Defaults to
            `None`.
        activation: Applied to the sums; treats each row on its own. Defaults
            to `None`. `keras.activations.relu` is computed with the matmuls
            where shapes may depend on values.

    Returns:
        Tensor `(S, H)`, the activation of zeros behind the last group.

    Raises:
        TypeError: If `group_sizes` holds no integers.
        ValueError: If it has not one entry per matrix; or, outside of
            compiled functions, one is negative or their sum is above `S`.

    Example:
        >>> inputs = np.ones((4, 1), "float32")
        >>> kernels = np.array([[[2.0]], [[3.0]]], "float32")
        >>> product = grouped_matmul(inputs, kernels, np.array([1, 2]))
        >>> keras.ops.convert_to_numpy(product).ravel().tolist()
        [2.0, 3.0, 3.0, 0.0]
    """
    inputs = as_tensor("inputs", inputs, 2)
    kernels = as_tensor("kernels", kernels, 3)
    check_group_sizes(group_sizes, kernels.shape[0], inputs.shape[0])
    if biases is None:
        biases = ops.zeros_like(kernels[:, 0])
    tensors = [inputs, kernels, ops.convert_to_tensor(biases)]
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in tensors]
    if len(set(dtypes)) > 1:
        dtype = keras.backend.result_type(*dtypes)
        tensors = [ops.cast(tensor, dtype) for tensor in tensors]
    inputs, kernels, biases = tensors
    group_sizes = ops.cast(group_sizes, "int32")
    relu = has_dynamic_shapes() and activation is keras.activations.relu
    if has_dynamic_shapes():
        products = affine_groups(inputs, kernels, biases, group_sizes, relu)
    elif inputs.shape[0] == 0:
        # No rows: any matrix does.
        products = ops.matmul(inputs, kernels[0]) + biases[0]
    else:
        # Not variables any more, which TensorFlow's custom gradients refuse.
        kernels = ops.reshape(kernels, kernels.shape)  # (E, D, H), as before.
        biases = ops.reshape(biases, biases.shape)  # (E, H), as before.
        multiply = _way_of_static_shapes()
        products = multiply(inputs, kernels, biases, group_sizes)
    return products if relu or activation is None else activation(products)


def _way_of_static_shapes() -> Callable[..., Tensor]:
    if keras.backend.backend() == "jax":
        from keras_moe.ops._ragged_dot import affine_ragged
        from keras_moe.ops._ragged_dot import has_ragged_kernel

        if has_ragged_kernel():
            return affine_ragged
    return matmul_by_blocks
