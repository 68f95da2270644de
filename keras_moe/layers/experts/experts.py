from collections.abc import Sequence
from math import prod
from typing import Any

import keras

from keras_moe.checks import check_size
from keras_moe.distribution.expert_parallel import stacked_weights
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.types import Shape


class Experts(CheckedLayer):
    """Base class of the banks of experts, which know nothing of the gate.

    A subclass computes all experts on all rows, and groups of rows, each by
    one expert. An expert must treat each row on its own: then both agree.

    Attributes:
        feature_rank: How many axes one row of the inputs has, or `None`
            (default) where any number will do.
        stacked: Whether the first dimension of every weight counts the
            experts, and `call` computes as many experts as the weights have
            when it is called: then devices may have some of them each.
            Defaults to `False`.

    Args:
        num_experts: Integer `n >= 1`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`; with `group_sizes`, the rows
            `(S, *features)` of the groups, one group after the other.
        group_sizes: Int32 `(n,)`, how many rows each expert computes, with a
            sum of at most `S`; the outputs of the rows behind must be finite
            and do not matter otherwise. `None` computes all experts on all
            rows.
        training: Boolean, for dropout and the like.

    Returns:
        Tensor `(..., n, *outputs)`; with `group_sizes`, `(S, *outputs)`.
    """

    feature_rank: int | None = None
    stacked = False

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return {"inputs": 1, "group_sizes": 1}

    # Which of the banks of its mixture and seed it is; `None` for one that
    # stands alone.
    _place: int | None = None

    # Whether devices that split experts all have these, since all rows need
    # them.
    _on_every_device = False

    def __init__(self, num_experts: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.num_experts = check_size("num_experts", num_experts)
        self.seed: int | None = None

    def add_weight(self, *args: object, **kwargs: object) -> keras.Variable:
        with stacked_weights(self.stacked and not self._on_every_device):
            return super().add_weight(*args, **kwargs)

    @property
    def sparse_unsupported_reason(self) -> str | None:
        """Why these experts cannot be computed in groups, or `None`."""
        return None

    @property
    def _described_count(self) -> str:
        """The number of experts, as messages about gates have it."""
        return f"num_experts={self.num_experts}"

    @property
    def row_cost(self) -> int | None:
        """Multiply-adds of one expert on one row; `None`: not known.

        What `execution="auto"` weighs the cost of sparse execution against.
        """
        return None

    def _values_of_layers(self, input_shape: Shape) -> int:
        """Values of one expert's layers for one row, which its gradient needs.

        Those of its output, where no more is known.
        """
        shape: Sequence[Any] = self.expert_output_shape(input_shape)
        return int(prod(shape[1:]))

    @property
    def _takes_pairs(self) -> bool:
        """True if `call` accepts `pairs`, `keras_moe.ops._pairs.Pairs`.

        Its inputs are then the rows `(N, *features)` of the pairs, and with
        weights it returns the sums for these rows: faster than gathering
        before the call and adding up after it.
        """
        return False

    def subset(self, indices: Sequence[int]) -> "Experts":
        """Returns a bank of some of these experts, with their weights.

        Args:
            indices: The experts to keep, in the order of the new bank. The
                bank must be built.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `subset`."
        )

    def expert_output_shape(self, input_shape: Shape) -> Shape:
        """The shape of one expert's output for inputs `input_shape`."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `expert_output_shape`."
        )
