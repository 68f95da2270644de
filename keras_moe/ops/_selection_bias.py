from keras import ops

from keras_moe.distribution.shared_rows import sum_over_processes
from keras_moe.types import Tensor


def moved_bias(
    bias: Tensor, chosen: Tensor, rate: float, mask: Tensor | None = None
) -> Tensor:
    """The selection bias after a batch: a step against uneven loads.

    Computes `b_i + rate · sign(mean load - load_i)`, the load of an expert
    being the number of rows that chose it. An expert with the mean load keeps
    its bias, and so do all in a batch without rows.

    Args:
        bias: Float32 tensor `(n,)`.
        chosen: Boolean tensor `(..., n)`, the experts of each row.
        rate: Number `>= 0`.
        mask: Boolean tensor `(...)`, false for padding. Defaults to `None`.

    Returns:
        Float32 tensor `(n,)`.

    Example:
        >>> chosen = np.eye(3)[[0, 0, 0, 1]] > 0
        >>> bias = moved_bias(np.zeros(3, "float32"), chosen, rate=0.5)
        >>> [float(entry) for entry in bias]
        [-0.5, 0.5, 0.5]

    References:
        Wang et al., Auxiliary-Loss-Free Load Balancing Strategy for
        Mixture-of-Experts, 2024, algorithm 1.
    """
    chosen = ops.convert_to_tensor(chosen)
    if mask is not None:
        chosen = ops.logical_and(chosen, ops.cast(mask, "bool")[..., None])
    axes = tuple(range(len(chosen.shape) - 1))
    loads = sum_over_processes(ops.sum(ops.cast(chosen, "int32"), axis=axes))
    # Not by the mean, which is rounded: equal loads have to be equal to it.
    total = ops.cast(ops.sum(loads), "float32")
    num_experts = chosen.shape[-1]
    signs = ops.sign(total - num_experts * ops.cast(loads, "float32"))
    return ops.convert_to_tensor(bias) + rate * signs
