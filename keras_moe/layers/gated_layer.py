import functools
from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.execution import Execution
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.experts.layer_experts import LayerExperts
from keras_moe.layers.experts.layer_experts import check_experts
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.initialization import Places
from keras_moe.layers.routed_rows import check_rows
from keras_moe.layers.routed_rows import routed_mask
from keras_moe.layers.routing_record import pause_recording
from keras_moe.layers.routing_record import record
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


class GatedLayer(CheckedLayer):
    """Base class of mixtures: gates weigh rows, experts' outputs add up.

    The layer does not cast its inputs: the gates see them in full precision,
    the experts cast them to their own compute dtype.

    What is routed is masked by the Keras mask of the gate inputs, or else by
    that of the inputs. Masked rows get no expert: their output is zero.
    """

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return {"inputs": 1, "gate_inputs": 1}

    def __init__(self, execution: str, **kwargs: object) -> None:
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.execution = execution
        self._places = Places()

    @property
    def _gate_list(self) -> list[Gate]:
        """The gates in the order of the tasks."""
        raise NotImplementedError

    def _build_gates(self, gate_shapes: Sequence[Shape]) -> None:
        for gate, shape in zip(self._gate_list, gate_shapes, strict=True):
            place = self._places.next("gate", gate.seed)
            if not gate.built:
                gate._place = place
                gate.build(shape)
        self._rank = self._routed_rank(gate_shapes)

    def _build_experts(
        self,
        experts: Experts,
        inputs_shape: Shape,
        gate_shapes: Sequence[Shape],
    ) -> None:
        """Builds experts; checks that their inputs fit the gates' inputs."""
        check_rows(self._rank, inputs_shape, gate_shapes)
        features = inputs_shape[self._rank :]
        if experts.feature_rank not in (None, len(features)):
            raise ValueError(
                f"`inputs` of {type(experts).__name__} must have "
                f"{experts.feature_rank} feature axis after the {self._rank} "
                f"of routed rows. Received: inputs of shape {inputs_shape}, "
                f"gate_inputs of shapes {list(gate_shapes)}"
            )
        place = self._places.next("experts", experts.seed)
        if not experts.built:
            experts._place = place
            experts.build((None, *features))

    def _routed_rank(self, gate_shapes: Sequence[Shape]) -> int:
        """Number of leading dimensions that index the routed rows."""
        ranks = {
            len(shape) - gate.feature_rank
            for gate, shape in zip(self._gate_list, gate_shapes, strict=True)
        }
        if len(ranks) > 1:
            raise ValueError(
                "The gate inputs of all tasks must share their leading "
                f"dimensions. Received: shapes {list(gate_shapes)}"
            )
        (rank,) = ranks
        if rank < 1:
            raise ValueError(
                "`gate_inputs`, by default `inputs`, must have at least one "
                "axis of routed rows before the axis of features. "
                f"Received: shapes {list(gate_shapes)}"
            )
        return rank

    def _routed_masks(
        self,
        inputs: Sequence[Tensor],
        gate_inputs: Sequence[Tensor],
        masks: Sequence[Tensor | None],
        gate_masks: Sequence[Tensor | None],
        inputs_masks: Sequence[Tensor | None],
    ) -> list[Tensor | None]:
        """Each task's mask of what is routed, or `None`.

        Args:
            inputs: Inputs of the experts, with as many rows as the gates'.
            gate_inputs: What each gate looks at.
            masks: The mask that the layer was called with, for each task.
            gate_masks: The mask of each gate's inputs, or `None`.
            inputs_masks: The mask of each task's inputs, or `None`.

        Raises:
            ValueError: If inputs and gate inputs differ in their rows, or a
                mask is not one of these rows.
        """
        gate_shapes = [tuple(x.shape) for x in gate_inputs]
        rank = self._routed_rank(gate_shapes)
        for x in inputs:
            check_rows(rank, x.shape, gate_shapes)
        leading = gate_shapes[0][:rank]
        return [
            routed_mask(leading, *of_task)
            for of_task in zip(masks, gate_masks, inputs_masks, strict=True)
        ]

    def _weigh(
        self,
        execution: Execution,
        gate_inputs: Sequence[Tensor],
        task_names: Sequence[str],
        training: bool | None,
        masks: Sequence[Tensor | None],
        budgets: Sequence[FloatLike | None],
        inputs: Tensor | None = None,
    ) -> list[Tensor]:
        """Returns each task's weights `(..., n)`, and records them.

        Args:
            execution: Limits the weights; its gates are all gates.
            gate_inputs: What each gate looks at.
            task_names: The names under which the weights are recorded; with
                fewer names than gates, the last gates are not recorded.
            training: Boolean, for the gates.
            masks: Each task's mask of what is routed, or `None`.
            budgets: What `_budgets` returns.
            inputs: What the experts compute on, to be recorded.
        """
        rank = self._routed_rank([x.shape for x in gate_inputs])
        leading = ops.shape(gate_inputs[0])[:rank]
        weights = [
            _weights_of_all(
                gate,
                gate(x, training=training, mask=mask, **_given(budget)),
                leading,
                mask,
            )
            for gate, x, mask, budget in zip(
                self._gate_list, gate_inputs, masks, budgets, strict=True
            )
        ]
        weights = execution.bounds.limit(weights, training)
        record(
            self,
            dict(zip(task_names, weights, strict=False)),
            dict(zip(task_names, masks, strict=False)),
            dict(zip(task_names, self._gate_list, strict=False)),
            dict(zip(task_names, gate_inputs, strict=False)),
            inputs,
        )
        return weights

    @property
    def _budget_gates(self) -> list[Gate]:
        """The gates that have to take a budget where a call has one."""
        return self._gate_list

    def _budgets(self, budget: FloatLike | None) -> list[FloatLike | None]:
        """The budget of each gate in a call with that of the layer."""
        fixed_gates = [
            gate for gate in self._budget_gates if not gate.takes_budget
        ]
        if budget is not None and fixed_gates:
            raise ValueError(
                "`budget` must be None with a gate that takes none: a "
                "BudgetGate with `k` does. "
                f"Received: budget={budget!r}, gates "
                f"{[f'{type(g).__name__} {g.name}' for g in fixed_gates]}"
            )
        return [
            budget if gate.takes_budget else None for gate in self._gate_list
        ]

    def _combine(
        self,
        execution: Execution,
        inputs: Tensor,
        weights: Sequence[Tensor],
        masks: Sequence[Tensor | None],
        training: bool | None,
    ) -> list[Tensor]:
        """Returns float32 sums of the experts' outputs, one per task.

        Args:
            execution: Runs the experts.
            inputs: Tensor `(..., *features)`, what the experts compute on.
            weights: Float32 tensors `(..., n)` over these experts.
            masks: The mask of each of them, or `None`.
            training: Boolean, for the experts.
        """
        experts = execution.experts
        *leading, num_experts = ops.shape(weights[0])
        rows = rows_of(experts, inputs, len(leading), masks)
        row_weights = ops.stack(  # T times (N, E) to (N, T, E)
            [ops.reshape(w, (-1, num_experts)) for w in weights], axis=1
        )
        with pause_recording():
            outputs = execution.run(rows, row_weights, training)
        shape = experts.expert_output_shape((None, *rows.shape[1:]))[1:]
        # (N, H) to (..., *shape)
        return [ops.reshape(output, (*leading, *shape)) for output in outputs]

    def _output_mask(self, mask: Tensor | None) -> Tensor | None:
        """The mask of one output, where the inputs' mask fits the rows."""
        return None if mask is None or len(mask.shape) != self._rank else mask

    def _output_shape(
        self,
        experts: Experts,
        inputs_shape: Shape,
        gate_shapes: Sequence[Shape],
    ) -> Shape:
        """The shape of one output, made by `experts` on their inputs."""
        rank = self._routed_rank(gate_shapes)
        expert_shape = experts.expert_output_shape((None, *inputs_shape[rank:]))
        return (*inputs_shape[:rank], *expert_shape[1:])

    def get_config(self) -> Config:
        config = super().get_config()
        config.pop("autocast", None)
        return {**config, "execution": self.execution}


def _given(budget: FloatLike | None) -> dict[str, FloatLike]:
    return {} if budget is None else {"budget": budget}


def as_experts(
    experts: Experts | Sequence[keras.layers.Layer] | None,
    name: str = "experts",
) -> Experts:
    """The bank itself, or one made of a list of layers, the argument `name`."""
    if isinstance(experts, Experts):
        return experts
    check_experts(name, experts)
    assert experts is not None, "it is a list"
    return LayerExperts(experts)


def check_distinct(names: str, banks: Sequence[Experts]) -> None:
    """Raises an error if an expert stands in two banks.

    Args:
        names: The arguments that the banks are of, for the message.
        banks: Banks of experts.
    """
    experts = [
        expert
        for bank in banks
        for expert in (
            bank.experts if isinstance(bank, LayerExperts) else [bank]
        )
    ]
    if len({id(expert) for expert in experts}) < len(experts):
        raise ValueError(
            f"{names} must be different layers: no expert may stand in two of "
            f"them. Received: {[expert.name for expert in experts]}"
        )


def rows_of(
    experts: Experts,
    inputs: Tensor,
    rank: int,
    masks: Sequence[Tensor | None],
) -> Tensor:
    """The rows that experts compute on, without what all masks leave out.

    Args:
        experts: They get floats in their compute dtype.
        inputs: Tensor `(..., *features)`.
        rank: Number of leading dimensions that index the rows.
        masks: The mask of each task, or `None`.

    Returns:
        Tensor `(N, *features)`.
    """
    features = tuple(inputs.shape[rank:])
    rows = ops.reshape(_without_padding(inputs, masks), (-1, *features))
    if keras.backend.is_float_dtype(rows.dtype):
        rows = ops.cast(rows, experts.compute_dtype)
    return rows


def _without_padding(inputs: Tensor, masks: Sequence[Tensor | None]) -> Tensor:
    """Zeros in the rows that every mask leaves out.

    They may hold anything, NaN included, which is not 0 with a weight of 0.
    """
    if any(mask is None for mask in masks):
        return inputs
    different = {id(mask): ops.cast(mask, "bool") for mask in masks}
    mask = functools.reduce(ops.logical_or, different.values())
    rank = len(inputs.shape) - len(mask.shape)
    mask = ops.reshape(mask, ops.shape(mask) + (1,) * rank)  # (..., 1, ..., 1)
    return ops.where(mask, inputs, ops.zeros_like(inputs))


def _weights_of_all(
    gate: Gate,
    weights: Tensor,
    leading: Sequence[IntegerLike],
    mask: Tensor | None,
) -> Tensor:
    """Repeats a static gate's weights for every row that is not masked."""
    if not gate.static:
        return weights
    # (n,) to (..., n)
    weights = ops.broadcast_to(weights, (*leading, gate.num_experts))
    if mask is None:
        return weights
    return ops.where(ops.cast(mask, "bool")[..., None], weights, 0.0)
