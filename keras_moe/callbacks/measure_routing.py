from collections.abc import Iterable
from typing import Any
from typing import TypeAlias

import keras
import numpy as np
from keras import ops

from keras_moe.callbacks.routing_model import RoutingModel
from keras_moe.metrics import BinaryShare
from keras_moe.metrics import ExpertsPerExample
from keras_moe.metrics import LoadImbalance
from keras_moe.metrics import LoadPerExpert
from keras_moe.metrics import SimplexViolation
from keras_moe.metrics import WeightEntropy
from keras_moe.metrics import WeightPerExpert
from keras_moe.types import Structure

# Of a task by name: floats, or arrays with a value for each expert.
Statistics: TypeAlias = dict[str, Any]


def measure_routing(
    routing_model: RoutingModel, batches: Iterable[Structure]
) -> dict[str, Statistics]:
    """Measures how a model routes, exactly over all batches together.

    Args:
        routing_model: The routing of the model to measure.
        batches: Batches of the model's inputs.

    Returns:
        Per task, the statistics by name: the floats `experts_per_example`,
        `load_imbalance`, `weight_entropy`, for gates that say `on_simplex`
        `simplex_violation`, for those with selectors `binary_share`, and the
        arrays `load_per_expert` and `weight_per_expert`, `(n,)`.

    Raises:
        ValueError: If the model calls no mixture.

    Example:
        >>> mixture = keras_moe.layers.MMoE(
        ...     {"watch": keras_moe.layers.TopKGate(4, k=2)},
        ...     keras_moe.layers.MLPExperts(4, 8),
        ... )
        >>> statistics = measure_routing(
        ...     RoutingModel(mixture), [np.ones((3, 5)), np.ones((2, 5))]
        ... )
        >>> statistics["watch"]["experts_per_example"]
        2.0
    """
    metrics: dict[str, list[keras.metrics.Metric]] = {}
    of_selectors: dict[str, list[keras.metrics.Metric]] = {}
    for batch in batches:
        outputs = routing_model.predict_on_batch(batch)
        for task, on_simplex, (weights, counts, *selectors) in zip(
            routing_model.tasks, routing_model.on_simplex, outputs, strict=True
        ):
            if task not in metrics:
                metrics[task] = _new_metrics(weights.shape[-1], on_simplex)
            for metric in metrics[task]:
                metric.update_state(weights, counts)
            if selectors:
                of_task = of_selectors.setdefault(task, [BinaryShare()])
                of_task[0].update_state(*selectors, counts)
    if not metrics:
        raise ValueError(
            "The model must call a mixture, such as a keras_moe.layers.MMoE, "
            f"to have a routing. Received: model={routing_model.routed!r}"
        )
    return {
        task: {
            metric.name: _result(metric)
            for metric in (*task_metrics, *of_selectors.get(task, []))
        }
        for task, task_metrics in metrics.items()
    }


def _new_metrics(
    num_experts: int, on_simplex: bool
) -> list[keras.metrics.Metric]:
    metrics = [
        ExpertsPerExample(),
        LoadPerExpert(num_experts),
        LoadImbalance(num_experts),
        WeightEntropy(),
        WeightPerExpert(num_experts),
    ]
    if on_simplex:
        metrics.append(SimplexViolation())
    return metrics


def _result(metric: keras.metrics.Metric) -> float | np.ndarray:
    """A float, or an array for a metric that has a value per expert."""
    value = ops.convert_to_numpy(metric.result())
    return value if value.ndim else float(value)
