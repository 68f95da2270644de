"""Groups of rows times their matrices, in TensorFlow's graphs."""

from keras_moe.ops._split_groups import split_groups
from keras_moe.types import Tensor


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
