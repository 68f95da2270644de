from typing import Any
from typing import NamedTuple

from keras import ops

from keras_moe.ops.routing_plan import slot_experts
from keras_moe.ops.rows import gather


class GroupBlocks(NamedTuple):
    """Groups of rows cut into blocks, in a number that no value changes.

    Attributes:
        experts: Int32 `(C,)`, the group of each block, in ascending order;
            `E` for the blocks at the end that nothing is in.
        starts: Int32 `(C,)`, its first row.
        ends: Int32 `(C,)`, the row behind its last one.
        firsts: Int32 `(E,)`, the first block of each group.
        num_used: Int32 scalar, how many blocks hold rows.
    """

    experts: Any
    starts: Any
    ends: Any
    firsts: Any
    num_used: Any


def group_blocks(
    group_sizes: Any, num_rows: Any, block_rows: Any
) -> GroupBlocks:
    """Cuts groups that lie one after the other into blocks.

    Args:
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.
        num_rows: Integer `S`, or integer tensor.
        block_rows: Integer `B >= 1`, or integer tensor, the most rows of a
            block.

    Returns:
        As many blocks as any sizes of the groups can need.

    Example:
        >>> blocks = group_blocks(np.array([3, 0, 2]), 5, block_rows=2)
        >>> keras.ops.convert_to_numpy(blocks.experts).tolist()
        [0, 0, 2, 3]
        >>> keras.ops.convert_to_numpy(blocks.starts).tolist()[:3]
        [0, 2, 3]
        >>> keras.ops.convert_to_numpy(blocks.ends).tolist()[:3]
        [2, 3, 5]
    """
    group_sizes = ops.cast(group_sizes, "int32")
    num_experts = group_sizes.shape[0]
    counts = (group_sizes + block_rows - 1) // block_rows
    firsts = ops.cumsum(counts) - counts
    num_blocks = _max_blocks(num_rows, block_rows, num_experts)
    experts = slot_experts(counts, num_blocks)
    group = ops.minimum(experts, num_experts - 1)
    group_ends = ops.cumsum(group_sizes)
    place = ops.arange(num_blocks, dtype="int32") - gather(firsts, group)
    starts = gather(group_ends - group_sizes, group) + place * block_rows
    ends = ops.minimum(starts + block_rows, gather(group_ends, group))
    return GroupBlocks(experts, starts, ends, firsts, ops.sum(counts))


def cut_rows(rows: Any, blocks: GroupBlocks, block_rows: Any) -> Any:
    """Copies the rows of each block; others fill a block up.

    Args:
        rows: Tensor `(S, ...)`, the groups one after the other.
        blocks: What the groups are cut into.
        block_rows: Integer `B`, or integer tensor.

    Returns:
        Tensor `(C, B, ...)`.
    """
    places = blocks.starts[:, None] + ops.arange(block_rows, dtype="int32")
    return gather(rows, ops.clip(places, 0, ops.shape(rows)[0] - 1))


def join_rows(
    values: Any, blocks: GroupBlocks, group_sizes: Any, num_rows: Any
) -> Any:
    """Puts the rows of blocks back where `cut_rows` took them from.

    Args:
        values: Tensor `(C, B, ...)`.
        blocks: What the groups were cut into.
        group_sizes: Int32 `(E,)`.
        num_rows: Integer `S`, or integer tensor.

    Returns:
        Tensor `(S, ...)`; any of the values behind the last group.
    """
    num_blocks, block_rows, *shape = ops.shape(values)
    group_sizes = ops.cast(group_sizes, "int32")
    group_starts = ops.cumsum(group_sizes) - group_sizes
    # How much further back than in the result a group's rows stand.
    shifts = blocks.firsts * block_rows - group_starts
    group = slot_experts(group_sizes, num_rows)
    shift = gather(shifts, ops.minimum(group, group_sizes.shape[0] - 1))
    place = ops.arange(num_rows, dtype="int32") + shift
    last = num_blocks * block_rows - 1
    return gather(ops.reshape(values, (-1, *shape)), ops.minimum(place, last))


def block_size(num_rows: Any, num_experts: int) -> Any:
    """Rows per block: a few blocks per group, without much that is left empty.

    Args:
        num_rows: Integer, or integer tensor, the rows of all groups.
        num_experts: Integer, the number of groups.

    Returns:
        Integer, or integer tensor, from 8 to 256, and at most `num_rows`.

    Example:
        >>> [block_size(rows, num_experts=16) for rows in (2, 1024, 9999)]
        [2, 32, 256]
    """
    size = num_rows // (2 * num_experts)
    if isinstance(size, int):
        return min(max(size, 8), 256, num_rows)
    return ops.minimum(ops.clip(size, 8, 256), num_rows)


def _max_blocks(num_rows: Any, block_rows: Any, num_experts: int) -> Any:
    """Most blocks that any groups fill.

    Each group that has rows fills less than one block more than they need.
    """
    groups = num_experts
    if isinstance(num_rows, int):
        groups = min(num_rows, num_experts)
    return (num_rows + groups * (block_rows - 1)) // block_rows
