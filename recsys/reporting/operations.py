"""The cost of an example, by what it depends on."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from math import prod
from typing import Any

import numpy as np
from keras import ops
from keras.layers import Layer

from keras_moe.layers import BudgetGate
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import record_routing
from keras_moe.ops import is_selected
from keras_moe.types import Tensor
from recsys.files.json_files import JsonObject
from recsys.measuring.sample import Sample
from recsys.models.multi_task_model import MultiTaskModel
from recsys.reporting.changed_model import with_configs

_Chosen = np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]

# The gradient of a product takes a product for each of its two factors.
BACKWARD = 2


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of the products for one example.

    Attributes:
        other: Those of all that is no expert: gates and heads.
        expert: Those of running one expert.
        weighted: Those of adding the output of one expert to a task's sum.
        num_experts: The experts that there are.
        num_gates: The gates, one a task or one for all.
        experts: How many experts run for an example of a sample: those that
            any gate selects, each once.
        weights: How many weights all gates give an example, on average.
        drawn: The same two numbers with the budgets that examples draw in
            training, of gates that do so; otherwise `None`.

    Example:
    >>> tiny = Operations(100, 20, 2, 8, 2, experts=3.0, weights=4.0)
    >>> tiny.forward(tiny.experts, tiny.weights)
    168.0
    >>> tiny.training(tiny.experts, tiny.weights)
    504.0
    """

    other: float
    expert: float
    weighted: float
    num_experts: int
    num_gates: int
    experts: float
    weights: float
    drawn: tuple[float, float] | None = None

    def forward(self, experts: float, weights: float) -> float:
        """Returns the operations of a prediction.

        Args:
            experts: How many experts run.
            weights: How many weights all gates together give.
        """
        return self.other + self.expert * experts + self.weighted * weights

    def training(self, experts: float, weights: float) -> float:
        """Returns the operations of a forward and a backward pass.

        Args:
            experts: How many experts run.
            weights: How many weights all gates together give.
        """
        return (1 + BACKWARD) * self.forward(experts, weights)


def count_operations(
    model: MultiTaskModel, sample: Sample
) -> Operations | None:
    """Counts the operations of a model in TensorFlow's graph.

    Args:
        model: A model, on the TensorFlow backend.
        sample: Rows to route.

    Returns:
        The operations; `None` where the model does not hold exactly one `MoE`
        or `MMoE`.
    """
    from recsys.reporting.graph_flops import graph_flops

    with record_routing() as records:
        model(sample.inputs, training=False)
    if len(records) != 1 or not isinstance(records[0].mixture, (MoE, MMoE)):
        return None
    chosen = _chosen(records[0].weights.values())
    drawn = _drawn_weights(records[0])
    num_gates, num_experts = chosen.shape[1:]
    experts = records[0].mixture.experts
    shape = (1, *experts.get_build_config()["input_shape"][1:])
    one_row = {name: values[:1] for name, values in sample.inputs.items()}
    dense = with_configs(model, lambda config: config | _dense(config))
    of_experts = graph_flops(experts, np.ones(shape, "float32"))
    outputs = prod(size or 1 for size in experts.expert_output_shape(shape))
    # Every expert's output counts for every gate in dense execution.
    of_sums = 2 * outputs * num_gates * num_experts
    return Operations(
        other=graph_flops(dense, one_row) - of_experts - of_sums,
        expert=of_experts / num_experts,
        weighted=2 * outputs,
        num_experts=num_experts,
        num_gates=num_gates,
        experts=_experts(chosen),
        weights=_weights(chosen),
        drawn=None
        if drawn is None
        else (_experts(_chosen(drawn)), _weights(_chosen(drawn))),
    )


def _chosen(weights: Iterable[Tensor]) -> _Chosen:
    """Which experts have weight: `(rows, gates, experts)`."""
    return np.stack(
        [ops.convert_to_numpy(is_selected(of_gate)) for of_gate in weights],
        axis=1,
    )


def _experts(chosen: _Chosen) -> float:
    return float(chosen.any(axis=1).sum(axis=-1).mean())


def _weights(chosen: _Chosen) -> float:
    return float(chosen.sum(axis=(1, 2)).mean())


def _drawn_weights(record: Any) -> list[Tensor] | None:
    """Returns the weights of each task with budgets as training draws them.

    `None` unless all gates draw budgets.
    """
    generator = np.random.default_rng(0)
    weights = [
        _with_drawn_budgets(
            gate, record.gate_inputs[task], record.masks[task], generator
        )
        for task, gate in record.gates.items()
    ]
    drawn = [of_gate for of_gate in weights if of_gate is not None]
    return drawn if len(drawn) == len(weights) else None


def _with_drawn_budgets(
    gate: Layer,
    inputs: Tensor,
    mask: Tensor | None,
    generator: np.random.Generator,
) -> Tensor | None:
    """Calls a gate with a budget for each row, or the one that it is around.

    It is not called in training, which would move its thresholds.
    """
    if isinstance(gate, PermutedGate):
        weights = _with_drawn_budgets(gate.gate, inputs, mask, generator)
        return None if weights is None else gate.permutation(weights)
    if not isinstance(gate, BudgetGate) or gate.train_budgets is None:
        return None
    low, high = map(log, gate.train_budgets)
    logarithms = generator.uniform(low, high, len(inputs))
    budgets = np.exp(logarithms).astype("float32")
    return gate(inputs, training=False, mask=mask, budget=budgets)


def _dense(config: JsonObject) -> JsonObject:
    return {"execution": "dense"} if "execution" in config else {}
