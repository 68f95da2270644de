from collections.abc import Mapping
from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.layers.execution import Execution
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gated_layer import GatedLayer
from keras_moe.layers.gated_layer import as_experts
from keras_moe.layers.gated_layer import check_distinct
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_gate
from keras_moe.layers.mmoe import check_gates
from keras_moe.layers.shared_parts import all_serialized
from keras_moe.layers.shared_parts import restored
from keras_moe.layers.shared_parts import restoring
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor

# The name of what the tasks share, beside the tasks' own names.
SHARED = "shared"


@keras.saving.register_keras_serializable(package="keras_moe")
class CGC(GatedLayer):
    """Customized gate control: shared experts, and experts of each task.

    Task `t` has a gate over the shared experts `f_i` and its own `f_t,i`, in
    this order, but none for the other tasks' experts:

        y_t = sum_i g_t(x)_i f_i(x) + sum_i g_t(x)_(m+i) f_t,i(x),

    `m` being the number of shared experts. An expert runs at most once for a
    row, however many gates chose it.

    With a `shared_gate` the layer is an inner level of a `PLE`: this gate
    weighs all experts, the shared ones and then those of each task in the
    order of `gates`, and its output is the next level's shared stream.

    Args:
        gates: Dict of task name to gate. No task is called `"shared"`.
        shared_experts: The experts `f_i`: `MLPExperts`, or a list of Keras
            layers or models.
        task_experts: Dict of task name to the experts `f_t,i`, like
            `shared_experts`. All experts share one output shape.
        shared_gate: Gate over all experts, or `None` (default).
        execution: `"dense"`, `"sparse"` or `"auto"` (default), as in `MoE`.
            Which experts run is decided for each bank of them on its own.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`, or a dict of them with one entry a
            task and `"shared"`: what the task's own experts and its gate,
            and the shared experts and the shared gate compute on.
        gate_inputs: Tensor `(..., p)` (ids `(...)` for a `HashGate`) for all
            gates, or a dict of them by task name, and `"shared"` for the
            shared gate. A gate without an entry looks at `inputs`, as all do
            by default. The leading dimensions say what is routed.
        training: Boolean.
        mask: Boolean tensor, false for padding, with one entry for every
            routed row, or a dict of them like `inputs`. Defaults to the
            Keras mask of the gate inputs, or of the inputs, where there is
            one. A masked row takes no expert.

    Returns:
        A dict of task name to tensor, and `"shared"` to tensor where there
        is a shared gate. Each tensor is `(..., *outputs)`, `outputs` being
        the shape of one expert's output, of the layer's compute dtype.

    Raises:
        TypeError: If `gates` or `task_experts` is not a dict, a gate is not
            a gate, or `experts` are not layers.
        ValueError: If there is no gate, a task is called `"shared"`, the
            tasks of `gates` and `task_experts` differ, a gate weighs another
            number of experts than there are, an expert stands in two banks,
            output shapes differ, inputs do not match the tasks, `execution`
            is unknown, or `"sparse"` with a dense gate or with experts that
            need the whole batch.

    Example:
        >>> layer = CGC(
        ...     {"watch": TopKGate(4, k=2), "rating": TopKGate(3, k=2)},
        ...     shared_experts=MLPExperts(2, 8),
        ...     task_experts={
        ...         "watch": MLPExperts(2, 8),
        ...         "rating": MLPExperts(1, 8),
        ...     },
        ... )
        >>> outputs = layer(np.ones((2, 3)))
        >>> {task: tuple(y.shape) for task, y in outputs.items()}
        {'watch': (2, 8), 'rating': (2, 8)}

    References:
        Tang et al., Progressive Layered Extraction (PLE): A Novel Multi-Task
        Learning (MTL) Model for Personalized Recommendations, RecSys 2020,
        section 4.1; the shared gate: section 4.2.
    """

    @property
    def _structured(self) -> dict[str, tuple[type, ...]]:
        return {"inputs": (Mapping,), "gate_inputs": (Mapping,)}

    def __init__(
        self,
        gates: Mapping[str, Gate],
        shared_experts: Experts | Sequence[keras.layers.Layer],
        task_experts: Mapping[str, Experts | Sequence[keras.layers.Layer]],
        shared_gate: Gate | None = None,
        execution: str = "auto",
        **kwargs: object,
    ) -> None:
        _check_tasks(gates, task_experts)
        if shared_gate is not None:
            check_gate("shared_gate", shared_gate)
        super().__init__(execution, **kwargs)
        self.gates = dict(gates)
        self.shared_experts = as_experts(shared_experts, "shared_experts")
        self.task_experts = {
            task: as_experts(task_experts[task], "task_experts")
            for task in gates
        }
        self.shared_gate = shared_gate
        check_distinct(
            "`shared_experts` and `task_experts`", list(self._banks.values())
        )
        self._check_counts()
        self._executions = {
            group: Execution(
                execution,
                [self._gate_of[output] for output in self._readers(group)],
                experts,
            )
            for group, experts in self._banks.items()
        }

    @property
    def _banks(self) -> dict[str, Experts]:
        """All experts by group: the shared ones, and those of each task."""
        return {SHARED: self.shared_experts, **self.task_experts}

    @property
    def _gate_of(self) -> dict[str, Gate]:
        """The gate of each output."""
        if self.shared_gate is None:
            return dict(self.gates)
        return {**self.gates, SHARED: self.shared_gate}

    @property
    def _gate_list(self) -> list[Gate]:
        return list(self._gate_of.values())

    def _groups(self, output: str) -> list[str]:
        """The groups of experts that an output is made of, in gate order."""
        return list(self._banks) if output == SHARED else [SHARED, output]

    def _readers(self, group: str) -> list[str]:
        """The outputs that a group of experts takes part in."""
        return [name for name in self._gate_of if group in self._groups(name)]

    def _counts(self, output: str) -> list[int]:
        return [self._banks[g].num_experts for g in self._groups(output)]

    def _check_counts(self) -> None:
        for output, gate in self._gate_of.items():
            counts = self._counts(output)
            if gate.num_experts != sum(counts):
                raise ValueError(
                    f"The gate of {output!r} must weigh {sum(counts)} experts: "
                    f"{counts} of {self._groups(output)}. "
                    f"Received: a gate with num_experts={gate.num_experts}"
                )

    def build(
        self, inputs_shape: Structure, gate_inputs_shape: Structure = None
    ) -> None:
        shapes = self._streams(inputs_shape)
        gate_shapes = self._gate_shapes(shapes, gate_inputs_shape)
        self._build_gates(gate_shapes)
        outputs = {}
        for group, experts in self._banks.items():
            self._build_experts(experts, shapes[group], gate_shapes)
            outputs[group] = self._output_shape(
                experts, shapes[group], gate_shapes
            )
        if len(set(outputs.values())) > 1:
            raise ValueError(
                "`shared_experts` and `task_experts` must share one output "
                f"shape. Received: {outputs}"
            )

    def call(
        self,
        inputs: Structure,
        gate_inputs: Structure = None,
        training: bool | None = None,
        mask: Structure = None,
        inputs_mask: Structure = None,
        gate_inputs_mask: Structure = None,
    ) -> dict[str, Tensor]:
        streams = self._streams(inputs)
        seen = self._seen(streams, gate_inputs)
        masks = self._routed_masks(
            list(streams.values()),
            seen,
            self._of_each_output(mask),
            # Keras names a mask after its argument where there are several.
            self._seen(dict.fromkeys(streams), gate_inputs_mask),
            self._of_each_output(inputs_mask),
        )
        weights = self._weigh(
            # All gates reach the shared experts.
            self._executions[SHARED],
            seen,
            list(self._gate_of),
            training,
            masks,
        )
        mask_of = dict(zip(self._gate_of, masks, strict=True))
        parts = {
            output: self._split(output, weight)
            for output, weight in zip(self._gate_of, weights, strict=True)
        }
        sums: dict[str, FloatLike] = dict.fromkeys(self._gate_of, 0.0)
        for group, execution in self._executions.items():
            readers = self._readers(group)
            slices = [parts[output][group] for output in readers]
            combined = self._combine(
                execution,
                streams[group],
                slices,
                [mask_of[output] for output in readers],
                training,
            )
            for output, part in zip(readers, combined, strict=True):
                sums[output] += part
        return {
            output: ops.cast(value, self.compute_dtype)
            for output, value in sums.items()
        }

    def _split(self, output: str, weights: Tensor) -> dict[str, Tensor]:
        """An output's weights, group by group."""
        groups, counts = self._groups(output), self._counts(output)
        ends = [sum(counts[:i]) for i in range(1, len(counts))]
        # (..., n) to (..., count) for each group.
        return dict(zip(groups, ops.split(weights, ends, axis=-1), strict=True))

    def compute_mask(
        self, inputs: Structure, previous_mask: Structure
    ) -> dict[str, Tensor | None]:
        masks = map(self._output_mask, self._of_each_output(previous_mask))
        return dict(zip(self._gate_of, masks, strict=True))

    def compute_output_shape(
        self, inputs_shape: Structure, gate_inputs_shape: Structure = None
    ) -> dict[str, Shape]:
        shapes = self._streams(inputs_shape)
        shape = self._output_shape(
            self.shared_experts,
            shapes[SHARED],
            self._gate_shapes(shapes, gate_inputs_shape),
        )
        return dict.fromkeys(self._gate_of, shape)

    def _gate_shapes(
        self, streams: Mapping[str, Shape], gate_inputs_shape: Structure
    ) -> list[Shape]:
        return [tuple(s) for s in self._seen(streams, gate_inputs_shape)]

    def _streams(self, values: Structure) -> dict[str, Structure]:
        """One value per group of experts; one value serves all."""
        if not isinstance(values, Mapping):
            return dict.fromkeys(self._banks, values)
        if set(values) != set(self._banks):
            raise ValueError(
                "`inputs` must be one tensor, or have one entry per task and "
                f"{SHARED!r}, {list(self._banks)}. "
                f"Received: entries {list(values)}"
            )
        return {group: values[group] for group in self._banks}

    def _of_each_output(self, masks: Structure) -> list[Structure]:
        """The mask of the stream of each output."""
        streams = self._streams(masks)
        return [streams[output] for output in self._gate_of]

    def _seen(
        self, streams: Mapping[str, Structure], gate_inputs: Structure
    ) -> list[Structure]:
        """Returns each gate's inputs: its stream, unless others are given."""
        if gate_inputs is None:
            gate_inputs = {}
        if not isinstance(gate_inputs, Mapping):
            return [gate_inputs] * len(self._gate_of)
        if not set(gate_inputs) <= set(streams):
            raise ValueError(
                "`gate_inputs` must be one tensor, or have entries among "
                f"{list(streams)}. Received: entries {list(gate_inputs)}"
            )
        return [gate_inputs.get(name, streams[name]) for name in self._gate_of]

    def get_config(self) -> Config:
        serialize = keras.saving.serialize_keras_object
        gates = all_serialized(self._gate_list)
        return {
            **super().get_config(),
            "gates": dict(zip(self.gates, gates, strict=False)),
            "shared_experts": serialize(self.shared_experts),
            "task_experts": {
                t: serialize(e) for t, e in self.task_experts.items()
            },
            "shared_gate": None if self.shared_gate is None else gates[-1],
        }

    @classmethod
    def from_config(cls, config: Config) -> "CGC":
        names = ("gates", "shared_experts", "task_experts", "shared_gate")
        with restoring():
            parts = {name: restored(config[name]) for name in names}
        return cls(**{**config, **parts})


def _check_tasks(
    gates: Mapping[str, object], task_experts: Mapping[str, object]
) -> None:
    for name, value in (("gates", gates), ("task_experts", task_experts)):
        if not isinstance(value, Mapping):
            raise TypeError(
                f"`{name}` must be a dict with one entry per task. "
                f"Received: {name}={value!r} of type {type(value).__name__}"
            )
    check_gates(gates)
    if SHARED in gates:
        raise ValueError(
            f"`gates` must not have a task called {SHARED!r}, a reserved name. "
            f"Received: tasks {list(gates)}"
        )
    if set(task_experts) != set(gates):
        raise ValueError(
            f"`task_experts` must have the tasks of `gates`, {list(gates)}. "
            f"Received: tasks {list(task_experts)}"
        )
