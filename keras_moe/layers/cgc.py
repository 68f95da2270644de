from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple
from typing import Self

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

Banks = Experts | Sequence[keras.layers.Layer]


class Reader(NamedTuple):
    """A gate in a level, and what it weighs.

    Attributes:
        output: The output that the weighted experts are added to.
        gate: The gate.
        groups: The groups of experts that it weighs, in its order.
        is_self: Whether it is a self gate.
    """

    output: str
    gate: Gate
    groups: list[str]
    is_self: bool


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

    With `self_gates`, a task also has a direct way to its own experts, which
    shared experts that learn faster cannot cover:

        y_t += sum_i s_t(x)_i f_t,i(x).

    With `group_experts`, some experts lie between the shared ones and a
    task's own: those of its group of tasks, which its gate weighs second.

    Args:
        gates: Dict of task name to gate. No task is called `"shared"`.
        shared_experts: The experts `f_i`: `MLPExperts`, or a list of Keras
            layers or models.
        task_experts: Dict of task name to the experts `f_t,i`, like
            `shared_experts`. All experts share one output shape.
        shared_gate: Gate over all experts, or `None` (default).
        execution: `"dense"`, `"sparse"` or `"auto"` (default), as in `MoE`.
            Which experts run is decided for each bank of them on its own.
        self_gates: Dict of task name to gate over the task's own experts
            alone, for all or some of the tasks; `"shared"` for the shared
            gate. It looks at what the task's gate looks at. Defaults to
            `None`, no self gates.
        group_experts: Dict of group name to experts like `shared_experts`,
            or `None` (default). No group is called like a task.
        task_groups: Dict of task name to the name of its group, where there
            are `group_experts`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`, or a dict of them with one entry a
            task, one a group and `"shared"`: what the task's own experts and
            its gate, the group's experts, and the shared experts and the
            shared gate compute on.
        gate_inputs: Tensor `(..., p)` (ids `(...)` for a `HashGate`) for all
            gates, or a dict of them by task name, and `"shared"` for the
            shared gate. A gate without an entry looks at `inputs`, as all do
            by default. The leading dimensions say what is routed.
        training: Boolean.
        mask: Boolean tensor, false for padding, with one entry for every
            routed row, or a dict of them like `inputs`. Defaults to the
            Keras mask of the gate inputs, or of the inputs, where there is
            one. A masked row takes no expert.
        budget: Experts per row and gate on average, where all gates take it:
            a number from 1, or a tensor, a scalar or one per row. A gate over
            fewer experts gives all of them weight. Defaults to the `k` of
            each gate.

    Returns:
        A dict of task name to tensor, and `"shared"` to tensor where there
        is a shared gate. Each tensor is `(..., *outputs)`, `outputs` being
        the shape of one expert's output, of the layer's compute dtype.

    Raises:
        TypeError: If `gates` or `task_experts` is not a dict, a gate is not
            a gate, or `experts` are not layers.
        ValueError: If there is no gate, a task is called `"shared"`, the
            tasks of `gates` and `task_experts` differ, `self_gates` has other
            tasks, `task_groups` does not give each task a group of
            `group_experts`, a gate weighs another number of experts than
            there are, an expert stands in two banks, output shapes differ,
            inputs do not match the tasks, `execution` is unknown, or
            `"sparse"` with a dense gate or with experts that need the whole
            batch, or a call has a `budget` below 1, or any with a gate that
            takes none.

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
        Wang et al., HoME: Hierarchy of Multi-Gate Experts for Multi-Task
        Learning at Kuaishou, 2024: the group experts, the self gates.
    """

    # Whether there have to be shared experts.
    _needs_shared = True

    @property
    def _structured(self) -> dict[str, tuple[type, ...]]:
        return {"inputs": (Mapping,), "gate_inputs": (Mapping,)}

    def __init__(
        self,
        gates: Mapping[str, Gate],
        shared_experts: Banks | None,
        task_experts: Mapping[str, Banks],
        shared_gate: Gate | None = None,
        execution: str = "auto",
        self_gates: Mapping[str, Gate] | None = None,
        group_experts: Mapping[str, Banks] | None = None,
        task_groups: Mapping[str, str] | None = None,
        **kwargs: object,
    ) -> None:
        _check_tasks(gates, task_experts)
        if shared_gate is not None:
            check_gate("shared_gate", shared_gate)
        outputs = [*gates] if shared_gate is None else [*gates, SHARED]
        _check_self_gates(self_gates or {}, outputs)
        _check_groups(task_groups or {}, group_experts or {}, list(gates))
        super().__init__(execution, **kwargs)
        self.gates = dict(gates)
        self.shared_experts: Experts | None = None
        if shared_experts is not None or self._needs_shared:
            self.shared_experts = as_experts(shared_experts, "shared_experts")
        self.task_experts = {
            task: as_experts(task_experts[task], "task_experts")
            for task in gates
        }
        self.group_experts = {
            group: as_experts(experts, "group_experts")
            for group, experts in (group_experts or {}).items()
        }
        self.task_groups = dict(task_groups or {})
        self.shared_gate = shared_gate
        self.self_gates = dict(self_gates or {})
        check_distinct(
            "`shared_experts` and `task_experts`", list(self._banks.values())
        )
        self._connect()

    def _connect(self) -> None:
        """Checks the gates against the experts, and plans their execution."""
        self._check_counts()
        # Of all gates, for their limits; a bank has only those that read it.
        self._all_gates = Execution(
            self.execution, self._gate_list, next(iter(self._banks.values()))
        )
        self._executions = {
            group: self._execution_of(group) for group in self._banks
        }

    def _execution_of(self, group: str) -> Execution:
        readers = [reader for reader in self._readers if group in reader.groups]
        return Execution(
            self.execution,
            [reader.gate for reader in readers],
            self._banks[group],
            [
                place
                for place, reader in enumerate(readers)
                if self._is_stopped(reader.output, group)
            ],
        )

    @property
    def _banks(self) -> dict[str, Experts]:
        """All experts: the shared ones, those of groups and of tasks."""
        banks = {**self.group_experts, **self.task_experts}
        if self.shared_experts is None:
            return banks
        return {SHARED: self.shared_experts, **banks}

    @property
    def _gate_of(self) -> dict[str, Gate]:
        """The gate of each output."""
        if self.shared_gate is None:
            return dict(self.gates)
        return {**self.gates, SHARED: self.shared_gate}

    @property
    def _readers(self) -> list[Reader]:
        """All gates: those of the outputs, then the self gates."""
        return [
            *(
                Reader(output, gate, self._groups(output), is_self=False)
                for output, gate in self._gate_of.items()
            ),
            *(
                Reader(output, gate, [output], is_self=True)
                for output, gate in self.self_gates.items()
            ),
        ]

    @property
    def _gate_list(self) -> list[Gate]:
        return [reader.gate for reader in self._readers]

    def _groups(self, output: str) -> list[str]:
        """The groups of experts that an output is made of, in gate order."""
        if output == SHARED:
            return list(self._banks)
        if not self.task_groups:
            return [SHARED, output]
        return [SHARED, self.task_groups[output], output]

    def _is_stopped(self, output: str, group: str) -> bool:
        """Whether an output's loss leaves the experts of a group alone."""
        return False

    def _gate_input(self, output: str, streams: Mapping[str, Tensor]) -> Tensor:
        """What the gate of an output looks at, unless it is told."""
        return streams[output]

    def _counts(self, groups: Sequence[str]) -> list[int]:
        return [self._banks[group].num_experts for group in groups]

    def _check_counts(self) -> None:
        for output, gate, groups, is_self in self._readers:
            counts = self._counts(groups)
            if gate.num_experts != sum(counts):
                kind = "self gate" if is_self else "gate"
                raise ValueError(
                    f"The {kind} of {output!r} must weigh {sum(counts)} "
                    f"experts: {counts} of {groups}. "
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
        budget: FloatLike | None = None,
    ) -> dict[str, Tensor]:
        budgets = self._budgets(budget)
        streams = self._streams(inputs)
        readers = self._readers
        gate_streams = {
            output: self._gate_input(output, streams)
            for output in self._gate_of
        }
        seen = self._seen(gate_streams, gate_inputs)
        masks = self._routed_masks(
            list(streams.values()),
            seen,
            self._of_each_reader(mask),
            # Keras names a mask after its argument where there are several.
            self._seen(dict.fromkeys(gate_streams), gate_inputs_mask),
            self._of_each_reader(inputs_mask),
        )
        weights = self._weigh(
            self._all_gates.of_call(self._gate_list, budgets, training),
            seen,
            list(self._gate_of),
            training,
            masks,
            budgets,
        )
        parts = [
            self._split(reader.groups, weight)
            for reader, weight in zip(readers, weights, strict=True)
        ]
        sums: dict[str, FloatLike] = dict.fromkeys(self._gate_of, 0.0)
        for group, execution in self._executions.items():
            places = [
                i for i, reader in enumerate(readers) if group in reader.groups
            ]
            combined = self._combine(
                execution.of_call(
                    [readers[place].gate for place in places],
                    [budgets[place] for place in places],
                    training,
                ),
                streams[group],
                [parts[place][group] for place in places],
                [masks[place] for place in places],
                training,
            )
            for place, part in zip(places, combined, strict=True):
                sums[readers[place].output] += part
        return {
            output: ops.cast(value, self.compute_dtype)
            for output, value in sums.items()
        }

    def _budgets(self, budget: FloatLike | None) -> list[FloatLike | None]:
        budgets = super()._budgets(budget)
        if not isinstance(budget, (int, float)):
            return budgets
        return [
            None if of_gate is None else min(budget, gate.num_experts)
            for of_gate, gate in zip(budgets, self._gate_list, strict=True)
        ]

    def _split(
        self, groups: Sequence[str], weights: Tensor
    ) -> dict[str, Tensor]:
        """A gate's weights, group by group."""
        if len(groups) == 1:
            return {groups[0]: weights}
        counts = self._counts(groups)
        ends = [sum(counts[:i]) for i in range(1, len(counts))]
        # (..., n) to (..., count) for each group.
        return dict(zip(groups, ops.split(weights, ends, axis=-1), strict=True))

    def compute_mask(
        self, inputs: Structure, previous_mask: Structure
    ) -> dict[str, Tensor | None]:
        masks = self._streams(previous_mask)
        return {name: self._output_mask(masks[name]) for name in self._gate_of}

    def compute_output_shape(
        self, inputs_shape: Structure, gate_inputs_shape: Structure = None
    ) -> dict[str, Shape]:
        shapes = self._streams(inputs_shape)
        group, experts = next(iter(self._banks.items()))
        shape = self._output_shape(
            experts,
            shapes[group],
            self._gate_shapes(shapes, gate_inputs_shape),
        )
        return dict.fromkeys(self._gate_of, shape)

    def _gate_shapes(
        self, streams: Mapping[str, Shape], gate_inputs_shape: Structure
    ) -> list[Shape]:
        # What a gate looks at has the shape of its output's stream.
        gate_streams = {output: streams[output] for output in self._gate_of}
        return [tuple(s) for s in self._seen(gate_streams, gate_inputs_shape)]

    def _streams(self, values: Structure) -> dict[str, Structure]:
        """One value per group of experts; one value serves all."""
        if not isinstance(values, Mapping):
            return dict.fromkeys(self._banks, values)
        if set(values) != set(self._banks):
            raise ValueError(
                "`inputs` must be one tensor, or have one entry per group of "
                f"experts, {list(self._banks)}. "
                f"Received: entries {list(values)}"
            )
        return {group: values[group] for group in self._banks}

    def _of_each_reader(self, masks: Structure) -> list[Structure]:
        """The mask of the stream of each gate's output."""
        streams = self._streams(masks)
        return [streams[reader.output] for reader in self._readers]

    def _seen(
        self, gate_streams: Mapping[str, Structure], gate_inputs: Structure
    ) -> list[Structure]:
        """Returns each gate's inputs: its output's, unless others are given."""
        if gate_inputs is None:
            gate_inputs = {}
        if not isinstance(gate_inputs, Mapping):
            return [gate_inputs] * len(self._readers)
        names = [SHARED, *self.gates]
        if not set(gate_inputs) <= set(names):
            raise ValueError(
                "`gate_inputs` must be one tensor, or have entries among "
                f"{names}. Received: entries {list(gate_inputs)}"
            )
        return [
            gate_inputs.get(reader.output, gate_streams[reader.output])
            for reader in self._readers
        ]

    def get_config(self) -> Config:
        serialize = keras.saving.serialize_keras_object
        readers = all_serialized(self._gate_list)
        gates = dict(zip(self._gate_of, readers, strict=False))
        shared_gate = gates.pop(SHARED, None)
        config = {
            **super().get_config(),
            "gates": gates,
            "shared_experts": serialize(self.shared_experts),
            "task_experts": {
                t: serialize(e) for t, e in self.task_experts.items()
            },
            "shared_gate": shared_gate,
        }
        # A layer without them has the configuration that it always had.
        if self.self_gates:
            self_gates = readers[len(self._gate_of) :]
            config["self_gates"] = dict(
                zip(self.self_gates, self_gates, strict=True)
            )
        if self.group_experts:
            config["group_experts"] = {
                g: serialize(e) for g, e in self.group_experts.items()
            }
            config["task_groups"] = self.task_groups
        return config

    @classmethod
    def from_config(cls, config: Config) -> Self:
        names = {
            *("gates", "shared_experts", "task_experts", "shared_gate"),
            *("self_gates", "group_experts"),
        } & set(config)
        with restoring():
            parts = {name: restored(config[name]) for name in sorted(names)}
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


def _check_self_gates(
    self_gates: Mapping[str, object], outputs: Sequence[str]
) -> None:
    if not isinstance(self_gates, Mapping):
        raise TypeError(
            "`self_gates` must be a dict of task name to gate. "
            f"Received: self_gates={self_gates!r}"
        )
    for gate in self_gates.values():
        check_gate("self_gates", gate)
    if not set(self_gates) <= set(outputs):
        raise ValueError(
            f"`self_gates` must have entries among {list(outputs)}, the "
            f"outputs that have a gate. Received: entries {list(self_gates)}"
        )


def _check_groups(
    task_groups: Mapping[str, str],
    group_experts: Mapping[str, object],
    tasks: Sequence[str],
) -> None:
    for name, value in (
        ("task_groups", task_groups),
        ("group_experts", group_experts),
    ):
        if not isinstance(value, Mapping):
            raise TypeError(
                f"`{name}` must be a dict. Received: {name}={value!r}"
            )
    taken = {*tasks, SHARED} & set(group_experts)
    if taken:
        raise ValueError(
            "`group_experts` must not have a group called like a task, or "
            f"{SHARED!r}. Received: groups {sorted(taken)}"
        )
    named = set(tasks) if group_experts else set()
    if set(task_groups) != named or set(task_groups.values()) != set(
        group_experts
    ):
        raise ValueError(
            "`task_groups` must give each task one of the groups of "
            f"`group_experts`, and each group a task. Received: "
            f"task_groups={dict(task_groups)}, tasks {list(tasks)}, groups "
            f"{list(group_experts)}"
        )
