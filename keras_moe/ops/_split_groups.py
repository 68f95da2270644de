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
