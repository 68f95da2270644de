"""Estimates when sparse execution is faster than dense.

The constants were measured on CPUs, but for `RAGGED_ON_GPU`.
`benchmarks/break_even.py` measures them again and reports how often, and by how
much, the estimate is wrong.
"""

from typing import Any

import keras
from keras import ops

from keras_moe.ops._tracing import jax_platform
from keras_moe.types import Tensor

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
    if num_rows is None:
        # Of many rows: neither the plan counts then, nor experts without any.
        most = _most_of_many_rows(row_values, num_experts, row_cost)
        return experts_per_row <= most
    pairs = num_rows * experts_per_row
    lines = _break_even_lines(num_rows, row_values, num_experts, row_cost)
    return pairs <= max(lines)


def most_pairs_that_pay(
    num_rows: int | Tensor,
    row_values: int,
    num_experts: int,
    row_cost: int | None,
    most_per_row: float,
) -> float | Tensor:
    """Estimates up to how many (row, expert) pairs sparse execution pays.

    Args:
        num_rows: Rows of the batch, an integer or a float tensor.
        row_values: Values of a row that are copied for each of its experts,
            inputs and outputs.
        num_experts: Experts.
        row_cost: Multiply-adds of one expert on one row, or `None`.
        most_per_row: What `smaller_experts` returns.

    Returns:
        A number or a float tensor; negative where no batch pays.

    Example:
        >>> most_pairs_that_pay(4096, 512, num_experts=16,
        ...                     row_cost=256 * 256, most_per_row=8.0)
        32768.0
    """
    lines = _break_even_lines(num_rows, row_values, num_experts, row_cost)
    if isinstance(num_rows, int):
        return min(max(lines), num_rows * most_per_row)
    return ops.minimum(ops.maximum(*lines), num_rows * most_per_row)


def smaller_experts(
    row_inputs: int, kept_values: int, num_experts: int
) -> float:
    """Estimates up to how many experts per row sparse execution is smaller.

    Dense execution keeps the values of all experts for the gradient; sparse
    execution those of the pairs, and a copy of the row for each.

    Args:
        row_inputs: Values of a row.
        kept_values: Values of one expert's layers for one row.
        num_experts: Experts.

    Example:
        >>> smaller_experts(row_inputs=64, kept_values=64, num_experts=16)
        8.0
    """
    return num_experts * kept_values / (row_inputs + kept_values)


def _break_even_lines(
    num_rows: Any, row_values: int, num_experts: int, row_cost: int | None
) -> tuple[Any, Any]:
    """The pairs at which both ways take as long: the larger of two numbers.

    The first holds where there are as many pairs as experts. With fewer, each
    pair less leaves one more expert idle, whose matrices are not read: then
    the second does, and is the larger one.
    """
    of_rows = num_rows * _most_of_many_rows(row_values, num_experts, row_cost)
    if row_cost is None:
        return of_rows, of_rows
    plan = PLAN[keras.backend.backend()]
    per_pair = _pair_cost(row_values, row_cost)
    read = READ_MATRIX * row_cost
    with_idle = of_rows * per_pair + read * num_experts - plan
    return of_rows - plan / per_pair, with_idle / (per_pair + read)


def _most_of_many_rows(
    row_values: int, num_experts: int, row_cost: int | None
) -> float:
    """The experts per row at which sparse and dense execution cost the same."""
    if row_cost is None:
        backend = keras.backend.backend()
        return LARGEST_SHARE[backend] * num_experts / _cost_of_groups(backend)
    return row_cost * num_experts / _pair_cost(row_values, row_cost)


def _pair_cost(row_values: int, row_cost: int) -> int:
    """What a pair costs, in multiply-adds of a matmul."""
    groups = _cost_of_groups(keras.backend.backend())
    return row_cost * groups + MOVED_VALUE * row_values


def _cost_of_groups(backend: str) -> int:
    """What a multiply-add of a group of rows costs, in those of a matmul."""
    if backend != "jax":
        return 1
    return RAGGED_ON_GPU if jax_platform() == "gpu" else 1
