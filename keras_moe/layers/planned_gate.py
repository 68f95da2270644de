from dataclasses import dataclass

from keras_moe.layers.gates.budget_gate import pairs_of
from keras_moe.layers.gates.gate import Gate
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


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
    budget: float | Tensor | None,
    training: bool | None,
    num_gates: int,
) -> Gate | PlannedGate:
    """Returns the gate as execution is to see it in a call with a budget.

    Args:
        gate: Any gate.
        budget: The budget of the call, or `None`.
        training: Boolean of the call.
        num_gates: How many gates share the experts.
    """
    experts = gate.planned_experts(budget, training, num_gates)
    if experts is None:
        return gate
    return PlannedGate(gate.name, experts, gate.synchronized)
