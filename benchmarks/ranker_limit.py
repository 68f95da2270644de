"""The ranker without all that is no matmul of an expert: the limit of a step.

Its embeddings, heads, losses, input and `fit` are the ranker's. In place of the
mixture, each expert computes as many rows, in one batched matmul or in a matmul
each: as many pairs of a row and an expert in all as the ranker's gates choose
for the batch, but which row lies where was known before. There is no gate. Adam
passes once over every weight.
"""

from typing import Any

import keras
import numpy as np
from equal_groups import run_equal_groups
from keras import ops
from one_pass_adam import OnePassAdam

from keras_moe.layers import MLPExperts
from recsys import Ranker


class EqualGroups(keras.layers.Layer):
    """Stands where a mixture does, and gives each expert as many rows.

    The slots are the rows of the batch in their order, from the first one on
    again when there are no more. Each task adds up `k` outputs of each row. All
    copies are of contiguous memory, and as few as there can be.

    Args:
        experts: The built experts.
        tasks: Names of the tasks.
        k: Experts that a task takes for a row.
        num_rows: Rows of a batch.
        num_pairs: Pairs of a row and an expert, for all tasks together.
        one_by_one: Whether each expert's matmul is one of its own. Defaults to
            `False`, a batched one.
    """

    def __init__(
        self,
        experts: MLPExperts,
        tasks: list[str],
        k: int,
        num_rows: int,
        num_pairs: int,
        one_by_one: bool = False,
    ) -> None:
        super().__init__()
        self.experts = experts
        self.tasks = tasks
        self.k = k
        self.num_rows = num_rows
        self.one_by_one = one_by_one
        self.group = -(-num_pairs // experts.num_experts)

    def build(self, inputs_shape: Any, gate_inputs_shape: Any = None) -> None:
        """The experts are built."""

    def call(
        self, inputs: Any, gate_inputs: Any = None, training: Any = None
    ) -> Any:
        num_experts, num_tasks = self.experts.num_experts, len(self.tasks)
        slots = num_experts * self.group  # S
        rows = _repeated(inputs, self.num_rows, slots)  # (S, D)
        groups = ops.reshape(rows, (num_experts, self.group, -1))
        outputs = run_equal_groups(
            self.experts, groups, training, self.one_by_one
        )
        outputs = ops.reshape(outputs, (slots, -1))  # (S, H)
        summands = num_tasks * self.k
        outputs = _repeated(outputs, slots, summands * self.num_rows)
        outputs = ops.reshape(  # (T, k, N, H)
            outputs, (num_tasks, self.k, self.num_rows, -1)
        )
        sums = ops.unstack(ops.sum(outputs, axis=1), num=num_tasks)
        return dict(zip(self.tasks, sums, strict=True))

    def compute_output_shape(
        self, inputs_shape: Any, gate_inputs_shape: Any = None
    ) -> Any:
        shape = self.experts.expert_output_shape(inputs_shape)
        return dict.fromkeys(self.tasks, shape)


def _repeated(rows: Any, num_rows: int, count: int) -> Any:
    """So many rows, from the first one on again when there are no more."""
    whole, rest = divmod(count, num_rows)
    return ops.concatenate([*[rows] * whole, rows[:rest]])


def make_limit(
    ranker: Ranker, inputs: dict[str, Any], one_by_one: bool = False
) -> tuple[Ranker, int]:
    """Makes the limit of a ranker with an MMoE.

    Args:
        ranker: The compiled ranker; the limit trains the same weights.
        inputs: A batch.
        one_by_one: As in `EqualGroups`.

    Returns:
        The limit, compiled, and its pairs of a row and an expert.
    """
    gates = ranker.mixture.gates
    rows = len(next(iter(inputs.values())))
    k = next(iter(gates.values())).k
    # Gates that start dense are told to keep to their k.
    pairs = min(_count_pairs(ranker, inputs), rows * k * len(gates))
    limit = ranker.with_mixture(
        EqualGroups(
            ranker.mixture.experts, list(gates), k, rows, pairs, one_by_one
        )
    )
    limit.compile(
        OnePassAdam(float(ranker.optimizer.learning_rate)),
        loss={task: limit.loss_of(task) for task in limit.tasks},
        loss_weights=ranker.get_compile_config()["loss_weights"],
    )
    return limit, pairs


def _count_pairs(ranker: Ranker, inputs: dict[str, Any]) -> int:
    """Of how many pairs the weight is not zero for one of the tasks."""
    features, gate_inputs = ranker.mixture_inputs(inputs, training=False)
    seen = features if gate_inputs is None else gate_inputs
    weights = [
        ops.convert_to_numpy(gate(seen))
        for gate in ranker.mixture.gates.values()
    ]
    return int(np.any(weights, axis=0).sum())
