"""Budgets of models with fewer experts: a `BudgetGate` around a smaller gate.

Shares among fewer experts are others than those that training had thresholds
for. So the thresholds of the smaller gate are those of the data at hand.
"""

from collections.abc import Callable
from collections.abc import Collection

import keras
from keras import ops

from keras_moe.compress.examples import Examples
from keras_moe.layers.gates.budget_gate import BudgetGate
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.mixture import Mixture
from keras_moe.layers.routing_record import record_routing
from keras_moe.types import Tensor


def replaced_within(gate: Gate, replaced: Callable[[Gate], Gate]) -> Gate:
    """Returns the gate in place of another, and keeps its budget.

    Args:
        gate: A built gate.
        replaced: Function of a gate to one over fewer experts.

    Returns:
        `replaced(gate)`; for a `BudgetGate`, one around what takes the place
        of the gate inside. Its budgets are at most the experts that are left,
        and it has no thresholds yet, which `keep_budgets` gives it.
    """
    if not isinstance(gate, BudgetGate):
        return replaced(gate)
    inner = replaced_within(gate.gate, replaced)
    most = inner.num_experts
    budgets = gate.train_budgets
    smaller = BudgetGate(
        inner,
        k=None if gate.target is None else min(gate.target, most),
        mass=gate.mass,
        train_budgets=budgets and [min(budget, most) for budget in budgets],
        name=gate.name,
        trainable=gate.trainable,
    )
    smaller.build(tuple(gate.get_build_config()["input_shape"]))
    if gate.mass is None:
        smaller.num_updates.assign(gate.num_updates)
    return smaller


def keep_budgets(
    model: keras.Model, examples: Examples, mixtures: Collection[str]
) -> None:
    """Sets the thresholds of some mixtures' gates to those of examples.

    Args:
        model: The model.
        examples: Its inputs. Padding, and rows with NaN, do not count.
        mixtures: Names of the `MoE` and `MMoE` layers.
    """
    done: set[Mixture] = set()
    # One mixture after the other, in the order of their calls: the thresholds
    # of one decide what the next one sees.
    while rows := _rows_of_next(model, examples, mixtures, done):
        for gate, weights in rows.items():
            gate.set_thresholds(ops.concatenate(weights))


def _rows_of_next(
    model: keras.Model,
    examples: Examples,
    mixtures: Collection[str],
    done: set[Mixture],
) -> dict[BudgetGate, list[Tensor]]:
    """The weights inside the budget gates of a mixture that is not `done`.

    Returns:
        By gate, tensors `(N, n)`; nothing where all mixtures are done.
    """
    current: keras.layers.Layer | None = None
    rows: dict[BudgetGate, list[Tensor]] = {}
    for batch in examples:
        with record_routing() as records:
            model(batch, training=False)
        for record in records:
            gates = {
                task: gate
                for task, gate in record.gates.items()
                if isinstance(gate, BudgetGate) and gate.takes_budget
            }
            mixture = record.mixture
            if not gates or mixture.name not in mixtures or mixture in done:
                continue
            current = current or mixture
            if mixture is not current:
                continue
            for task, gate in gates.items():
                mask = record.masks[task]
                inputs = record.gate_inputs[task]
                weights = gate.gate(inputs, training=False, mask=mask)
                if mask is not None:
                    weights = ops.where(mask[..., None], weights, float("nan"))
                weights = ops.reshape(weights, (-1, gate.num_experts))
                rows.setdefault(gate, []).append(weights)
    if current is not None:
        done.add(current)
    return rows
