from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import keras
from keras import ops

from keras_moe.checks import check_choice
from keras_moe.checks import check_integer
from keras_moe.checks import check_positive
from keras_moe.distribution.devices import map_over_devices
from keras_moe.distribution.devices import sum_over_devices
from keras_moe.layers.gates.logit_gate import LogitGate
from keras_moe.layers.gates.running_mean import add_running_mean
from keras_moe.layers.gates.running_mean import share_kept
from keras_moe.ops._zero_but_nan import zero_but_nan
from keras_moe.ops.assignment import capped_assignment
from keras_moe.ops.assignment import integral_assignment
from keras_moe.ops.masked_softmax import FLOAT32_MIN
from keras_moe.ops.top_k import keep_largest
from keras_moe.ops.top_k import top_rows_mask
from keras_moe.types import Config
from keras_moe.types import IntegerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# Tensors of all rows, and tensors that are the same everywhere.
ByRow = TypeVar("ByRow")
Same = TypeVar("Same")

# How much of the running cut-offs an update keeps; the first ones keep less,
# so that the mean is a true one from the start.
MOMENTUM = 0.99


@keras.saving.register_keras_serializable(package="keras_moe")
class ExpertChoiceGate(LogitGate):
    """Lets every expert choose its examples, the same number each.

    With the scores `S = softmax(xA + c)` of `N` examples (all leading
    dimensions together), each expert takes the

        capacity = clip(round(capacity_factor · N / n), 1, N)

    examples that score highest with it, ties going to the earlier one. The
    weight is then `S`, not renormalized; other weights are 0. So all experts
    have the same load, while an example may have any number of experts, or
    none: put a residual connection around the mixture.

    With `max_experts_per_token`, no example has more experts than that, and
    the capacity is at most `max_experts_per_token · N // n`. Who goes where
    is then the solution of a linear program with an entropy, maximal `S` over
    both limits (see `keras_moe.ops.capped_assignment`), brought to whole
    choices that keep both, where the paper takes each expert's largest. It
    may take longer than the experts where the caps bind hard.

    While training, and with `inference="batch"`, an example's weights depend
    on the other examples of its batch. For predictions that do not, the gate
    keeps a running mean of the lowest score that each expert took, while it
    trains; inference then gives an expert to every example that reaches it.

    Attributes:
        kernel: `A`, `(p, n)`.
        bias: `c`, `(n,)`, or `None` with `use_bias=False`, as in the paper.
        cutoffs: `(n,)`, the running means, `1/n` before any training.
        num_updates: Scalar integer, the batches that `cutoffs` has seen.
        k: `max_experts_per_token`.

    Args:
        num_experts: Integer `n >= 2`, the number of experts.
        capacity_factor: Number `> 0`, defaults to 2. How many experts an
            example has on average.
        max_experts_per_token: Optional integer in `[1, n]`, not below
            `capacity_factor`: how many experts an example has at most.
            Defaults to `None`, no bound.
        inference: `"threshold"` (default) or `"batch"`, the rule that is
            followed when not training.
        synchronized: Boolean. Under `keras.distribution`, whether each expert
            chooses among the rows of all devices (default): what one device
            computes, for which each device gathers all scores. With `False`
            it chooses among each device's rows on their own, `N` being their
            number; nothing is sent, and all devices have the same load.
        **kwargs: `use_bias`; `kernel_initializer`, `"glorot_uniform"` by
            default; `bias_initializer`, `"zeros"` by default;
            `kernel_regularizer`; `bias_regularizer`; `importance_loss_weight`,
            `load_loss_weight`, `load_balance_loss_weight` and `z_loss_weight`
            of the auxiliary losses, which take `S` for the weights; `seed`,
            `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., p)`.
        training: Boolean. Cut-offs are kept, and losses added, only when
            true.
        mask: Boolean tensor `(...)`, false for padding, which takes no
            expert's capacity. Defaults to the inputs' Keras mask, if any.
            An example with NaN takes none either; its weights are NaN.

    Returns:
        Float32 tensor `(..., n)`, not negative, with a sum of at most 1.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `num_experts` is outside `[2, 2^31)`,
            `capacity_factor <= 0`, `max_experts_per_token` is outside
            `[1, num_experts]` or below `capacity_factor`, or `inference` is
            unknown.

    Example:
        >>> gate = ExpertChoiceGate(num_experts=3, capacity_factor=1.0)
        >>> weights = gate(np.random.normal(size=(12, 5)), training=True)
        >>> keras.ops.convert_to_numpy(weights != 0).sum(axis=0)
        array([4, 4, 4])

    References:
        Zhou et al., Mixture-of-Experts with Expert Choice Routing, NeurIPS
        2022, sections 3.2 and 3.3.
    """

    balance_loss = None
    separable = False  # The cut-offs are of a softmax over all experts.

    def __init__(
        self,
        num_experts: int,
        capacity_factor: float = 2.0,
        max_experts_per_token: int | None = None,
        inference: str = "threshold",
        synchronized: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_experts, static=False, **kwargs)
        if max_experts_per_token is not None:
            self.k = check_integer(
                "max_experts_per_token", max_experts_per_token, 1, num_experts
            )
        self.capacity_factor = check_positive(
            "capacity_factor", capacity_factor
        )
        if self.k is not None and self.k < capacity_factor:
            raise ValueError(
                "`max_experts_per_token` must not be below `capacity_factor`, "
                "or the experts' capacity could not be used. Received: "
                f"max_experts_per_token={max_experts_per_token}, "
                f"capacity_factor={capacity_factor}"
            )
        self.inference = check_choice(
            "inference", inference, ("threshold", "batch")
        )
        if not isinstance(synchronized, bool):
            raise TypeError(
                "`synchronized` must be a boolean. "
                f"Received: synchronized={synchronized!r}"
            )
        self.synchronized = synchronized

    @classmethod
    def first_options(cls, k: int) -> Config:
        """Returns the capacity of `k` experts per example on average.

        References:
            Ibrahim et al., MOESART, section 3: of a batch `B`, each expert
            takes `k' = |B| k / n` examples.
        """
        return {"capacity_factor": float(k)}

    @property
    def experts_per_row(self) -> float:
        return min(self.capacity_factor, self.num_experts)

    def max_pairs(self, num_rows: IntegerLike) -> IntegerLike:
        return self.num_experts * self._capacity(num_rows)

    def is_bounded(self, training: bool | None) -> bool:
        return bool(training) or self.inference == "batch"

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        add_running_mean(self, "cutoffs", self.num_experts)

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        logits = self.compute_logits(inputs)
        scores = ops.softmax(logits, axis=-1)
        self.add_router_losses(scores, logits, training, mask)
        if not training and self.inference == "threshold":
            return self._above_cutoffs(scores)
        rows = ops.reshape(scores, (-1, self.num_experts))  # (N, n)
        # Nobody chooses a row without a score, nor does it take capacity.
        valid = ops.logical_not(ops.any(ops.isnan(rows), axis=1))
        if mask is not None:
            mask = ops.cast(ops.reshape(mask, (-1,)), "bool")  # (N,)
            valid = ops.logical_and(valid, mask)
        chosen, _ = self._map(
            lambda x, *_: (self._choose(*x), ()), [rows, valid]
        )
        if training:
            self._update_cutoffs(rows, chosen)
        chosen = ops.reshape(chosen, ops.shape(scores))  # (..., n)
        return ops.where(chosen, scores, zero_but_nan(scores))

    def _above_cutoffs(self, scores: Tensor) -> Tensor:
        weights = ops.where(
            scores >= self.cutoffs, scores, zero_but_nan(scores)
        )
        return weights if self.k is None else keep_largest(weights, self.k)

    def _map(
        self,
        function: Callable[..., tuple[ByRow, Same]],
        rows: Sequence[Tensor],
    ) -> tuple[ByRow, Same]:
        """Calls a function on all rows, or on each device's on their own."""
        if self.synchronized:
            return function(rows, ())
        return map_over_devices(function, [*map(ops.stop_gradient, rows)])

    def _choose(self, scores: Tensor, valid: Tensor) -> Tensor:
        """Returns a boolean tensor `(N, n)`, the experts' choices."""
        capacity = self._capacity_of(valid)
        valid = valid[:, None]
        scores = ops.where(valid, scores, FLOAT32_MIN)
        if self.k is None:
            return top_rows_mask(scores, capacity)
        choice = capped_assignment(scores, capacity, self.k)
        choice = ops.where(valid, choice, FLOAT32_MIN)
        return integral_assignment(choice, capacity, self.k)

    def _capacity_of(self, valid: Tensor) -> Tensor:
        """The capacity for the rows `(N,)` that are valid.

        Never more than that of all rows, which `max_pairs` counts on, however
        the tensor's float32 is rounded.
        """
        num_rows = ops.shape(valid)[0]
        num_valid = ops.sum(ops.cast(valid, "int32"))
        largest = self._capacity(num_rows)
        capacity = ops.minimum(self._capacity(num_valid), largest)
        return ops.where(num_valid == num_rows, largest, capacity)

    def _capacity(self, num_rows: IntegerLike) -> IntegerLike:
        """Returns the rows per expert: at least 1, even for no rows."""
        n = self.num_experts
        share = self.capacity_factor / n
        largest = num_rows if self.k is None else self.k * num_rows // n
        if isinstance(num_rows, int):
            assert isinstance(largest, int)
            return max(1, min(round(share * num_rows), largest))
        capacity = ops.round(share * ops.cast(num_rows, "float32"))
        capacity = ops.cast(capacity, num_rows.dtype)
        return ops.maximum(1, ops.minimum(capacity, largest))

    def _update_cutoffs(self, scores: Tensor, chosen: Tensor) -> None:
        _, (total, count) = self._map(
            lambda x, *_: ((), _lowest_chosen(*x)), [scores, chosen]
        )
        # An expert that chose no example keeps its cut-off.
        lowest = ops.where(
            count > 0,
            total / ops.maximum(count, 1.0),
            ops.convert_to_tensor(self.cutoffs),
        )
        kept = share_kept(self.num_updates, MOMENTUM)
        updated = kept * self.cutoffs + (1 - kept) * lowest
        self.cutoffs.assign(ops.stop_gradient(updated))
        any_chosen = ops.cast(ops.any(count > 0), self.num_updates.dtype)
        self.num_updates.assign_add(any_chosen)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "capacity_factor": self.capacity_factor,
            "max_experts_per_token": self.k,
            "inference": self.inference,
            "synchronized": self.synchronized,
        }


def _lowest_chosen(scores: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest score each expert chose, `(n,)`, added up over the devices.

    And how many of them it chose an example on.
    """
    any_chosen = ops.any(chosen, axis=0)
    lowest = ops.min(ops.where(chosen, scores, 1.0), axis=0, initial=1.0)
    return (
        sum_over_devices(ops.where(any_chosen, lowest, 0.0)),
        sum_over_devices(ops.cast(any_chosen, "float32")),
    )
