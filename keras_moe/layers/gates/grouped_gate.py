from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_gate
from keras_moe.layers.gates.wrapper_gate import WrapperGate
from keras_moe.types import Config
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class GroupedGate(WrapperGate):
    """A gate over `m` experts, made from one over `n`.

    Expert `j` weighs as much as its group of the experts of `g`:

        G_j = Σ_{i in group j} g_i.

    Where experts belong to no group, the others share their weight in
    proportion, `G_j Σ_i g_i / Σ_j G_j`; a row that has none of the others
    goes to the group `fallback`. So the weights of a row keep their sum.

    `keras_moe.compress` uses it for experts that were merged, and for gates
    from which single experts cannot be cut.

    Attributes:
        k: That of `gate`, at most `m`.
        static, feature_rank, always_sparse, on_simplex: Those of `gate`.

    Args:
        gate: The gate `g`, for example `COMETGate(num_experts=16, k=2)`.
        groups: `m >= 2` lists of experts of `gate`, none of them empty. An
            expert is in one group or in none.
        fallback: Integer in `[0, m)`, defaults to 0.
        **kwargs: `name`, `trainable`. A `dtype` is accepted and has no
            effect: a gate is float32.

    Call arguments:
        inputs: Inputs of `gate`.
        training: Boolean, passed on to `gate`.
        mask: Boolean tensor `(...)`, false for padding. Defaults to the
            inputs' Keras mask, if any.

    Returns:
        Float32 tensor `(..., m)`, or `(m,)` where `gate` is static.

    Raises:
        TypeError: If `gate` is not a gate, or the groups hold anything but
            integers.
        ValueError: If there are less than two groups, one is empty, an
            expert is in two, there is no such expert or group, or the weight
            of a loss is given, which the gate inside may have.

    Example:
        >>> gate = ConstantGate([0.1, 0.2, 0.3, 0.4])
        >>> weights = GroupedGate(gate, [[0, 3], [1, 2]])(np.ones((1, 5)))
        >>> keras.ops.convert_to_numpy(weights).tolist()
        [0.5, 0.5]

    References:
        Li et al., Merge, Then Compress: Demystify Efficient SMoE with Hints
        from Its Routing Policy, ICLR 2024, section 3: tokens of merged
        experts go to the expert they were merged into.
    """

    _facts = (
        *WrapperGate._facts,
        "always_sparse",
        "always_dense",
        "dense_in_training",
        "held_at_k",
        "sparse_at",
    )

    def __init__(
        self,
        gate: Gate,
        groups: Sequence[Sequence[int]],
        fallback: int = 0,
        **kwargs: Any,
    ) -> None:
        check_gate("gate", gate)
        groups = _check_groups(groups, gate.num_experts)
        m = len(groups)
        k = None if gate.k is None else min(gate.k, m)
        super().__init__(gate, m, k, **kwargs)
        self.fallback = check_integer("fallback", fallback, 0, m - 1)
        self.groups = groups
        self._members = _padded(groups, gate.num_experts)
        self._is_partition = sum(map(len, groups)) == gate.num_experts

    @property
    def experts_per_row(self) -> float | None:
        inner = super().experts_per_row
        return None if inner is None else min(inner, self.num_experts)

    def is_bounded(self, training: bool | None) -> bool:
        return self.gate.is_bounded(training)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        weights = self.gate(inputs, training=training, mask=mask)
        # An expert more, without weight, for what is padded.
        padded = ops.concatenate(
            [weights, ops.zeros_like(weights[..., :1])], axis=-1
        )
        members = ops.take(padded, self._members, axis=-1)  # (..., m, L)
        grouped = ops.sum(members, axis=-1)
        if self._is_partition:
            return grouped
        return self._with_sum(grouped, ops.sum(weights, axis=-1, keepdims=True))

    def _with_sum(self, grouped: Tensor, total: Tensor) -> Tensor:
        """Weights `(..., m)` in these proportions, of the sum `(..., 1)`."""
        kept = ops.sum(grouped, axis=-1, keepdims=True)
        any_kept = kept > 0  # False for NaN: then the total is NaN as well.
        shares = ops.where(
            any_kept,
            grouped / ops.where(any_kept, kept, 1.0),
            ops.one_hot(self.fallback, self.num_experts, dtype="float32"),
        )
        return shares * total

    def compute_selectors(self, inputs: Tensor) -> Tensor | None:
        """Returns the selectors of the gate inside, over its own experts."""
        return self.gate.compute_selectors(inputs)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "groups": self.groups,
            "fallback": self.fallback,
        }


def _check_groups(
    groups: Sequence[Sequence[int]], num_experts: int
) -> list[list[int]]:
    if len(groups) < 2:
        raise ValueError(
            "`groups` must be at least two lists of experts. "
            f"Received: groups={groups!r}"
        )
    checked = [
        [check_integer("groups", i, 0, num_experts - 1) for i in group]
        for group in groups
    ]
    grouped = [expert for group in checked for expert in group]
    if not all(checked) or len(set(grouped)) < len(grouped):
        raise ValueError(
            "`groups` must not be empty, nor share an expert. "
            f"Received: groups={groups!r}"
        )
    return checked


def _padded(groups: Sequence[Sequence[int]], filler: int) -> np.ndarray:
    """The groups as an array `(m, L)` of the longest one's length."""
    longest = max(map(len, groups))
    return np.array(
        [[*group, *[filler] * (longest - len(group))] for group in groups],
        "int32",
    )
