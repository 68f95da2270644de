"""Layers on groups of rows, where no shape may depend on a value.

Each layer has a loop of its own over the blocks of its rows. The backward pass
has the same loops and computes a block's values anew, so that nothing is kept
for it, and what a block adds goes to the gradients of its own layer alone.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple
from typing import TypeAlias

import keras
from keras import ops

from keras_moe.layers.isolated_state import random_states
from keras_moe.layers.isolated_state import run_on_values
from keras_moe.layers.isolated_state import variables_but
from keras_moe.ops._blocks import LAYER_SHARE
from keras_moe.ops._blocks import Block
from keras_moe.ops._blocks import block_layout
from keras_moe.ops._blocks import for_blocks
from keras_moe.ops._pull_back import pull_back
from keras_moe.types import Tensor


class _Arrays(NamedTuple):
    """All tensors that the loops read."""

    rows: Tensor  # (S, ...)
    weights: Sequence[Sequence[Tensor]]  # Of each layer.
    starts: Sequence[Sequence[Tensor]]  # The random states of each layer.
    layout: tuple[Tensor, ...]


# What goes from block to block: one tensor of all rows, and those of a layer.
_Carry: TypeAlias = tuple[Tensor, list[Tensor]]


class _LayerCall:
    """A layer as a function of its weights and random states."""

    def __init__(
        self, layer: keras.layers.Layer, training: bool | None
    ) -> None:
        self.layer = layer
        self.training = training
        self.states = random_states(layer)
        self.weights = variables_but(self.states, layer)

    def __call__(
        self,
        block: Block,
        starts: Sequence[Tensor],
        rows: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the outputs `(C, ...)`, and how much each state drew."""
        # A random state is (seed, counter): each block has its own seed.
        offset = ops.stack([block.index, 0 * block.index])  # (2,)
        starts = [start + ops.cast(offset, start.dtype) for start in starts]
        outputs, ends = run_on_values(
            lambda: self.layer(rows, training=self.training),
            self.weights,
            weights,
            self.states,
            starts,
        )
        return outputs, [e - s for e, s in zip(ends, starts, strict=True)]


def layers_on_blocks(
    layers: Sequence[keras.layers.Layer],
    rows: Tensor,
    group_sizes: Tensor,
    training: bool | None,
) -> Tensor:
    """Calls each layer on the rows of its group, a block at a time.

    Args:
        layers: `E` built layers with outputs of one shape, which treat each
            row on its own.
        rows: Tensor `(S, ...)`, the groups one after the other, `S >= 1`.
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.
        training: Boolean, passed on to the layers.

    Returns:
        Tensor `(S, ...)`, zero behind the last group.
    """
    calls = [_LayerCall(layer, training) for layer in layers]
    arrays = _Arrays(
        rows,
        [[weight.value for weight in call.weights] for call in calls],
        [[state.value for state in call.states] for call in calls],
        block_layout(group_sizes, ops.shape(rows)[0], LAYER_SHARE),
    )

    # Everything is an argument: in a branch JAX loses what a closure holds.
    def run(
        *args: Tensor,
    ) -> tuple[tuple[Tensor, ...], Callable[..., list[Tensor | None]]]:
        arrays_ = keras.tree.pack_sequence_as(arrays, list(args))

        def gradient(*upstream_grads: object) -> list[Tensor | None]:
            # Of the outputs and of all draws; JAX passes one tuple of them.
            return _gradients(
                calls, arrays_, keras.tree.flatten(upstream_grads)[0]
            )

        return tuple(_outputs(calls, arrays_)), gradient

    outputs, *draws = ops.custom_gradient(run)(*keras.tree.flatten(arrays))
    states = [state for call in calls for state in call.states]
    for state, drawn in zip(states, draws, strict=True):
        state.assign(state.value + drawn)
    return outputs


def _outputs(calls: Sequence[_LayerCall], arrays: _Arrays) -> list[Tensor]:
    """The outputs, and how much each random state drew."""
    rows = arrays.rows
    spec = calls[0].layer.compute_output_spec(
        keras.KerasTensor(rows.shape, dtype=rows.dtype)
    )
    outputs = ops.zeros((ops.shape(rows)[0], *spec.shape[1:]), spec.dtype)
    all_draws = []
    for expert, call in enumerate(calls):
        outputs, draws = _run_layer(call, expert, arrays, outputs)
        all_draws += draws
    return [outputs, *all_draws]


def _run_layer(
    call: _LayerCall, expert: int, arrays: _Arrays, outputs: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """`outputs`, with those of one layer, and what a block drew at most."""
    weights, starts = arrays.weights[expert], arrays.starts[expert]

    def step(block: Block, carry: _Carry) -> _Carry:
        outputs, most = carry
        values, draws = call(block, starts, block.read(arrays.rows), *weights)
        return block.write(outputs, values), list(map(ops.maximum, most, draws))

    nothing = list(map(ops.zeros_like, starts))
    return for_blocks(arrays.layout, step, (outputs, nothing), expert)


def _gradients(
    calls: Sequence[_LayerCall], arrays: _Arrays, upstream_grad: Tensor
) -> list[Tensor | None]:
    of_rows = ops.zeros_like(arrays.rows)
    of_all_weights = []
    for expert, call in enumerate(calls):
        of_rows, of_weights = _add_gradients(
            call, expert, arrays, upstream_grad, of_rows
        )
        of_all_weights += of_weights
    integers = keras.tree.flatten((arrays.starts, arrays.layout))
    return [of_rows, *of_all_weights, *[None] * len(integers)]


def _add_gradients(
    call: _LayerCall,
    expert: int,
    arrays: _Arrays,
    upstream_grad: Tensor,
    of_rows: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    """`of_rows`, with those of one layer's rows, and its weights' gradients."""
    weights, starts = arrays.weights[expert], arrays.starts[expert]

    def step(block: Block, grads: _Carry) -> _Carry:
        of_rows, of_weights = grads
        of_block, *of_values = pull_back(
            lambda *args: call(block, starts, *args)[0],
            [block.read(arrays.rows), *weights],
            block.read_inside(upstream_grad),
        )
        of_weights = list(map(ops.add, of_weights, of_values))
        return block.write(of_rows, of_block), of_weights

    zeros = list(map(ops.zeros_like, weights))
    return for_blocks(arrays.layout, step, (of_rows, zeros), expert)
