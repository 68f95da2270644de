from collections.abc import Mapping
from collections.abc import Sequence

import keras

from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_gate
from keras_moe.layers.mixture import Mixture
from keras_moe.layers.shared_parts import all_serialized
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import Shape
from keras_moe.types import Structure


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
        shared_experts: Experts that no gate weighs, as in `MoE`: the sum of
            their outputs is added to each task's. They compute each row
            once. Defaults to `None`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`, what the experts compute on.
        gate_inputs: Tensor `(..., p)` (ids `(...)` for a `HashGate`) for all
            gates, or a dict or list of them, one per task, like `gates`. The
            leading dimensions say what is routed. Defaults to `inputs`.
        training: Boolean.
        mask: Boolean tensor, false for padding, with one entry for every
            routed row. Defaults to the Keras mask of the gate inputs, or of
            the inputs, where there is one. A masked row takes no expert:
            its output is zero.
        budget: Experts per row on average, for gates that take it:
            a number, or a tensor, a scalar or one per row. Defaults to the
            `k` of each gate.

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
        Dai et al., DeepSeekMoE, 2024, section 3.2 (shared experts).
    """

    @property
    def _structured(self) -> dict[str, tuple[type, ...]]:
        return {"gate_inputs": (Mapping, list, tuple)}

    def __init__(
        self,
        gates: Mapping[str, Gate] | Sequence[Gate],
        experts: Experts | Sequence[keras.layers.Layer],
        execution: str = "auto",
        shared_experts: Experts | Sequence[keras.layers.Layer] | None = None,
        **kwargs: object,
    ) -> None:
        check_gates(gates)
        gate_list = list(_by_key(gates).values())
        super().__init__(
            gate_list, experts, execution, shared_experts, **kwargs
        )
        self.gates = dict(gates) if isinstance(gates, Mapping) else gate_list

    @property
    def _gate_list(self) -> list[Gate]:
        return list(_by_key(self.gates).values())

    @property
    def _tasks(self) -> list[str | int]:
        return list(_by_key(self.gates))

    def build(
        self, inputs_shape: Shape, gate_inputs_shape: Structure = None
    ) -> None:
        self._build(
            inputs_shape, self._gate_shapes(inputs_shape, gate_inputs_shape)
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
    ) -> Structure:
        gate_inputs = inputs if gate_inputs is None else gate_inputs
        outputs = self._mix(
            inputs,
            self._of_each_task(gate_inputs),
            [str(task) for task in self._tasks],
            training,
            mask,
            # Keras names a mask after its argument where there are several.
            self._of_each_task(gate_inputs_mask),
            inputs_mask,
            budget,
        )
        return self._like_gates(outputs)

    def compute_mask(
        self, inputs: Structure, previous_mask: Structure
    ) -> Structure:
        mask = self._output_mask(previous_mask)
        return self._like_gates([mask] * len(self.gates))

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Structure = None
    ) -> Structure:
        shape = self._task_output_shape(
            inputs_shape, self._gate_shapes(inputs_shape, gate_inputs_shape)
        )
        return self._like_gates([shape] * len(self.gates))

    def _gate_shapes(
        self, inputs_shape: Shape, shapes: Structure
    ) -> list[Shape]:
        if shapes is None:
            shapes = inputs_shape
        if _is_shape(shapes):
            shapes = dict.fromkeys(self._tasks, shapes)
        return [tuple(shape) for shape in self._in_order(shapes)]

    def _of_each_task(self, values: Structure) -> list[Structure]:
        """One value per task, in the order of the gates; one serves all."""
        if isinstance(values, (Mapping, list, tuple)):
            return self._in_order(values)
        return [values] * len(self.gates)

    def _in_order(self, values: Structure) -> list[Structure]:
        """One value per task, in the order of the gates."""
        by_key = _by_key(values)
        if set(by_key) != set(self._tasks):
            raise ValueError(
                "`gate_inputs` must be one tensor, or have one entry per task, "
                f"{self._tasks}. Received: entries {list(by_key)}"
            )
        return [by_key[task] for task in self._tasks]

    def _like_gates(self, values: Sequence[Structure]) -> Structure:
        """One value per task, as a dict or a list like the gates."""
        if isinstance(self.gates, Mapping):
            return dict(zip(self.gates, values, strict=True))
        return list(values)

    def get_config(self) -> Config:
        gates = self._like_gates(all_serialized(self._gate_list))
        return {**super().get_config(), "gates": gates}


def _by_key(values: Structure) -> dict[str | int, Structure]:
    """The values of a dict by name, those of a list by position."""
    if isinstance(values, Mapping):
        return dict(values)
    return dict(enumerate(values))


def _is_shape(shapes: Structure) -> bool:
    """Returns whether it is a single shape."""
    if isinstance(shapes, Mapping):
        return False
    return not shapes or isinstance(shapes[0], (int, type(None)))


def check_gates(gates: object) -> None:
    """Raises an error unless `gates` are gates, by task name or in a list."""
    if not isinstance(gates, (Mapping, list, tuple)):
        raise TypeError(
            "`gates` must be a dict of task name to gate, or a list of "
            f"gates. Received: gates={gates!r} of type {type(gates).__name__}"
        )
    if not gates:
        raise ValueError("`gates` must hold at least one gate. Received: none")
    for gate in _by_key(gates).values():
        check_gate("gates", gate)
    if isinstance(gates, Mapping) and not all(
        isinstance(task, str) for task in gates
    ):
        raise TypeError(
            f"`gates` must have strings as keys. Received: {list(gates)}"
        )
