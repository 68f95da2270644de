from collections.abc import Sequence
from math import prod
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import record_routing
from keras_moe.ops import is_selected
from recsys.models.multi_task_model import MultiTaskModel
from recsys.reporting.changed_model import with_configs
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs
from recsys.training.sample import Sample


def flops(trained: Sequence[Trained]) -> Section | None:
    """Counts the operations that a prediction takes with each gate.

    They are counted in TensorFlow's graph; under other backends there is
    nothing to say.

    Args:
        trained: The finished trainings; the best of each model is counted,
            where it holds one `MoE` or `MMoE`.

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, appendix D.2, table 6.
    """
    if keras.backend.backend() != "tensorflow":
        return None
    tables = []
    for setting, runs in best_runs(trained).items():
        rows = [
            [run.model, f"{experts:.2f}", f"{count / 1000:,.0f}K"]
            for run in runs
            if run.has_model
            for count, experts in flops_of_prediction(run.loaded, run.sample)
        ]
        if rows:
            header = ["model", "experts evaluated", "FLOPs"]
            tables.append(Table(setting, header, rows))
    text = (
        "Floating-point operations of the products in one prediction, counted "
        "from the graph of the best model by validation loss: all that is not "
        "an expert, and as many experts as the gates choose for an example of "
        "the validation split, each once however many tasks chose it."
    )
    if not tables:
        return None
    return Section("Operations of a prediction", text, tables)


def flops_of_prediction(
    model: MultiTaskModel, sample: Sample
) -> list[tuple[float, float]]:
    """Counts the operations and the experts that a prediction takes.

    Args:
        model: A model.
        sample: Rows to route.

    Returns:
        Both as means over the sample, in a list with one entry; empty where
        the model does not hold exactly one `MoE` or `MMoE`.
    """
    from recsys.reporting.graph_flops import graph_flops

    with record_routing() as records:
        model(sample.inputs, training=False)
    if len(records) != 1 or not isinstance(records[0].mixture, (MoE, MMoE)):
        return []
    chosen = np.stack(
        [
            ops.convert_to_numpy(is_selected(weights))
            for weights in records[0].weights.values()
        ],
        axis=1,
    )  # (rows, tasks, experts)
    evaluated = float(chosen.any(axis=1).sum(axis=-1).mean())
    weighted = float(chosen.sum(axis=(1, 2)).mean())
    experts = records[0].mixture.experts
    shape = (1, *experts.get_build_config()["input_shape"][1:])
    one_row = {name: values[:1] for name, values in sample.inputs.items()}
    dense = with_configs(model, lambda config: config | _dense(config))
    of_experts = graph_flops(experts, np.ones(shape, "float32"))
    outputs = prod(size or 1 for size in experts.expert_output_shape(shape))
    count = graph_flops(dense, one_row)
    # Every expert's output counts for every task in dense execution.
    count -= int(2 * outputs * (chosen[0].size - weighted))
    idle = 1 - evaluated / experts.num_experts
    return [(count - of_experts * idle, evaluated)]


def _dense(config: dict[str, Any]) -> dict[str, Any]:
    return {"execution": "dense"} if "execution" in config else {}
