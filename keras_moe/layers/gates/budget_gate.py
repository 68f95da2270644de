from collections.abc import Sequence
from math import ceil
from math import log
from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_positive
from keras_moe.checks import check_tensor
from keras_moe.layers.gates.budget_quantiles import budget_quantiles
from keras_moe.layers.gates.budget_quantiles import sample_rows
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_gate
from keras_moe.layers.gates.running_mean import add_running_mean
from keras_moe.layers.gates.running_mean import share_kept
from keras_moe.layers.gates.wrapper_gate import WrapperGate
from keras_moe.ops._zero_but_nan import zero_but_nan
from keras_moe.ops.top_k import top_k_mask
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor

# The thresholds are kept for budgets this far apart, and interpolated between
# them.
STEPS_PER_EXPERT = 4

# How much of the running thresholds an update keeps. 20 batches are enough rows
# for a quantile, and few enough to follow weights that training sharpens.
MOMENTUM = 0.95


@keras.saving.register_keras_serializable(package="keras_moe")
class BudgetGate(WrapperGate):
    """Any gate, cut to as many experts as a call allows.

    Of the weights `g(x)` of the gate inside, each example keeps its largest,
    and with `k` all those whose share `g_i(x) / sum_j g_j(x)` reaches a
    threshold that is the same for all examples: a hard example has more
    experts than an easy one. What is kept is rescaled to the sum of `g(x)`.

    `budget` is the number of experts that examples have on average, and may
    differ from call to call: one trained model serves them all. While it
    trains, the gate keeps the threshold of each budget from 1 to `n`, in steps
    of a quarter: a running mean of the batches' quantiles, over a sample of
    examples where a batch has more than 8,192 weights. At inference each
    example is compared with the kept threshold alone, so that a batch has
    about `budget` experts per example if it resembles the training data, and
    an example's output does not depend on its batch.

    In training each example draws a budget of its own, uniform in its
    logarithm, within `train_budgets`. The gate then learns to rank experts,
    and the experts to work in sets of any size; a batch always holds about as
    many pairs, `(b - a) / log(b / a)` per example for budgets from `a` to `b`.
    An example with one expert passes no gradient to the gate where the sum of
    `g(x)` is constant: those with more do.

    With `mass` instead of `k`, an example keeps the smallest set of experts
    with at least that share of the sum (top-p). The gate then has no budget,
    and plans no sparse execution.

    `execution="auto"` plans for the budget of a call, and a quarter more, see
    `pair_budget`; a batch above that is exact as well. A tensor for a budget
    has no value that could be planned with: the plan is that of the largest
    budget trained for, or of half of the experts over all tasks, above which
    little can be saved.

    Attributes:
        thresholds: `(4 n - 3,)`, the share that an expert needs with a budget
            of 1, 1.25, ..., n. Weights that are not trained; only with `k`.
        num_updates: Scalar integer, how many batches they have seen.
        target: `k`, the budget of calls that name none, or `None`.
        takes_budget: Whether `budget` may be given: with `k`, not with `mass`.
        feature_rank, on_simplex: Those of the gate inside.

    Args:
        gate: The gate `g`, whose weights are not negative, for example
            `SoftmaxGate(num_experts=16)`. With fewer nonzero weights than a
            budget, examples have these.
        k: Number in `[1, n]`, the experts per example on average of calls
            without a budget. Either `k` or `mass` must be given.
        mass: Number in `(0, 1]`.
        train_budgets: Two numbers in `[1, n]`, the smallest and the largest
            budget that examples draw in training. Defaults to 1 and `n`, or
            as many experts as the gate inside gives weight by its own `k`.
            Fewer cost less where there are many experts, and larger budgets
            some of their accuracy. `(k, k)` trains for one budget.
        **kwargs: `name`, `trainable`. A `dtype` is accepted and has no
            effect: a gate is float32.

    Call arguments:
        inputs: Inputs of `gate`.
        training: Boolean. Budgets are drawn, thresholds kept and losses added
            only when true.
        mask: Boolean tensor `(...)`, false for padding. Defaults to the
            inputs' Keras mask, if any.
        budget: Number in `[1, n]`; or a tensor, a scalar or one per example,
            `(...)` or its first axes. A graph refuses no value of a tensor:
            they are clipped to that range, and NaN counts as `k`. Defaults to
            `k`; in training, to the budgets drawn.

    Returns:
        Float32 tensor `(..., n)`, with the sum of `g(x)`.

    Raises:
        TypeError: If `gate` is not a gate, or an argument is not a number.
        ValueError: If the gate inside is static, neither or both of `k` and
            `mass` are given, one of them or `train_budgets` is out of range,
            the weight of a loss is given, which the gate inside may have, or
            a call has a `budget` that is out of range, or any with `mass`.

    Example:
        >>> gate = BudgetGate(SoftmaxGate(num_experts=16), k=2)
        >>> x = np.random.normal(size=(512, 8)).astype("float32")
        >>> _ = gate(x, training=True)
        >>> def experts(budget):
        ...     weights = keras.ops.convert_to_numpy(gate(x, budget=budget))
        ...     return round(float(np.mean(weights != 0)) * 16, 1)
        >>> experts(None), experts(1), experts(8)
        (2.0, 1.0, 8.0)

    References:
        Huang et al., Harder Tasks Need More Experts: Dynamic Routing in MoE
        Models, ACL 2024, section 3.2: the smallest set of a mass. The
        threshold is kept as `ExpertChoiceGate` keeps its cut-offs.
    """

    held_at_k = True
    takes_budget = True

    def __init__(
        self,
        gate: Gate,
        k: float | None = None,
        mass: float | None = None,
        train_budgets: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        check_gate("gate", gate)
        if gate.static:
            raise ValueError(
                "`gate` must not be static: all examples would have the same "
                f"experts. Received: gate={gate!r}"
            )
        super().__init__(gate, **kwargs)
        if (k is None) == (mass is None):
            raise ValueError(
                "Either `k` or `mass` must be given. "
                f"Received: k={k!r}, mass={mass!r}"
            )
        self.target = None if k is None else self._check_budget("k", k)
        self.mass = None if mass is None else _check_mass(mass)
        self.train_budgets = self._check_range(train_budgets)
        self.takes_budget = mass is None
        self.held_at_k = mass is None
        self._seed_generator = keras.random.SeedGenerator(gate.seed)

    def _check_budget(self, name: str, value: object) -> float:
        number = check_positive(name, value)
        if not 1 <= number <= self.num_experts:
            raise ValueError(
                f"`{name}` must be between 1 and {self.num_experts}, the "
                f"number of experts. Received: {name}={value!r}"
            )
        return number

    def _check_range(
        self, budgets: Sequence[float] | None
    ) -> tuple[float, float] | None:
        if budgets is None:
            if self.target is None:
                return None
            # What is kept at `k` on average has more in some examples.
            bound = None if self.gate.held_at_k else self.gate.k
            return 1.0, max(self.target, float(bound or self.num_experts))
        if self.target is None:
            raise ValueError(
                "`train_budgets` must be None with `mass`, which leaves no "
                f"budget. Received: train_budgets={budgets!r}"
            )
        if not isinstance(budgets, (list, tuple)) or len(budgets) != 2:
            raise ValueError(
                "`train_budgets` must be two numbers, the smallest and the "
                f"largest. Received: train_budgets={budgets!r}"
            )
        low, high = (self._check_budget("train_budgets", b) for b in budgets)
        if low > high:
            raise ValueError(
                "`train_budgets` must begin with the smaller number. "
                f"Received: train_budgets={budgets!r}"
            )
        return low, high

    @property
    def experts_per_row(self) -> float | None:
        return self.target

    def max_pairs(self, num_rows: IntegerLike) -> IntegerLike:
        return pairs_of(num_rows, self.target or self.num_experts)

    def planned_experts(
        self,
        budget: FloatLike | None,
        training: bool | None,
        num_gates: int = 1,
    ) -> float | None:
        if self.train_budgets is None:
            return None
        if isinstance(budget, (int, float)):
            return float(budget)
        low, high = self.train_budgets
        if budget is not None:
            half = self.num_experts / (2 * num_gates)
            return max(min(high, half), self.target or 1)
        if not training:
            return self.target
        return low if low == high else (high - low) / log(high / low)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.mass is None:
            size = STEPS_PER_EXPERT * (self.num_experts - 1) + 1
            add_running_mean(self, "thresholds", size)

    def call(
        self,
        inputs: Tensor,
        training: bool | None = None,
        mask: Tensor | None = None,
        budget: FloatLike | None = None,
        inputs_mask: Tensor | None = None,
    ) -> Tensor:
        # Keras names a mask after its argument where there are several.
        mask = inputs_mask if mask is None else mask
        leading = self._leading(inputs.shape)
        budget = self._checked_call(budget, leading)
        weights = self.gate(inputs, training=training, mask=mask)
        total = ops.sum(weights, axis=-1, keepdims=True)
        shares = ops.stop_gradient(_shares(weights))
        largest = top_k_mask(shares, 1)
        if self.mass is not None:
            kept = ops.logical_or(largest, _within_mass(shares, self.mass))
            return _rescaled(weights, kept, total)
        thresholds = ops.convert_to_tensor(self.thresholds)
        if training:
            thresholds = self._update(shares, mask)
            if budget is None:
                budget = self._draw(ops.shape(weights)[:-1])
        if budget is None:
            budget = self.target
        needed = self._threshold(thresholds, budget)
        return _rescaled(
            weights, ops.logical_or(largest, shares >= needed), total
        )

    def _checked_call(
        self, budget: FloatLike | None, leading: Shape
    ) -> FloatLike | None:
        """Returns a call's budget, a tensor with as many axes as `leading`."""
        if budget is None:
            return None
        if self.mass is not None:
            raise ValueError(
                "`budget` must be None with `mass`, which decides how many "
                f"experts an example has. Received: budget={budget!r}"
            )
        if isinstance(budget, (int, float, str)):
            return self._check_budget("budget", budget)
        check_tensor("budget", budget)
        shape = tuple(budget.shape)
        if len(shape) > len(leading) or any(
            None not in (length, size) and length not in (1, size)
            for length, size in zip(shape, leading, strict=False)
        ):
            raise ValueError(
                "`budget` must be a scalar or have one entry per example, the "
                f"shape {tuple(leading)} or its first axes. "
                f"Received: budget of shape {shape}"
            )
        tensor: Tensor = ops.cast(budget, "float32")
        # Cast to an integer, the place of NaN among the thresholds is any.
        tensor = ops.where(ops.isnan(tensor), self.target, tensor)
        for _ in range(len(leading) - len(shape) if shape else 0):
            tensor = tensor[..., None]
        return tensor

    def _draw(self, shape: Shape) -> Tensor:
        """A budget for each example, uniform in its logarithm."""
        assert self.train_budgets is not None, "there are with `k`"
        low, high = map(log, self.train_budgets)
        return ops.exp(
            keras.random.uniform(shape, low, high, seed=self._seed_generator)
        )

    def _threshold(
        self, thresholds: Tensor, budget: FloatLike | None
    ) -> Tensor:
        """The share that an expert needs, `(..., 1)` or a scalar.

        Not even the largest reaches that of a budget of one.
        """
        experts: Tensor = ops.convert_to_tensor(budget, "float32")
        if len(experts.shape):
            experts = experts[..., None]
        last = thresholds.shape[0] - 1
        place = ops.clip(STEPS_PER_EXPERT * (experts - 1), 0, last)
        below = ops.floor(place)
        lower, upper = (
            ops.take(thresholds, ops.cast(index, "int32"), axis=0)
            for index in (below, ops.minimum(below + 1, last))
        )
        needed = lower + (place - below) * (upper - lower)
        needed = ops.where(experts < self.num_experts, needed, 0.0)
        return ops.where(experts > 1, needed, 2.0)

    def _update(self, shares: Tensor, mask: Tensor | None) -> Tensor:
        """Moves the running thresholds towards those of a batch."""
        if mask is not None:
            mask = ops.cast(mask, "bool")[..., None]
            shares = ops.where(mask, shares, float("nan"))
        rows = ops.reshape(shares, (-1, self.num_experts))  # (N, n)
        batch, num_rows = self._thresholds_of(
            sample_rows(rows, self._seed_generator)
        )
        running = ops.convert_to_tensor(self.thresholds)
        kept = share_kept(self.num_updates, MOMENTUM)
        # A batch without examples says nothing.
        kept = ops.where(num_rows > 0, kept, 1.0)
        updated = kept * running + (1 - kept) * batch
        self.thresholds.assign(updated)
        self.num_updates.assign_add(
            ops.cast(num_rows > 0, self.num_updates.dtype)
        )
        return updated

    def _thresholds_of(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """The thresholds of rows `(N, n)`, and how many are without NaN."""
        counts = ops.logical_not(ops.any(ops.isnan(shares), axis=1))  # (N,)
        num_rows = ops.sum(ops.cast(counts, "float32"))
        # Every example has its largest, whatever the budget: the thresholds
        # are quantiles of the others.
        left_out = ops.logical_or(
            top_k_mask(shares, 1), ops.logical_not(counts)[:, None]
        )
        thresholds = budget_quantiles(
            ops.where(left_out, -1.0, shares),
            num_rows,
            self.thresholds.shape[0],
            STEPS_PER_EXPERT,
        )
        return thresholds, num_rows

    def set_thresholds(self, weights: Tensor) -> None:
        """Sets the thresholds to those of examples, whatever they were.

        The examples then have as many experts on average as a budget says.

        Args:
            weights: Float32 tensor `(N, n)`, the weights `g(x)` of the gate
                inside. Examples with NaN do not count; without others, the
                thresholds stay.
        """
        weights = ops.convert_to_tensor(weights, "float32")
        thresholds, num_rows = self._thresholds_of(_shares(weights))
        if num_rows > 0:
            self.thresholds.assign(thresholds)

    def get_config(self) -> Config:
        budgets = self.train_budgets
        return {
            **super().get_config(),
            "k": self.target,
            "mass": self.mass,
            "train_budgets": None if budgets is None else list(budgets),
        }


def pairs_of(num_rows: IntegerLike, experts_per_row: float) -> IntegerLike:
    """The (row, expert) pairs of so many rows, rounded up."""
    if isinstance(num_rows, int):
        return ceil(num_rows * experts_per_row)
    pairs = ops.ceil(ops.cast(num_rows, "float32") * experts_per_row)
    return ops.cast(pairs, num_rows.dtype)


def _shares(weights: Tensor) -> Tensor:
    """The weights `(..., n)`, divided by the sum of each row."""
    total = ops.sum(weights, axis=-1, keepdims=True)
    return weights / ops.where(total > 0, total, 1.0)


def _within_mass(shares: Tensor, mass: float) -> Tensor:
    """Marks the experts before which, largest first, less than `mass` lies."""
    order = ops.argsort(-shares, axis=-1)
    ordered = ops.take_along_axis(shares, order, axis=-1)
    before = ops.cumsum(ordered, axis=-1) - ordered
    rank = ops.argsort(order, axis=-1)  # The inverse permutation.
    return ops.take_along_axis(before < mass, rank, axis=-1)


def _rescaled(weights: Tensor, kept: Tensor, total: Tensor) -> Tensor:
    """The weights that are kept, with the sum of all."""
    kept_weights = ops.where(kept, weights, zero_but_nan(weights))
    kept_total = ops.sum(kept_weights, axis=-1, keepdims=True)
    # A row without any weight stays at zero.
    return kept_weights * (total / ops.where(kept_total > 0, kept_total, 1.0))


def _check_mass(value: object) -> float:
    mass = check_positive("mass", value)
    if mass > 1:
        raise ValueError(f"`mass` must be at most 1. Received: mass={value!r}")
    return mass
