"""Groups of rows times their matrices in one kernel, on JAX's accelerators."""

import jax
from keras import ops

from keras_moe.ops._rows import gather
from keras_moe.ops._tracing import jax_platform
from keras_moe.ops.routing_plan import slot_experts
from keras_moe.types import Tensor


def has_ragged_kernel() -> bool:
    """Returns whether JAX runs where `jax.lax.ragged_dot` is a kernel.

    On processors it multiplies all rows by all matrices, for tests; there a
    loop over blocks is what pays.
    """
    return jax_platform() in ("gpu", "tpu")


def affine_ragged(
    inputs: Tensor, kernels: Tensor, biases: Tensor, group_sizes: Tensor
) -> Tensor:
    """Multiplies and adds as `grouped_matmul` does.

    Args:
        inputs: Tensor `(S, D)`, the groups one after the other.
        kernels: Tensor `(E, D, H)`, of the same type.
        biases: Tensor `(E, H)`, of the same type.
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.

    Returns:
        Tensor `(S, H)`, zero behind the last group.
    """
    num_rows, num_experts = inputs.shape[0], kernels.shape[0]
    products = jax.lax.ragged_dot(inputs, kernels, group_sizes)  # (S, H)
    experts = slot_experts(group_sizes, num_rows)  # (S,), `E` behind.
    last = ops.minimum(experts, num_experts - 1)
    products = products + gather(biases, last)  # (E, H) to (S, H)
    # What a kernel writes behind the last group is its own affair.
    inside = (experts < num_experts)[:, None]  # (S, 1)
    return ops.where(inside, products, ops.zeros_like(products))
