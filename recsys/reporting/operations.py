"""The cost of an example, by what it depends on."""

from dataclasses import dataclass
from math import prod

import numpy as np
from keras import ops

from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import record_routing
from keras_moe.ops import is_selected
from recsys.files.json_files import JsonObject
from recsys.measuring.sample import Sample
from recsys.models.multi_task_model import MultiTaskModel
from recsys.reporting.changed_model import with_configs

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
    chosen = np.stack(
        [
            ops.convert_to_numpy(is_selected(weights))
            for weights in records[0].weights.values()
        ],
        axis=1,
    )  # (rows, gates, experts)
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
        experts=float(chosen.any(axis=1).sum(axis=-1).mean()),
        weights=float(chosen.sum(axis=(1, 2)).mean()),
    )


def _dense(config: JsonObject) -> JsonObject:
    return {"execution": "dense"} if "execution" in config else {}
