from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_moe.ops.group_blocks import GroupBlocks
from keras_moe.ops.group_blocks import block_size
from keras_moe.ops.group_blocks import group_blocks


def matmul_by_blocks(
    inputs: Any, kernels: Any, biases: Any, group_sizes: Any
) -> Any:
    """Multiplies and adds as `grouped_matmul` does, in one loop over blocks.

    No shape depends on a value, and no block is computed that nothing is in.

    Args:
        inputs: Tensor `(S, D)`, the groups one after the other, `S >= 1`.
        kernels: Tensor `(E, D, H)`, one matrix per group.
        biases: Tensor `(E, H)`.
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.

    Returns:
        Tensor `(S, H)`, zero behind the last group.
    """
    num_rows = ops.shape(inputs)[0]
    block_rows = block_size(num_rows, group_sizes.shape[0])
    layout = (
        *group_blocks(group_sizes, num_rows, block_rows),
        ops.arange(block_rows, dtype="int32"),
    )

    # Nothing but arguments: in a branch JAX loses what a closure holds.
    def affine(
        inputs: Any, kernels: Any, biases: Any, *layout: Any
    ) -> tuple[Any, Any]:
        def gradient(*args: Any, upstream: Any = None) -> tuple[Any, ...]:
            upstream_grad = args[0] if upstream is None else upstream
            grads = _gradients(inputs, kernels, biases, layout, upstream_grad)
            return (*grads, *[None] * len(layout))  # They are integers.

        return _products(inputs, kernels, biases, layout), gradient

    # A loop of unknown length has no gradient of its own, and one that had
    # would keep a copy of a matrix for every block.
    return ops.custom_gradient(affine)(inputs, kernels, biases, *layout)


def _products(inputs: Any, kernels: Any, biases: Any, layout: Any) -> Any:
    def step(block: "_Block", products: Any) -> Any:
        matrix = _entry(kernels, block.expert)
        product = ops.matmul(block.read(inputs), matrix)
        return block.write(products, product + _entry(biases, block.expert))

    products = ops.zeros((ops.shape(inputs)[0], kernels.shape[2]), inputs.dtype)
    return _for_blocks(layout, step, products)


def _gradients(
    inputs: Any, kernels: Any, biases: Any, layout: Any, upstream_grad: Any
) -> Any:
    def step(block: "_Block", grads: Any) -> Any:
        of_inputs, of_kernels, of_biases = grads
        above = block.read_inside(upstream_grad)
        matrix = _entry(kernels, block.expert)
        of_input = ops.matmul(above, ops.transpose(matrix))
        of_kernel = ops.matmul(ops.transpose(block.read(inputs)), above)
        return (
            block.write(of_inputs, of_input),
            _add_to_entry(of_kernels, block.expert, of_kernel),
            _add_to_entry(of_biases, block.expert, ops.sum(above, axis=0)),
        )

    zeros = tuple(map(ops.zeros_like, (inputs, kernels, biases)))
    return _for_blocks(layout, step, zeros)


class _Block:
    """The rows of one block.

    A block that would reach over the last of all rows begins further in front,
    with rows that are not its own.
    """

    def __init__(self, blocks: GroupBlocks, offsets: Any, index: Any) -> None:
        self.expert = blocks.experts[index]
        self.start = blocks.starts[index]
        self.end = blocks.ends[index]
        self.offsets = offsets

    def read(self, rows: Any) -> Any:
        first = self._first(rows)
        if keras.backend.backend() == "tensorflow":
            # XLA would compile a slice anew whenever it begins elsewhere.
            return ops.take(rows, first + self.offsets, axis=0)
        size = (ops.shape(self.offsets)[0], rows.shape[1])
        return ops.slice(rows, (first, 0), size)

    def read_inside(self, rows: Any) -> Any:
        values = self.read(rows)
        return ops.where(self._inside(rows), values, ops.zeros_like(values))

    def write(self, rows: Any, values: Any) -> Any:
        values = ops.where(self._inside(rows), values, self.read(rows))
        return ops.slice_update(rows, (self._first(rows), 0), values)

    def _first(self, rows: Any) -> Any:
        last = ops.shape(rows)[0] - ops.shape(self.offsets)[0]
        return ops.minimum(self.start, last)

    def _inside(self, rows: Any) -> Any:
        row = self._first(rows) + self.offsets
        return ops.logical_and(row >= self.start, row < self.end)[:, None]


def _for_blocks(
    layout: Any, step: Callable[[_Block, Any], Any], start: Any
) -> Any:
    *blocks, offsets = layout
    blocks = GroupBlocks(*blocks)
    return ops.fori_loop(
        0,
        blocks.num_used,
        lambda i, values: step(_Block(blocks, offsets, i), values),
        start,
    )


def _entry(tensor: Any, index: Any) -> Any:
    """`tensor[index]`."""
    return ops.take(tensor, index, axis=0)


def _add_to_entry(tensor: Any, index: Any, values: Any) -> Any:
    start = (index, *[0] * len(tensor.shape[1:]))
    total = _entry(tensor, index) + values
    return ops.slice_update(tensor, start, total[None])
