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
    """

    def __init__(
        self,
        gates: Sequence[Gate],
        experts: Experts | Sequence[keras.layers.Layer],
        execution: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
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
        rank = self._routed_rank(gate_shapes)
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
    ) -> list[Any]:
        """Returns each task's combination of the experts' outputs."""
        rank = self._routed_rank([x.shape for x in gate_inputs])
        leading = ops.shape(gate_inputs[0])[:rank]
        num_experts = self.experts.num_experts
        weights = [
            _weights_of_all(gate, gate(x, training=training), leading)
            for gate, x in zip(self._gate_list, gate_inputs, strict=True)
        ]
        weights = self._execution.limit(weights)
        note_routing(self, dict(zip(task_names, weights, strict=True)))
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


def _weights_of_all(gate: Gate, weights: Any, leading: Sequence[Any]) -> Any:
    """Repeats a static gate's weights for every row."""
    if not gate.static:
        return weights
    return ops.broadcast_to(weights, (*leading, gate.num_experts))


def check_gate(name: str, gate: Any) -> None:
    """Raises a TypeError unless `gate` is a `Gate`."""
    if not isinstance(gate, Gate):
        raise TypeError(
            f"`{name}` must be a keras_moe Gate. "
            f"Received: {name}={gate!r} of type {type(gate).__name__}"
        )


def _check_counts(gates: Sequence[Gate], experts: Experts) -> None:
    counts = [gate.num_experts for gate in gates]
    if set(counts) != {experts.num_experts}:
        raise ValueError(
            "Gates and experts must agree on the number of experts. "
            f"Received: gates with num_experts={counts}, experts with "
            f"num_experts={experts.num_experts}"
        )
