import keras
from keras import ops

from keras_moe.types import Tensor


def split_groups(inputs: Tensor, group_sizes: Tensor) -> list[Tensor]:
    """Splits rows into the groups of the experts, which may be empty.

    Only where shapes may depend on values, see
    `keras_moe.ops._tracing.has_dynamic_shapes`.

    Args:
        inputs: Tensor `(S, ...)`, the groups one after the other.
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.

    Returns:
        `E + 1` tensors, one per group, and the rows behind the last group.
    """
    group_sizes = ops.cast(group_sizes, "int32")
    rest = ops.shape(inputs)[0] - ops.sum(group_sizes)
    sizes = ops.concatenate([group_sizes, ops.reshape(rest, (1,))])  # (E + 1,)
    if keras.backend.backend() == "torch":
        import torch

        return list(torch.split(inputs, sizes.tolist()))
    import tensorflow as tf

    return list(tf.split(inputs, sizes, num=group_sizes.shape[0] + 1))


def affine_groups(
    inputs: Tensor,
    kernels: Tensor,
    biases: Tensor,
    group_sizes: Tensor,
    relu: bool,
) -> Tensor:
    """Multiplies and adds as `grouped_matmul` does, then applies a ReLU or not.

    Args:
        inputs: Tensor `(S, D)`, the groups one after the other.
        kernels: Tensor `(E, D, H)`, of the same type.
        biases: Tensor `(E, H)`, of the same type.
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.
        relu: Boolean.

    Returns:
        Tensor `(S, H)`, zero behind the last group.
    """
    import tensorflow as tf

    num_experts, _, units = kernels.shape
    *groups, rest = split_groups(inputs, group_sizes)
    products = []
    for rows, kernel, bias in zip(
        groups,  # (group, D) each.
        tf.unstack(kernels, num=num_experts),  # (D, H) each.
        tf.unstack(biases, num=num_experts),  # (H,) each.
        strict=True,
    ):
        # TensorFlow makes one operation of the three, which saves two passes
        # over the products: not of `+`, nor if the ReLU came after the
        # concatenation.
        sums = tf.nn.bias_add(tf.matmul(rows, kernel), bias)
        products.append(tf.nn.relu(sums) if relu else sums)
    products.append(tf.zeros((tf.shape(rest)[0], units), inputs.dtype))
    return tf.concat(products, axis=0)
