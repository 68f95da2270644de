"""Bounds on the (row, expert) pairs of a batch, by which execution plans."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace

from keras import ops

from keras_moe.layers.gates.budget_gate import pairs_of
from keras_moe.layers.gates.gate import Gate
from keras_moe.ops._debugging import checks_values
from keras_moe.ops._debugging import require
from keras_moe.ops._tracing import has_dynamic_shapes
from keras_moe.ops.top_k import keep_largest
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

# A batch may exceed the gates' bound by one (row, expert) pair in this many and
# still run sparse: gates that become sparse have a few rows above their k. With
# static shapes every slot of a plan costs time, whether it holds a pair or not.
PAIR_BUDGET_SLACK = 4


@dataclass(frozen=True)
class PlannedGate:
    """What execution asks of a gate, with the budget of one call.

    Attributes:
        name: That of the gate.
        experts_per_row: The experts per row that execution plans for.
        synchronized: That of the gate.
        k: No row is bounded, nor is a batch.
    """

    name: str
    experts_per_row: float
    synchronized: bool
    k: None = None

    def max_pairs(self, num_rows: IntegerLike) -> IntegerLike:
        return pairs_of(num_rows, self.experts_per_row)

    def is_bounded(self, training: bool | None) -> bool:
        return False


def planned_gate(
    gate: Gate,
    budget: FloatLike | None,
    training: bool | None,
    num_gates: int,
    num_experts: int,
) -> Gate | PlannedGate:
    """Returns the gate as execution is to see it in a call with a budget.

    Args:
        gate: Any gate.
        budget: The budget of the call, or `None`.
        training: Boolean of the call.
        num_gates: How many gates share the experts.
        num_experts: Experts that they share, maybe not all that it weighs.
    """
    experts = gate.planned_experts(budget, training, num_gates)
    if experts is None:
        return gate
    most = min(experts, num_experts)
    return PlannedGate(gate.name, most, gate.synchronized)


@dataclass(frozen=True)
class PairBounds:
    """Bounds on the nonzero weights of a batch, those of its gates together.

    Attributes:
        gates: One gate per task.
        limited: Whether the mixture enforces the `k` of gates that do not.
        num_experts: Integer, the experts that the tasks share.
    """

    gates: Sequence[Gate | PlannedGate]
    limited: bool
    num_experts: int

    def planned(
        self,
        gates: Sequence[Gate],
        budgets: Sequence[FloatLike | None],
        training: bool | None,
    ) -> "PairBounds":
        """Returns the bounds of one call, for each gate's budget."""
        return replace(
            self,
            gates=[
                planned_gate(
                    gate, budget, training, len(gates), self.num_experts
                )
                for gate, budget in zip(gates, budgets, strict=True)
            ],
        )

    def limit(
        self, weights: Sequence[Tensor], training: bool | None
    ) -> list[Tensor]:
        """Keeps the `k` largest weights of each gate and row in sparse mode."""
        return [
            keep_largest(weight, gate.k)
            if self._is_limited(gate, training) and gate.k is not None
            else weight
            for weight, gate in zip(weights, self.gates, strict=True)
        ]

    def _is_limited(
        self, gate: Gate | PlannedGate, training: bool | None
    ) -> bool:
        """Returns whether the mixture, not the gate, enforces `k`."""
        return (
            self.limited
            and gate.k is not None
            and not gate.is_bounded(training)
        )

    def are_kept(self, training: bool | None, split: bool) -> bool:
        """Returns whether no batch, or device's part of one, exceeds them."""
        return all(
            self._is_limited(gate, training)
            or (gate.is_bounded(training) and not (split and gate.synchronized))
            for gate in self.gates
        )

    @property
    def experts_per_row(self) -> float:
        """No row needs more experts than this, on average over the rows."""
        return min(
            sum(
                gate.experts_per_row or self.num_experts for gate in self.gates
            ),
            self.num_experts,
        )

    def of_batch(
        self, num_rows: IntegerLike, training: bool | None
    ) -> IntegerLike:
        """Upper bound on the nonzero weights over all tasks."""
        return sum(self.of_gates(num_rows, training))

    def of_gates(
        self, num_rows: IntegerLike, training: bool | None
    ) -> list[IntegerLike]:
        """Upper bound on the nonzero weights of each task."""
        return [
            num_rows * gate.k
            if self._is_limited(gate, training) and gate.k is not None
            else gate.max_pairs(num_rows)
            for gate in self.gates
        ]

    def check(self, weights: Tensor, max_pairs: IntegerLike) -> None:
        """Raises an error where gates do not keep the bound that they give.

        Only static plans rest on it.
        """
        if has_dynamic_shapes() and not checks_values():
            return
        weights = ops.where(ops.isnan(weights), 0.0, weights)
        require(
            num_pairs(weights) <= max_pairs,
            "Gates that declare `always_sparse`, or bound a batch by "
            "`max_pairs`, must not give weight to more experts than that. "
            f"Received: more than {max_pairs} nonzero weights in a batch, from "
            f"the gates {[f'{type(g).__name__} {g.name}' for g in self.gates]}",
        )


def pair_budget(pairs: IntegerLike) -> IntegerLike:
    """Returns the budget of (row, expert) pairs for a sparse batch.

    With `execution="auto"`, gates that may give weight to more than `k` experts
    run sparse where the weights of the batch that are not zero, over all rows
    and tasks, are at most so many. Batches with more are dense where shapes
    are static, on JAX and under XLA; elsewhere, only those with more than pay.

    Args:
        pairs: Integer or integer tensor, the sum of the gates' `max_pairs`.

    Returns:
        A quarter more, rounded up: at least one, unless there is no row.

    Example:
        >>> gate = keras_moe.layers.COMETGate(4, k=2)
        >>> pair_budget(gate.max_pairs(num_rows=3))
        8
    """
    return pairs + (pairs + PAIR_BUDGET_SLACK - 1) // PAIR_BUDGET_SLACK


def num_pairs(weights: Tensor) -> Tensor:
    """Counts the nonzero weights, including NaN."""
    return ops.sum(ops.cast(weights != 0, "int32"))
