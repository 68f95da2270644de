"""Perceptrons on (row, expert) pairs, in one loop over blocks, on JAX.

Gathering, bias, activation, dropout, weighing and adding up are done with one
block of rows at a time, while it is in the cache. Between the forward and the
backward pass only the layers' values before the activation are kept: nothing
else in memory is as large as all pairs. That counts twice on CPUs, where memory
beyond 32 MiB that XLA asks for in a step is faulted in anew by each step.
"""

from collections.abc import Sequence
from typing import NamedTuple
from typing import TypeAlias

import jax
from keras import ops

from keras_moe.ops._blocks import MATMUL_SHARE
from keras_moe.ops._blocks import Block
from keras_moe.ops._blocks import add_to_entry
from keras_moe.ops._blocks import block_layout
from keras_moe.ops._blocks import entry
from keras_moe.ops._blocks import for_blocks
from keras_moe.ops._pairs import Pairs
from keras_moe.ops._rows import gather
from keras_moe.types import Activation
from keras_moe.types import Tensor


class Perceptrons(NamedTuple):
    """The computation of the experts, without their weights.

    Attributes:
        activations: For each layer, a function of a tensor `(..., units)`
            that has neither weights nor states.
        dropout: Float, the share of each layer's outputs that is dropped
            where `kept` is given.
    """

    activations: tuple[Activation, ...]
    dropout: float


class _Arrays(NamedTuple):
    """All tensors that the loops read."""

    inputs: jax.Array  # (N, D)
    kernels: Sequence[jax.Array]  # (E, D, H) each.
    biases: Sequence[jax.Array]  # (E, H) each.
    weights: jax.Array | None  # (S,), or None.
    kept: Sequence[jax.Array | None]  # Boolean (S, H) each, or None.
    rows: jax.Array  # (S,)
    layout: tuple[jax.Array, ...]


# The outputs, and the values of each layer before the activation.
_Forward: TypeAlias = tuple[jax.Array, tuple[jax.Array, ...]]

# The gradients of inputs, kernels, biases and weights, if there are any.
_Grads: TypeAlias = tuple[
    jax.Array,
    Sequence[jax.Array],
    Sequence[jax.Array],
    jax.Array | None,
]


def perceptrons_on_pairs(
    perceptrons: Perceptrons,
    inputs: Tensor,
    kernels: Sequence[Tensor],
    biases: Sequence[Tensor],
    kept: Sequence[Tensor | None],
    pairs: Pairs,
    group_sizes: Tensor,
) -> Tensor:
    """Computes each pair's expert on its row.

    Args:
        perceptrons: The computation of the experts.
        inputs: Tensor `(N, D)`.
        kernels: A tensor `(E, D, H)` per layer.
        biases: A tensor `(E, H)` per layer.
        kept: Per layer a boolean tensor `(S, H)`, what dropout keeps, or
            `None` for all.
        pairs: The row of each pair, and its weight if they are to be added up.
        group_sizes: Int32 `(E,)`, how many pairs each expert has, with a sum
            of at most `S`.

    Returns:
        Float32 tensor `(N, H)`, the outputs of each row's pairs, weighted and
        added up; without weights, the pairs' outputs `(S, H)`, zero behind the
        last group.
    """
    arrays = _Arrays(
        inputs,
        tuple(kernels),
        tuple(biases),
        pairs.weights,
        tuple(kept),
        pairs.rows,
        block_layout(group_sizes, pairs.rows.shape[0], MATMUL_SHARE),
    )
    return _run(perceptrons, arrays)


def _no_gradient(perceptrons: Perceptrons, arrays: _Arrays) -> Tensor:
    return _forward(perceptrons, arrays, keep_values=False)[0]


_run = jax.custom_vjp(_no_gradient, nondiff_argnums=(0,))


def _forward(
    perceptrons: Perceptrons, arrays: _Arrays, keep_values: bool = True
) -> tuple[Tensor, tuple[_Arrays, Sequence[Tensor]]]:
    """The outputs, and the values of all layers before the activation."""
    num_pairs = arrays.rows.shape[0]

    def step(block: Block, carry: _Forward) -> _Forward:
        outputs, kept_values = carry
        rows = block.read(arrays.rows)  # (C,)
        hidden = gather(arrays.inputs, rows)  # (C, D)
        values = []
        for layer in range(len(arrays.kernels)):
            kernel = entry(arrays.kernels[layer], block.expert)  # (D, H)
            bias = entry(arrays.biases[layer], block.expert)  # (H,)
            values.append(ops.matmul(hidden, kernel) + bias)
            hidden = _activate(perceptrons, arrays, block, layer, values[-1])
        if keep_values:
            kept_values = tuple(map(block.write, kept_values, values))
        if arrays.weights is None:
            return block.write(outputs, hidden), kept_values
        weights = block.read(arrays.weights)[:, None]  # (C, 1)
        hidden = ops.cast(hidden, outputs.dtype) * weights
        hidden = block.keep_inside(hidden, num_pairs)
        return _add_to_rows(outputs, rows, hidden), kept_values

    dtype, units = arrays.inputs.dtype, arrays.kernels[-1].shape[2]
    outputs = ops.zeros((num_pairs, units), dtype)
    if arrays.weights is not None:
        outputs = ops.zeros((arrays.inputs.shape[0], units), "float32")
    values = tuple(
        ops.zeros((num_pairs, kernel.shape[2]), dtype)
        for kernel in arrays.kernels
        if keep_values
    )
    outputs, values = for_blocks(arrays.layout, step, (outputs, values))
    return outputs, (arrays, values)


def _backward(
    perceptrons: Perceptrons,
    residuals: tuple[_Arrays, Sequence[Tensor]],
    upstream_grad: Tensor,
) -> tuple[_Arrays]:
    arrays, kept_values = residuals
    num_pairs = arrays.rows.shape[0]

    def step(block: Block, grads: _Grads) -> _Grads:
        of_inputs, of_kernels, of_biases, of_weights = grads
        of_kernels, of_biases = list(of_kernels), list(of_biases)
        rows = block.read(arrays.rows)  # (C,)
        values = [block.read(value) for value in kept_values]
        if arrays.weights is None or of_weights is None:
            above = block.read_inside(upstream_grad)  # (C, H)
        else:
            above = block.keep_inside(gather(upstream_grad, rows), num_pairs)
            last = len(values) - 1
            output = _activate(perceptrons, arrays, block, last, values[last])
            products = above * ops.cast(output, above.dtype)
            of_weights = block.write(of_weights, ops.sum(products, axis=1))
            above = above * block.read(arrays.weights)[:, None]
            above = ops.cast(above, output.dtype)
        for layer in reversed(range(len(values))):
            _, pull_back = jax.vjp(
                lambda value, layer=layer: _activate(
                    perceptrons, arrays, block, layer, value
                ),
                values[layer],
            )
            (above,) = pull_back(above)
            # Rows of others may hold NaN, which no zero from above hides.
            above = block.keep_inside(above, num_pairs)
            if layer:
                below = _activate(
                    perceptrons, arrays, block, layer - 1, values[layer - 1]
                )
            else:
                below = gather(arrays.inputs, rows)
            below = block.keep_inside(below, num_pairs)  # (C, D)
            expert = block.expert
            of_kernels[layer] = add_to_entry(
                of_kernels[layer],
                expert,
                ops.matmul(ops.transpose(below), above),
            )
            of_biases[layer] = add_to_entry(
                of_biases[layer], expert, ops.sum(above, axis=0)
            )
            kernel = entry(arrays.kernels[layer], expert)  # (D, H)
            above = ops.matmul(above, ops.transpose(kernel))  # (C, D)
        above = block.keep_inside(above, num_pairs)
        of_inputs = _add_to_rows(of_inputs, rows, above)
        return of_inputs, tuple(of_kernels), tuple(of_biases), of_weights

    grads = jax.tree.map(
        ops.zeros_like,
        (arrays.inputs, arrays.kernels, arrays.biases, arrays.weights),
    )
    grads = for_blocks(arrays.layout, step, grads)
    integers = [jax.tree.map(lambda _: None, array) for array in arrays[4:]]
    return (_Arrays(*grads, *integers),)


_run.defvjp(_forward, _backward)


def _activate(
    perceptrons: Perceptrons,
    arrays: _Arrays,
    block: Block,
    layer: int,
    values: Tensor,
) -> Tensor:
    """Finishes a layer after its matmul, for the values `(C, H)` of a block."""
    outputs = perceptrons.activations[layer](values)
    kept = arrays.kept[layer]
    if kept is None:
        return outputs
    scaled = outputs / (1.0 - perceptrons.dropout)
    return ops.where(block.read(kept), scaled, ops.zeros_like(scaled))


def _add_to_rows(sums: jax.Array, rows: Tensor, values: Tensor) -> jax.Array:
    return sums.at[rows].add(values, mode="promise_in_bounds")
