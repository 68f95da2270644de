from keras import ops

from keras_moe.ops._blocks import matmul_by_blocks
from keras_moe.ops._split_groups import split_groups
from keras_moe.ops._tracing import has_dynamic_shapes
from keras_moe.types import Tensor


def grouped_matmul(
    inputs: Tensor,
    kernels: Tensor,
    group_sizes: Tensor,
    biases: Tensor | None = None,
) -> Tensor:
    """Multiplies the rows of each group by the group's matrix.

    Where shapes may depend on values, each group is one matmul. Elsewhere,
    under XLA, a loop goes over blocks of rows. Rows behind the last group cost
    nothing.

    Args:
        inputs: Tensor `(S, D)`, the groups one after the other.
        kernels: Tensor `(E, D, H)`, one matrix per group.
        group_sizes: Int32 `(E,)`, the rows of each group, with a sum of at
            most `S`.
        biases: Tensor `(E, H)`, added to each row of the group. Defaults to
            `None`.

    Returns:
        Tensor `(S, H)`, zero behind the last group.

    Example:
        >>> inputs = np.ones((4, 1), "float32")
        >>> kernels = np.array([[[2.0]], [[3.0]]], "float32")
        >>> product = grouped_matmul(inputs, kernels, np.array([1, 2]))
        >>> keras.ops.convert_to_numpy(product).ravel().tolist()
        [2.0, 3.0, 3.0, 0.0]
    """
    inputs = ops.convert_to_tensor(inputs)
    # Not a variable any more, which TensorFlow's custom gradients refuse.
    kernels = ops.reshape(kernels, kernels.shape)  # (E, D, H), as before.
    group_sizes = ops.cast(group_sizes, "int32")
    if biases is None:
        biases = ops.zeros_like(kernels[:, 0])
    biases = ops.reshape(biases, biases.shape)  # (E, H), as before.
    if has_dynamic_shapes():
        return _by_groups(inputs, kernels, biases, group_sizes)
    if inputs.shape[0] == 0:
        # No rows: any matrix does.
        return ops.matmul(inputs, kernels[0]) + biases[0]
    return matmul_by_blocks(inputs, kernels, biases, group_sizes)


def _by_groups(
    inputs: Tensor, kernels: Tensor, biases: Tensor, sizes: Tensor
) -> Tensor:
    num_experts, _, units = kernels.shape
    *groups, rest = split_groups(inputs, sizes)
    parameters = zip(
        groups,  # (group, D) each.
        ops.unstack(kernels, num=num_experts),  # (D, H) each.
        ops.unstack(biases, num=num_experts),  # (H,) each.
        strict=True,
    )
    products = [
        ops.matmul(group, kernel) + bias for group, kernel, bias in parameters
    ]
    products.append(ops.zeros((ops.shape(rest)[0], units), products[0].dtype))
    return ops.concatenate(products)
