from collections.abc import Sequence
from typing import Self

import keras
from keras import ops

from keras_moe.layers.execution import Execution
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gated_layer import GatedLayer
from keras_moe.layers.gated_layer import as_experts
from keras_moe.layers.gated_layer import check_distinct
from keras_moe.layers.gated_layer import rows_of
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.routing_record import pause_recording
from keras_moe.layers.shared_parts import restored
from keras_moe.layers.shared_parts import restoring
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


class Mixture(GatedLayer):
    """Base class of `MoE` and `MMoE`: one bank of experts for all gates.

    Beside it, there may be shared experts, which no gate weighs: every task
    gets the sum of their outputs, for every row that is not masked.
    """

    def __init__(
        self,
        gates: Sequence[Gate],
        experts: Experts | Sequence[keras.layers.Layer],
        execution: str,
        shared_experts: Experts | Sequence[keras.layers.Layer] | None,
        **kwargs: object,
    ) -> None:
        super().__init__(execution, **kwargs)
        self.experts = as_experts(experts)
        _check_counts(gates, self.experts)
        self.shared_experts: Experts | None = None
        if shared_experts is not None:
            self.shared_experts = as_experts(shared_experts, "shared_experts")
            self.shared_experts._on_every_device = True
            check_distinct(
                "`experts` and `shared_experts`",
                [self.experts, self.shared_experts],
            )
        self._execution = Execution(execution, gates, self.experts)

    def _build(self, inputs_shape: Shape, gate_shapes: Sequence[Shape]) -> None:
        """Builds gates and experts; checks that the shapes fit together."""
        self._build_gates(gate_shapes)
        self._build_experts(self.experts, inputs_shape, gate_shapes)
        if self.shared_experts is not None:
            self._build_experts(self.shared_experts, inputs_shape, gate_shapes)
            shapes = [
                self._output_shape(bank, inputs_shape, gate_shapes)
                for bank in (self.experts, self.shared_experts)
            ]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    "`shared_experts` must have the output shape of `experts`. "
                    f"Received: outputs of shape {shapes[1]}, experts with "
                    f"outputs of shape {shapes[0]}"
                )

    def _mix(
        self,
        inputs: Tensor,
        gate_inputs: Sequence[Tensor],
        task_names: Sequence[str],
        training: bool | None,
        mask: Tensor | None,
        gate_masks: Sequence[Tensor | None],
        inputs_mask: Tensor | None,
        budget: FloatLike | None,
    ) -> list[Tensor]:
        """Returns each task's combination of the experts' outputs."""
        budgets = self._budgets(budget)
        num_tasks = len(gate_inputs)
        masks = self._routed_masks(
            [inputs],
            gate_inputs,
            [mask] * num_tasks,
            gate_masks,
            [inputs_mask] * num_tasks,
        )
        execution = self._execution.of_call(self._gate_list, budgets, training)
        weights = self._weigh(
            execution,
            gate_inputs,
            task_names,
            training,
            masks,
            budgets,
            inputs,
        )
        outputs = self._combine(execution, inputs, weights, masks, training)
        if self.shared_experts is not None:
            leading = ops.shape(weights[0])[:-1]
            shared = _shared_outputs(
                self.shared_experts, inputs, leading, masks, training
            )
            outputs = [a + b for a, b in zip(outputs, shared, strict=True)]
        return [ops.cast(output, self.compute_dtype) for output in outputs]

    def _task_output_shape(
        self, inputs_shape: Shape, gate_shapes: Sequence[Shape]
    ) -> Shape:
        return self._output_shape(self.experts, inputs_shape, gate_shapes)

    def get_config(self) -> Config:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "experts": serialize(self.experts),
            "shared_experts": serialize(self.shared_experts),
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        names = {"gate", "gates", "experts", "shared_experts"} & set(config)
        with restoring():
            parts = {name: restored(config[name]) for name in names}
        return cls(**{**config, **parts})


def _shared_outputs(
    experts: Experts,
    inputs: Tensor,
    leading: Sequence[IntegerLike],
    masks: Sequence[Tensor | None],
    training: bool | None,
) -> list[Tensor]:
    """Returns each task's sum of the outputs of all these experts.

    Args:
        experts: The shared experts.
        inputs: Tensor `(..., *features)`.
        leading: The dimensions that index the rows.
        masks: The mask of each task, or `None`.
        training: Boolean, for the experts.

    Returns:
        Float32 tensors `(..., *outputs)`, zero where masked.
    """
    rows = rows_of(experts, inputs, len(leading), masks)
    with pause_recording():
        outputs = experts(rows, training=training)  # (N, E, ...)
    total = ops.sum(ops.cast(outputs, "float32"), axis=1)  # (N, ...)
    # (N, ...) to (..., *outputs)
    total = ops.reshape(total, (*leading, *outputs.shape[2:]))
    return [_unmasked(total, mask) for mask in masks]


def _unmasked(values: Tensor, mask: Tensor | None) -> Tensor:
    """Zeros in the rows of `values` that a mask leaves out."""
    if mask is None:
        return values
    rank = len(values.shape) - len(mask.shape)
    mask = ops.reshape(mask, ops.shape(mask) + (1,) * rank)  # (..., 1, ..., 1)
    return ops.where(ops.cast(mask, "bool"), values, 0.0)


def _check_counts(gates: Sequence[Gate], experts: Experts) -> None:
    counts = [gate.num_experts for gate in gates]
    if set(counts) != {experts.num_experts}:
        raise ValueError(
            "Gates and experts must agree on the number of experts. "
            f"Received: gates with num_experts={counts}, experts with "
            f"{experts._described_count}"
        )
