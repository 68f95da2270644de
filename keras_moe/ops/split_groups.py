from typing import Any

import keras
from keras import ops


def split_groups(blocks: Any, experts: Any, num_experts: int) -> list[Any]:
    """Splits blocks into the groups of the experts, which may be empty.

    Only where shapes may depend on values, see
    `keras_moe.ops.tracing.has_dynamic_shapes`.

    Args:
        blocks: Tensor `(C, ...)`.
        experts: Int32 `(C,)`, the expert of each block, in ascending order;
            `E` for the blocks of none.
        num_experts: Integer `E`.

    Returns:
        `E + 1` tensors `(c_e, ...)`, `c_e` being how many blocks expert `e`
        has. The last one holds the blocks of no expert.
    """
    num_groups = num_experts + 1
    counts = ops.bincount(experts, minlength=num_groups)
    if keras.backend.backend() == "torch":
        groups: list[Any] = list(blocks.split(counts.tolist()))
        return groups
    import tensorflow as tf

    # The length of `counts` is not known before it is computed.
    return list(tf.split(blocks, counts[:num_groups], num=num_groups))
