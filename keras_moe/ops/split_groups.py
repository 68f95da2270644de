from typing import Any

import keras
from keras import ops


def split_groups(blocks: Any, experts: Any, num_experts: int) -> list[Any]:
    """Splits blocks into the groups of the experts, which may be empty.

    Only where shapes may depend on values, see
    `keras_moe.ops.tracing.has_dynamic_shapes`.

    Args:
        blocks: Tensor `(C, ...)`.
        experts: Int32 `(C,)`, the expert of each block, in ascending order.
        num_experts: Integer `E`.

    Returns:
        `E` tensors `(c_e, ...)`, `c_e` being how many blocks expert `e` has.
    """
    counts = ops.bincount(experts, minlength=num_experts)
    if keras.backend.backend() == "torch":
        groups: list[Any] = list(blocks.split(counts.tolist()))
        return groups
    import tensorflow as tf

    # The length of `counts` is not known before it is computed.
    return list(tf.split(blocks, counts[:num_experts], num=num_experts))
