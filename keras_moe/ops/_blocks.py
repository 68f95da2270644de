"""Groups of rows cut into blocks, in shapes that no value changes."""

from collections.abc import Callable
from typing import NamedTuple
from typing import TypeVar

import keras
from keras import ops

from keras_moe.ops._rows import gather
from keras_moe.ops.routing_plan import slot_experts
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

# How many rows a block has, as a share of the average group's. A matmul of few
# rows takes as long as reading its matrix, so most groups are to be one block;
# layers compute what fills up a block, so that is to be little.
MATMUL_SHARE = 1.25
LAYER_SHARE = 0.5

# What a loop carries from block to block.
Carry = TypeVar("Carry")


class GroupBlocks(NamedTuple):
    """Groups of rows cut into blocks, whose number depends on shapes alone.

    Attributes:
        experts: Int32 `(G,)`, the group of each block, in ascending order;
            `E` for the empty blocks at the end.
        starts: Int32 `(G,)`, its first row.
        ends: Int32 `(G,)`, one past its last row.
        firsts: Int32 `(E,)`, the first block of each group.
        num_used: Int32 scalar, how many blocks hold rows.
    """

    experts: Tensor
    starts: Tensor
    ends: Tensor
    firsts: Tensor
    num_used: Tensor


def group_blocks(
    group_sizes: Tensor, num_rows: IntegerLike, block_rows: IntegerLike
) -> GroupBlocks:
    """Cuts groups that lie one after the other into blocks.

    Args:
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.
        num_rows: Integer `S`, or integer tensor.
        block_rows: Integer `C >= 1`, or integer tensor, the most rows of a
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
    counts = (group_sizes + block_rows - 1) // block_rows  # (E,), of blocks.
    firsts = ops.cumsum(counts) - counts
    num_blocks = _max_blocks(num_rows, block_rows, num_experts)
    experts = slot_experts(counts, num_blocks)  # (G,)
    group = ops.minimum(experts, num_experts - 1)
    group_ends = ops.cumsum(group_sizes)
    # (E,) to (G,) by gathers: how far into its group a block is, in blocks.
    place = ops.arange(num_blocks, dtype="int32") - gather(firsts, group)
    starts = gather(group_ends - group_sizes, group) + place * block_rows
    ends = ops.minimum(starts + block_rows, gather(group_ends, group))
    return GroupBlocks(experts, starts, ends, firsts, ops.sum(counts))


def block_size(
    num_rows: IntegerLike, num_experts: int, share: float
) -> IntegerLike:
    """Returns the number of rows of a block.

    Args:
        num_rows: Integer, or integer tensor, the rows of all groups.
        num_experts: Integer, the number of groups.
        share: Float, of the rows of an average group; a multiple of 1/4.

    Returns:
        Integer, or integer tensor, from 8 to 256, and at most `num_rows`.

    Example:
        >>> [block_size(rows, 16, share=0.5) for rows in (2, 1024, 9999)]
        [2, 32, 256]
    """
    size = int(4 * share) * num_rows // (4 * num_experts)
    if isinstance(num_rows, int) and isinstance(size, int):
        return min(max(size, 8), 256, num_rows)
    return ops.minimum(ops.clip(size, 8, 256), num_rows)


def block_layout(
    group_sizes: Tensor, num_rows: IntegerLike, share: float
) -> tuple[Tensor, ...]:
    """Returns the input of `for_blocks`: `GroupBlocks`, and a block's rows.

    Tensors alone, so that it can be an argument of a custom gradient.

    Args:
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.
        num_rows: Integer `S`, or integer tensor.
        share: Float, see `block_size`.
    """
    block_rows = block_size(num_rows, group_sizes.shape[0], share)
    return (
        *group_blocks(group_sizes, num_rows, block_rows),
        ops.arange(block_rows, dtype="int32"),
    )


def matmul_by_blocks(
    inputs: Tensor, kernels: Tensor, biases: Tensor, group_sizes: Tensor
) -> Tensor:
    """Multiplies and adds as `grouped_matmul` does, in one loop over blocks.

    No shape depends on a value, and empty blocks are not computed.

    Args:
        inputs: Tensor `(S, D)`, the groups one after the other, `S >= 1`.
        kernels: Tensor `(E, D, H)`, one matrix per group.
        biases: Tensor `(E, H)`.
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.

    Returns:
        Tensor `(S, H)`, zero behind the last group.
    """
    layout = block_layout(group_sizes, ops.shape(inputs)[0], MATMUL_SHARE)

    # Everything is an argument: in a branch JAX loses what a closure holds.
    def affine(
        inputs: Tensor, kernels: Tensor, biases: Tensor, *layout: Tensor
    ) -> tuple[Tensor, Callable[..., tuple[Tensor | None, ...]]]:
        def gradient(
            *args: Tensor, upstream: Tensor | None = None
        ) -> tuple[Tensor | None, ...]:
            upstream_grad = args[0] if upstream is None else upstream
            grads = _gradients(inputs, kernels, biases, layout, upstream_grad)
            return (*grads, *[None] * len(layout))  # They are integers.

        return _products(inputs, kernels, biases, layout), gradient

    # A loop of unknown length has no gradient of its own, and one that had
    # would keep a copy of a matrix for every block.
    return ops.custom_gradient(affine)(inputs, kernels, biases, *layout)


def _max_blocks(
    num_rows: IntegerLike, block_rows: IntegerLike, num_experts: int
) -> IntegerLike:
    """The most blocks that groups of any sizes fill.

    Rounding up adds less than one block for each group that has rows.
    """
    groups = num_experts
    if isinstance(num_rows, int):
        groups = min(num_rows, num_experts)
    return (num_rows + groups * (block_rows - 1)) // block_rows


def _products(
    inputs: Tensor, kernels: Tensor, biases: Tensor, layout: tuple[Tensor, ...]
) -> Tensor:
    def step(block: Block, products: Tensor) -> Tensor:
        matrix = entry(kernels, block.expert)  # (D, H)
        product = ops.matmul(block.read(inputs), matrix)  # (C, H)
        return block.write(products, product + entry(biases, block.expert))

    products = ops.zeros((ops.shape(inputs)[0], kernels.shape[2]), inputs.dtype)
    return for_blocks(layout, step, products)


def _gradients(
    inputs: Tensor,
    kernels: Tensor,
    biases: Tensor,
    layout: tuple[Tensor, ...],
    upstream_grad: Tensor,
) -> tuple[Tensor, ...]:
    def step(block: Block, grads: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        of_inputs, of_kernels, of_biases = grads
        above = block.read_inside(upstream_grad)  # (C, H)
        matrix = entry(kernels, block.expert)  # (D, H)
        # Zero times a NaN of another group's row would be NaN.
        rows = block.read_inside(inputs)  # (C, D)
        # (C, H) times (H, D), then (D, C) times (C, H).
        of_input = ops.matmul(above, ops.transpose(matrix))
        of_kernel = ops.matmul(ops.transpose(rows), above)
        return (
            block.write(of_inputs, of_input),
            add_to_entry(of_kernels, block.expert, of_kernel),
            add_to_entry(of_biases, block.expert, ops.sum(above, axis=0)),
        )

    zeros = tuple(map(ops.zeros_like, (inputs, kernels, biases)))
    return for_blocks(layout, step, zeros)


class Block:
    """The rows of one block.

    A block that would reach beyond the last row of all starts earlier instead,
    and then holds rows of others.
    """

    def __init__(
        self, blocks: GroupBlocks, offsets: Tensor, index: Tensor
    ) -> None:
        self.index = index
        self.expert = blocks.experts[index]
        self.start = blocks.starts[index]
        self.end = blocks.ends[index]
        self.offsets = offsets

    def read(self, rows: Tensor) -> Tensor:
        first = self._first(ops.shape(rows)[0])
        if keras.backend.backend() == "tensorflow":
            # XLA would compile a slice anew for every other start.
            return ops.take(rows, first + self.offsets, axis=0)  # (C, ...)
        shape = rows.shape[1:]
        size = (ops.shape(self.offsets)[0], *shape)
        return ops.slice(rows, (first, *[0] * len(shape)), size)

    def read_inside(self, rows: Tensor) -> Tensor:
        return self.keep_inside(self.read(rows), ops.shape(rows)[0])

    def keep_inside(self, values: Tensor, num_rows: IntegerLike) -> Tensor:
        """Zeros for the rows of others among `values` `(C, ...)`."""
        return self._choose(num_rows, values, ops.zeros_like(values))

    def write(self, rows: Tensor, values: Tensor) -> Tensor:
        num_rows, *shape = ops.shape(rows)
        values = self._choose(num_rows, values, self.read(rows))
        start = (self._first(num_rows), *[0] * len(shape))
        return ops.slice_update(rows, start, values)

    def _first(self, num_rows: IntegerLike) -> Tensor:
        return ops.minimum(self.start, num_rows - ops.shape(self.offsets)[0])

    def _choose(
        self, num_rows: IntegerLike, inside: Tensor, outside: Tensor
    ) -> Tensor:
        row = self._first(num_rows) + self.offsets
        is_inside = ops.logical_and(row >= self.start, row < self.end)
        # (C,) to (C, 1, ...)
        shape = (-1, *[1] * (len(inside.shape) - 1))
        return ops.where(ops.reshape(is_inside, shape), inside, outside)


def for_blocks(
    layout: tuple[Tensor, ...],
    step: Callable[[Block, Carry], Carry],
    start: Carry,
    expert: int | None = None,
) -> Carry:
    """Goes over the blocks that hold rows, or over those of one expert."""
    *fields, offsets = layout
    blocks = GroupBlocks(*fields)
    first, end = 0, blocks.num_used
    if expert is not None:
        bounds = [*ops.unstack(blocks.firsts), blocks.num_used]
        first, end = bounds[expert : expert + 2]
    return ops.fori_loop(
        first,
        end,
        lambda i, values: step(Block(blocks, offsets, i), values),
        start,
    )


def entry(tensor: Tensor, index: Tensor) -> Tensor:
    """`tensor[index]`."""
    return ops.take(tensor, index, axis=0)


def add_to_entry(tensor: Tensor, index: Tensor, values: Tensor) -> Tensor:
    start = (index, *[0] * len(tensor.shape[1:]))
    total = entry(tensor, index) + values  # `tensor` without its first axis.
    return ops.slice_update(tensor, start, total[None])
