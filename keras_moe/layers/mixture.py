from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.layers.execution import Execution
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gated_layer import GatedLayer
from keras_moe.layers.gated_layer import as_experts
from keras_moe.layers.gates.gate import Gate
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


class Mixture(GatedLayer):
    """Base class of `MoE` and `MMoE`: one bank of experts for all gates."""

    def __init__(
        self,
        gates: Sequence[Gate],
        experts: Experts | Sequence[keras.layers.Layer],
        execution: str,
        **kwargs: object,
    ) -> None:
        super().__init__(execution, **kwargs)
        self.experts = as_experts(experts)
        _check_counts(gates, self.experts)
        self._execution = Execution(execution, gates, self.experts)

    def _build(self, inputs_shape: Shape, gate_shapes: Sequence[Shape]) -> None:
        """Builds gates and experts; checks that the shapes fit together."""
        self._build_gates(gate_shapes)
        self._build_experts(self.experts, inputs_shape, gate_shapes)

    def _mix(
        self,
        inputs: Tensor,
        gate_inputs: Sequence[Tensor],
        task_names: Sequence[str],
        training: bool | None,
        mask: Tensor | None,
        gate_masks: Sequence[Tensor | None],
        inputs_mask: Tensor | None,
        budget: float | Tensor | None,
    ) -> list[Tensor]:
        """Returns each task's combination of the experts' outputs."""
        self._check_budget(budget)
        num_tasks = len(gate_inputs)
        masks = self._routed_masks(
            [inputs],
            gate_inputs,
            [mask] * num_tasks,
            gate_masks,
            [inputs_mask] * num_tasks,
        )
        execution = self._execution.of_call(self._gate_list, budget, training)
        weights = self._weigh(
            execution, gate_inputs, task_names, training, masks, budget
        )
        outputs = self._combine(execution, inputs, weights, masks, training)
        return [ops.cast(output, self.compute_dtype) for output in outputs]

    def _check_budget(self, budget: float | Tensor | None) -> None:
        others = [gate for gate in self._gate_list if not gate.takes_budget]
        if budget is not None and others:
            raise ValueError(
                "`budget` must be None with a gate that takes none: a "
                "BudgetGate with `k` does. "
                f"Received: budget={budget!r}, gates "
                f"{[f'{type(g).__name__} {g.name}' for g in others]}"
            )

    def _task_output_shape(
        self, inputs_shape: Shape, gate_shapes: Sequence[Shape]
    ) -> Shape:
        return self._output_shape(self.experts, inputs_shape, gate_shapes)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "experts": keras.saving.serialize_keras_object(self.experts),
        }


def _check_counts(gates: Sequence[Gate], experts: Experts) -> None:
    counts = [gate.num_experts for gate in gates]
    if set(counts) != {experts.num_experts}:
        raise ValueError(
            "Gates and experts must agree on the number of experts. "
            f"Received: gates with num_experts={counts}, experts with "
            f"num_experts={experts.num_experts}"
        )
