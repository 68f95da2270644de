from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.layers.execution import Execution
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.experts.layer_experts import LayerExperts
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import Shape
from keras_moe.layers.routing_record import note_routing
from keras_moe.layers.routing_record import without_record


class Mixture(keras.layers.Layer):
    """What `MoE` and `MMoE` share: gates, experts and the sum of both.

    The mixture does not cast its inputs: the gates see them in full
    precision, the experts cast them to their own compute dtype.

    What is routed is masked by the Keras mask of the gate inputs, or else by
    that of the inputs. Masked rows get no expert: their output is zero.
    """

    def __init__(
        self,
        gates: Sequence[Gate],
        experts: Experts | Sequence[keras.layers.Layer],
        execution: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.execution = execution
        self.experts = (
            experts if isinstance(experts, Experts) else LayerExperts(experts)
        )
        _check_counts(gates, self.experts)
        self._execution = Execution(execution, gates, self.experts)

    def _build(self, inputs_shape: Shape, gate_shapes: Sequence[Shape]) -> None:
        """Builds gates and experts; checks that the shapes fit together."""
        for gate, shape in zip(self._gate_list, gate_shapes, strict=True):
            if not gate.built:
                gate.build(shape)
        rank = self._rank = self._routed_rank(gate_shapes)
        if len(inputs_shape) < rank:
            raise ValueError(
                "The leading dimensions of `gate_inputs` must be those of "
                f"`inputs`. Received: inputs of shape {inputs_shape}, "
                f"gate_inputs of shapes {list(gate_shapes)}"
            )
        if not self.experts.built:
            self.experts.build((None, *inputs_shape[rank:]))

    @property
    def _gate_list(self) -> list[Gate]:
        """The gates in the order of the tasks."""
        raise NotImplementedError

    def _routed_rank(self, gate_shapes: Sequence[Shape]) -> int:
        """How many leading dimensions say what is routed."""
        ranks = {
            len(shape) - gate.feature_rank
            for gate, shape in zip(self._gate_list, gate_shapes, strict=True)
        }
        if len(ranks) > 1:
            raise ValueError(
                "The gate inputs of all tasks must share their leading "
                f"dimensions. Received: shapes {list(gate_shapes)}"
            )
        return ranks.pop()

    def _mix(
        self,
        inputs: Any,
        gate_inputs: Sequence[Any],
        task_names: Sequence[str],
        training: bool | None,
        inputs_mask: Any,
        gate_masks: Sequence[Any],
    ) -> list[Any]:
        """Returns each task's combination of the experts' outputs."""
        rank = self._routed_rank([x.shape for x in gate_inputs])
        leading = ops.shape(gate_inputs[0])[:rank]
        num_experts = self.experts.num_experts
        masks = [
            _routed_mask(rank, gate_mask, inputs_mask)
            for gate_mask in gate_masks
        ]
        weights = [
            _weights_of_all(
                gate, gate(x, training=training, mask=mask), leading, mask
            )
            for gate, x, mask in zip(
                self._gate_list, gate_inputs, masks, strict=True
            )
        ]
        weights = self._execution.limit(weights, training)
        note_routing(
            self,
            dict(zip(task_names, weights, strict=True)),
            dict(zip(task_names, masks, strict=True)),
        )
        features = tuple(inputs.shape[rank:])
        rows = ops.reshape(inputs, (-1, *features))
        if keras.backend.is_float_dtype(rows.dtype):
            rows = ops.cast(rows, self.experts.compute_dtype)
        row_weights = ops.stack(
            [ops.reshape(w, (-1, num_experts)) for w in weights], axis=1
        )
        with without_record():
            outputs = self._execution.run(rows, row_weights, training)
        shape = self.experts.expert_output_shape((None, *features))[1:]
        return [
            ops.cast(
                ops.reshape(output, (*leading, *shape)), self.compute_dtype
            )
            for output in outputs
        ]

    def _output_mask(self, mask: Any) -> Any:
        """The mask of one output, where the inputs' mask fits the rows."""
        return _routed_mask(self._rank, mask)

    def _task_output_shape(
        self, inputs_shape: Shape, gate_shapes: Sequence[Shape]
    ) -> Shape:
        rank = self._routed_rank(gate_shapes)
        expert_shape = self.experts.expert_output_shape(
            (None, *inputs_shape[rank:])
        )
        return (*inputs_shape[:rank], *expert_shape[1:])

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("autocast", None)
        return {
            **config,
            "experts": keras.saving.serialize_keras_object(self.experts),
            "execution": self.execution,
        }


def _routed_mask(rank: int, *masks: Any) -> Any:
    """The first mask there is with one entry for every routed row."""
    for mask in masks:
        if mask is not None and len(mask.shape) == rank:
            return mask
    return None


def _weights_of_all(
    gate: Gate, weights: Any, leading: Sequence[Any], mask: Any
) -> Any:
    """Repeats a static gate's weights for every row that is not masked."""
    if not gate.static:
        return weights
    weights = ops.broadcast_to(weights, (*leading, gate.num_experts))
    if mask is None:
        return weights
    return ops.where(ops.cast(mask, "bool")[..., None], weights, 0.0)


def _check_counts(gates: Sequence[Gate], experts: Experts) -> None:
    counts = [gate.num_experts for gate in gates]
    if set(counts) != {experts.num_experts}:
        raise ValueError(
            "Gates and experts must agree on the number of experts. "
            f"Received: gates with num_experts={counts}, experts with "
            f"num_experts={experts.num_experts}"
        )
