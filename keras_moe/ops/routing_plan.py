"""Which rows each expert computes, laid out in blocks of a static size.

Axis letters here and in the mixtures: N routed rows, E experts, T tasks,
C blocks, B rows a block, D inputs, H outputs.
"""

from typing import Any
from typing import NamedTuple

from keras import ops

from keras_moe.ops.rows import take_rows

# Rows a block where all blocks of an expert are computed together. Larger ones
# would only add padding.
SMALLEST_BLOCK = 8


class RoutingPlan(NamedTuple):
    """Where every selected (row, expert) pair is computed.

    The pairs are sorted by expert and each expert's group is padded to whole
    blocks, so that the number of blocks is all that depends on the batch.

    Attributes:
        rows: Int32 `(C, B)`, the row in each slot; `N` where there is none.
        experts: Int32 `(C,)`, the expert of each block, in ascending order;
            `E` for the blocks at the end that nothing is in.
    """

    rows: Any
    experts: Any


def routing_plan(selected: Any, max_pairs: Any, block_rows: Any) -> RoutingPlan:
    """Plans the computation of the selected pairs; drops none of them.

    Shapes depend on the arguments' shapes and on the two sizes alone, never
    on the values, so that the plan compiles under XLA.

    Args:
        selected: Boolean `(N, E)`, whether the expert is needed for the row.
        max_pairs: Integer, at least the number of true entries.
        block_rows: Integer `B >= 1`.

    Returns:
        A `RoutingPlan` with as many blocks as `max_pairs` pairs can fill.

    Example:
        >>> selected = np.array([[True, False], [True, True], [True, False]])
        >>> plan = routing_plan(selected, max_pairs=4, block_rows=2)
        >>> keras.ops.convert_to_numpy(plan.rows).tolist()
        [[0, 1], [2, 3], [1, 3]]
        >>> keras.ops.convert_to_numpy(plan.experts).tolist()
        [0, 0, 1]
    """
    num_experts = selected.shape[1]
    # counts[i, e]: how many of the first i rows selected expert e.
    counts = ops.pad(
        ops.cumsum(ops.cast(selected, "int32"), axis=0), [[1, 0], [0, 0]]
    )
    loads = ops.max(counts, axis=0)
    blocks = (loads + block_rows - 1) // block_rows
    ends = ops.cumsum(blocks)
    block = ops.arange(
        _max_blocks(max_pairs, block_rows, num_experts), dtype="int32"
    )
    experts = ops.sum(
        ops.cast(block[:, None] >= ends[None, :], "int32"), axis=1
    )
    column = ops.minimum(experts, num_experts - 1)
    first = take_rows(ends - blocks, column)
    # place[c, b]: the slot holds its expert's place-th row, counted from 0.
    place = (block - first)[:, None] * block_rows + ops.arange(
        block_rows, dtype="int32"
    )
    return RoutingPlan(_rows_at(place, column, counts), experts)


def block_size(max_pairs: Any, num_experts: int) -> Any:
    """Rows a block, where each block is computed on its own.

    A few blocks an expert, without much padding.

    Args:
        max_pairs: Integer, or integer tensor where the number of rows is not
            known yet, the most pairs that a plan is made for.
        num_experts: Integer, the number of experts.

    Returns:
        Integer, or integer tensor, from 8 to 256.

    Example:
        >>> [block_size(pairs, num_experts=16) for pairs in (2, 1024, 9999)]
        [8, 32, 256]
    """
    return _clip(max_pairs // (2 * num_experts), SMALLEST_BLOCK, 256)


def _max_blocks(max_pairs: Any, block_rows: Any, num_experts: int) -> Any:
    """Most blocks that any choice of the pairs fills, and at least one.

    Each expert that has pairs fills less than one block more than they need.
    """
    experts = _clip(max_pairs, 0, num_experts)
    return _clip((max_pairs + experts * (block_rows - 1)) // block_rows, 1)


def _clip(size: Any, least: int, most: int = 2**31 - 1) -> Any:
    """Clips a size; a Python integer stays one, as static shapes need it."""
    if isinstance(size, int):
        return min(max(size, least), most)
    return ops.clip(size, least, most)


def _rows_at(place: Any, experts: Any, counts: Any) -> Any:
    """The row that is the `place`-th of its expert, `N` past the last one.

    A binary search for the number of rows `i` with `counts[i] <= place`. It
    costs a few gathers of the slots; a scatter would touch all N x E entries.
    """
    num_experts = counts.shape[1]
    num_rows = ops.shape(counts)[0] - 1
    static_rows = counts.shape[0]
    # Without a static number of rows: as many bits as an int32 index has.
    bits = 31 - num_experts.bit_length() + 1
    if static_rows is not None:
        bits = static_rows.bit_length()
    flat_counts = ops.reshape(counts, (-1,))
    row = ops.zeros_like(place)
    for bit in reversed(range(bits)):
        candidate = row + (1 << bit)
        index = ops.minimum(candidate, num_rows) * num_experts
        count = take_rows(flat_counts, index + experts[:, None])
        inside = ops.logical_and(candidate <= num_rows, count <= place)
        row = ops.where(inside, candidate, row)
    return row
