"""Estimates when sparse execution is faster than dense.

The constants were measured on CPUs, but for `RAGGED_ON_GPU`.
`benchmarks/break_even.py` measures them again and reports how often, and by how
much, the estimate is wrong.
"""

import keras

from keras_moe.ops._tracing import jax_platform

# The cost of moving one value of a row to an expert or back, and of reading one
# row's worth of an expert's matrices, in multiply-adds of a matmul.
MOVED_VALUE = 30
READ_MATRIX = 32

# What planning costs beyond the overhead of dense execution, whatever the
# shapes, in multiply-adds of a matmul. On TensorFlow the two are equal.
PLAN = {"tensorflow": 0, "jax": 2_000_000, "torch": 30_000_000}

# What a multiply-add of `jax.lax.ragged_dot` costs on a GPU, in those of a
# matmul: with gradients, on an H200 in bfloat16. Without them it is 18.
RAGGED_ON_GPU = 160

# Where an expert's work is not known: the share of all pairs of a row and an
# expert up to which sparse execution is faster.
LARGEST_SHARE = {"tensorflow": 0.8, "jax": 0.3, "torch": 0.8}


def sparse_pays(
    num_rows: int | None,
    row_values: int,
    num_experts: int,
    experts_per_row: float,
    row_cost: int | None,
) -> bool:
    """Estimates whether sparse execution is faster than dense.

    Args:
        num_rows: Rows of the batch, `None` where that is not known.
        row_values: Values of a row that are copied for each of its experts,
            inputs and outputs.
        num_experts: Experts.
        experts_per_row: Experts that a row needs, on average.
        row_cost: Multiply-adds of one expert on one row, or `None`.

    Example:
        >>> sparse_pays(4096, 512, num_experts=16, experts_per_row=2,
        ...             row_cost=256 * 256)
        True
        >>> sparse_pays(4096, 512, num_experts=4, experts_per_row=3,
        ...             row_cost=32 * 32)
        False
    """
    backend = keras.backend.backend()
    computed = experts_per_row * _cost_of_groups(backend)
    if row_cost is None:
        return computed <= LARGEST_SHARE[backend] * num_experts
    saved = row_cost * (num_experts - computed)
    saved -= MOVED_VALUE * experts_per_row * row_values
    if num_rows is None:
        return saved > 0
    idle_experts = max(0.0, num_experts - num_rows * experts_per_row)
    saved = num_rows * saved + READ_MATRIX * row_cost * idle_experts
    return saved > PLAN[backend]


def _cost_of_groups(backend: str) -> int:
    """What a multiply-add of a group of rows costs, in those of a matmul."""
    if backend != "jax":
        return 1
    return RAGGED_ON_GPU if jax_platform() == "gpu" else 1
