from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_moe.layers.cgc import CGC
from keras_moe.layers.cgc import SHARED
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.routing_record import RoutingRecord
from keras_moe.layers.routing_record import record
from keras_moe.layers.routing_record import record_routing
from keras_moe.layers.shared_parts import restored
from keras_moe.layers.shared_parts import restoring
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class HoME(CheckedLayer):
    """A hierarchy of multi-gate experts: of all tasks, of groups, of a task.

    Tasks of one kind form a group. A first level makes a stream `z_g` for
    each group, of the group's experts and the shared ones, and a shared
    stream `z_s` of all its experts. On the second level, task `t` of the group
    `g` has a gate over the shared experts on `z_s`, the group's experts and its
    own on `z_g`, in this order, that looks at both streams:

        y_t = sum_i g_t([z_g, z_s])_i f_i(z).

    So a shared expert does not have to serve tasks that have little in common.
    Self gates of both levels (`CGC`) give each group and each task a direct way
    to its own experts, and `HoMEExperts` outputs of one scale and inputs of
    their own.

    Args:
        groups: The first level, a `CGC` whose tasks are the groups, with a
            `shared_gate`.
        tasks: The second level, a `CGC` with `group_experts` and `task_groups`
            of these groups.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`.
        gate_inputs: Tensor that all gates of both levels look at, such as ids
            for a `HashGate`. By default they look at their streams.
        training: Boolean.
        mask: Boolean tensor, false for padding, with one entry for every
            routed row. Defaults to the inputs' Keras mask, if any.
        budget: Experts per row and gate on average, self gates included, on
            both levels, as in `CGC`.

    Returns:
        A dict of task name to tensor `(..., *outputs)`, of the layer's compute
        dtype. The routing that is recorded of the first level is that of each
        task's group, by the name of the task.

    Raises:
        TypeError: If a level is not a `CGC`.
        ValueError: If `groups` has no shared gate, `tasks` has one, or the
            groups of the two differ.

    Example:
        >>> task_groups = {"like": "act", "share": "act", "watch": "time"}
        >>> groups = CGC(
        ...     {group: SoftmaxGate(4) for group in ("act", "time")},
        ...     MLPExperts(2, 8),
        ...     {group: MLPExperts(2, 8) for group in ("act", "time")},
        ...     shared_gate=SoftmaxGate(6),
        ... )
        >>> tasks = CGC(
        ...     {task: SoftmaxGate(6) for task in task_groups},
        ...     HoMEExperts(2, 8),
        ...     {task: HoMEExperts(2, 8) for task in task_groups},
        ...     self_gates={task: SoftmaxGate(2) for task in task_groups},
        ...     group_experts={g: HoMEExperts(2, 8) for g in ("act", "time")},
        ...     task_groups=task_groups,
        ... )
        >>> outputs = HoME(groups, tasks)(np.ones((2, 3)))
        >>> {task: tuple(y.shape) for task, y in outputs.items()}
        {'like': (2, 8), 'share': (2, 8), 'watch': (2, 8)}

    References:
        Wang et al., HoME: Hierarchy of Multi-Gate Experts for Multi-Task
        Learning at Kuaishou, 2024 (hierarchy mask, self gates).
    """

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return self.groups._smallest_ranks

    def __init__(self, groups: CGC, tasks: CGC, **kwargs: object) -> None:
        _check_levels(groups, tasks)
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.groups = groups
        self.tasks = tasks

    def build(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> None:
        if not self.groups.built:
            self.groups.build(inputs_shape, gate_inputs_shape)
        shapes = self.groups.compute_output_shape(
            inputs_shape, gate_inputs_shape
        )
        if not self.tasks.built:
            # The gates and experts of the two levels count on.
            self.tasks._places = self.groups._places
            self.tasks.build(
                self._streams(shapes),
                gate_inputs_shape or self._seen_shapes(shapes),
            )

    def call(
        self,
        inputs: Tensor,
        gate_inputs: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        gate_inputs_mask: Tensor | None = None,
        budget: FloatLike | None = None,
    ) -> dict[str, Tensor]:
        with record_routing() as records:
            outputs = self.groups(
                inputs,
                gate_inputs=gate_inputs,
                training=training,
                mask=mask,
                # Keras names a mask after its argument where there are several.
                inputs_mask=inputs_mask,
                gate_inputs_mask=gate_inputs_mask,
                budget=budget,
            )
        for routing in records:
            self._record(routing)
        streams, seen = self.inputs_of_tasks(outputs, gate_inputs)
        if inputs_mask is not None:
            inputs_mask = self._streams(
                self.groups.compute_mask(inputs, inputs_mask)
            )
        return {
            task: ops.cast(output, self.compute_dtype)
            for task, output in self.tasks(
                streams,
                gate_inputs=seen,
                training=training,
                mask=mask,
                inputs_mask=inputs_mask,
                gate_inputs_mask=gate_inputs_mask,
                budget=budget,
            ).items()
        }

    def inputs_of_tasks(
        self, outputs: Mapping[str, Tensor], gate_inputs: Tensor | None = None
    ) -> tuple[Structure, Structure]:
        """What the second level is called on.

        Args:
            outputs: What `groups` returns.
            gate_inputs: Those of the call, if any.

        Returns:
            The stream of each bank of `tasks`, tensors `(..., *outputs)`, and
            the inputs of its gates.
        """
        seen = self._seen(outputs) if gate_inputs is None else gate_inputs
        return self._streams(outputs), seen

    def _streams(self, of_groups: Mapping[str, Structure]) -> Structure:
        """The stream of each bank of the second level."""
        of_tasks = {
            task: of_groups[group]
            for task, group in self.tasks.task_groups.items()
        }
        return {**of_groups, **of_tasks}

    def _seen(self, streams: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the gate of each task looks at."""
        both = {
            # (..., H) twice to (..., 2 H)
            group: ops.concatenate([streams[group], streams[SHARED]], axis=-1)
            for group in self.groups.gates
        }
        return {t: both[g] for t, g in self.tasks.task_groups.items()}

    def _seen_shapes(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        *leading, width = shapes[SHARED]
        assert width is not None, "the outputs of experts have a known width"
        return dict.fromkeys(self.tasks.gates, (*leading, 2 * width))

    def _record(self, of_groups: RoutingRecord) -> None:
        """Records the first level's routing by task."""
        by_task = {**self.tasks.task_groups, SHARED: SHARED}

        def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
            return {task: values[group] for task, group in by_task.items()}

        record(
            of_groups.mixture,
            renamed(of_groups.weights),
            renamed(of_groups.masks),
            renamed(of_groups.gates),
            renamed(of_groups.gate_inputs),
        )

    def compute_mask(
        self, inputs: Tensor, previous_mask: Tensor | None
    ) -> Structure:
        of_groups = self.groups.compute_mask(inputs, previous_mask)
        return self.tasks.compute_mask(None, self._streams(of_groups))

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> Structure:
        shapes = self.groups.compute_output_shape(
            inputs_shape, gate_inputs_shape
        )
        return self.tasks.compute_output_shape(
            self._streams(shapes),
            gate_inputs_shape or self._seen_shapes(shapes),
        )

    def get_config(self) -> Config:
        config = super().get_config()
        config.pop("autocast", None)
        serialize = keras.saving.serialize_keras_object
        return {
            **config,
            "groups": serialize(self.groups),
            "tasks": serialize(self.tasks),
        }

    @classmethod
    def from_config(cls, config: Config) -> "HoME":
        with restoring():  # The levels may share gates and permutations.
            levels = {
                name: restored(config[name]) for name in ("groups", "tasks")
            }
        return cls(**{**config, **levels})


def _check_levels(groups: object, tasks: object) -> None:
    for name, level in (("groups", groups), ("tasks", tasks)):
        if not isinstance(level, CGC):
            raise TypeError(
                f"`{name}` must be a CGC layer. Received: {name}={level!r}"
            )
    assert isinstance(groups, CGC)
    assert isinstance(tasks, CGC)
    if groups.shared_gate is None or tasks.shared_gate is not None:
        raise ValueError(
            "`groups` must have a shared gate, and `tasks` none. Received: "
            f"groups.shared_gate={groups.shared_gate!r}, "
            f"tasks.shared_gate={tasks.shared_gate!r}"
        )
    if set(groups.gates) != set(tasks.group_experts):
        raise ValueError(
            "`tasks` must have `group_experts` of the tasks of `groups`, "
            f"{list(groups.gates)}. Received: groups "
            f"{list(tasks.group_experts)}"
        )
