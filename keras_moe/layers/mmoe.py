from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras

from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.mixture import Mixture
from keras_moe.layers.mixture import Shape
from keras_moe.layers.mixture import check_gate


@keras.saving.register_keras_serializable(package="keras_moe")
class MMoE(Mixture):
    """A mixture of experts for several tasks, which share the experts.

    Task `t` gets `y_t = sum_i g_t(x)_i f_i(x)` with a gate of its own. An
    expert runs at most once for a row, however many tasks chose it.

    Args:
        gates: Dict of task name to gate, or list of gates.
        experts: The experts `f_i`: `MLPExperts`, or a list of Keras layers
            or models that share an output shape. As many as each gate
            weighs.
        execution: `"dense"`, `"sparse"` or `"auto"` (default), as in `MoE`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`, what the experts compute on.
        gate_inputs: Tensor `(..., p)` (ids `(...)` for a `HashGate`) for all
            gates, or a dict or list of them, one a task, like `gates`. The
            leading dimensions say what is routed. Defaults to `inputs`.
        training: Boolean.

    Returns:
        A dict of task name to tensor where `gates` is a dict, a list where
        it is a list. Each tensor is `(..., *outputs)`, `outputs` being the
        shape of one expert's output, of the layer's compute dtype.

    Raises:
        TypeError: If `gates` is not a dict or list of gates, or `experts`
            are not layers.
        ValueError: If there is no gate, the gates and experts differ in
            number, the experts in their output shapes, the gate inputs do
            not match the gates, `execution` is unknown, or `"sparse"` with
            a dense gate or with experts that need the whole batch.

    Example:
        >>> mixture = MMoE(
        ...     {"watch": TopKGate(4, k=2), "rating": TopKGate(4, k=1)},
        ...     MLPExperts(4, 8),
        ... )
        >>> outputs = mixture(np.ones((2, 3)))
        >>> {task: tuple(y.shape) for task, y in outputs.items()}
        {'watch': (2, 8), 'rating': (2, 8)}

    References:
        Ma et al., Modeling Task Relationships in Multi-task Learning with
        Multi-gate Mixture-of-Experts, KDD 2018, section 4.2.
    """

    def __init__(
        self,
        gates: Mapping[str, Gate] | Sequence[Gate],
        experts: Experts | Sequence[keras.layers.Layer],
        execution: str = "auto",
        **kwargs: Any,
    ) -> None:
        _check_gates(gates)
        named = isinstance(gates, Mapping)
        gate_list = list(gates.values()) if named else list(gates)
        super().__init__(gate_list, experts, execution, **kwargs)
        self.gates = dict(gates) if named else gate_list

    @property
    def _gate_list(self) -> list[Gate]:
        return [self.gates[key] for key in self._task_keys]

    @property
    def _task_keys(self) -> list[Any]:
        if isinstance(self.gates, Mapping):
            return list(self.gates)
        return list(range(len(self.gates)))

    def build(self, inputs_shape: Shape, gate_inputs_shape: Any = None) -> None:
        self._build(
            inputs_shape, self._shape_per_task(inputs_shape, gate_inputs_shape)
        )

    def call(
        self,
        inputs: Any,
        gate_inputs: Any = None,
        training: bool | None = None,
    ) -> Any:
        if gate_inputs is None:
            gate_inputs = inputs
        if not isinstance(gate_inputs, (Mapping, list, tuple)):
            gate_inputs = dict.fromkeys(self._task_keys, gate_inputs)
        self._check_tasks(gate_inputs)
        return self._like_gates(
            self._mix(
                inputs,
                [gate_inputs[key] for key in self._task_keys],
                [str(key) for key in self._task_keys],
                training,
            )
        )

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Any = None
    ) -> Any:
        shape = self._task_output_shape(
            inputs_shape, self._shape_per_task(inputs_shape, gate_inputs_shape)
        )
        return self._like_gates([shape] * len(self.gates))

    def _like_gates(self, values: Sequence[Any]) -> Any:
        """One value a task, as a dict or a list like the gates."""
        if isinstance(self.gates, Mapping):
            return dict(zip(self._task_keys, values, strict=True))
        return list(values)

    def _shape_per_task(self, inputs_shape: Shape, shapes: Any) -> list[Shape]:
        if shapes is None:
            shapes = inputs_shape
        if not isinstance(shapes, Mapping) and isinstance(
            shapes[0], (int, type(None))
        ):
            shapes = dict.fromkeys(self._task_keys, tuple(shapes))
        self._check_tasks(shapes)
        return [tuple(shapes[key]) for key in self._task_keys]

    def _check_tasks(self, gate_inputs: Any) -> None:
        keys = (
            list(gate_inputs)
            if isinstance(gate_inputs, Mapping)
            else list(range(len(gate_inputs)))
        )
        if set(keys) != set(self._task_keys):
            raise ValueError(
                "`gate_inputs` must be one tensor, or have one entry a task, "
                f"{self._task_keys}. Received: entries {keys}"
            )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "gates": self._like_gates(
                [
                    keras.saving.serialize_keras_object(gate)
                    for gate in self._gate_list
                ]
            ),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MMoE":
        for name in ("gates", "experts"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)


def _check_gates(gates: Any) -> None:
    if not isinstance(gates, (Mapping, list, tuple)):
        raise TypeError(
            "`gates` must be a dict of task name to gate, or a list of "
            f"gates. Received: gates={gates!r} of type {type(gates).__name__}"
        )
    if not gates:
        raise ValueError("`gates` must hold at least one gate. Received: none")
    for gate in gates.values() if isinstance(gates, Mapping) else gates:
        check_gate("gates", gate)
    if isinstance(gates, Mapping) and not all(
        isinstance(task, str) for task in gates
    ):
        raise TypeError(
            f"`gates` must have strings as keys. Received: {list(gates)}"
        )
