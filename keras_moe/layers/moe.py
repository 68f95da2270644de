from collections.abc import Sequence

import keras

from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_gate
from keras_moe.layers.mixture import Mixture
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class MoE(Mixture):
    """A mixture of experts for one task: `y = sum_i g(x)_i f_i(x)`.

    Args:
        gate: The gate `g`, for example `COMETGate(num_experts=16, k=2)`.
        experts: The experts `f_i`: `MLPExperts`, or a list of Keras layers
            or models that share an output shape. As many as the gate weighs.
        execution: `"dense"` evaluates all experts. `"sparse"` evaluates only
            what is selected, at most `gate.k` experts per row; a gate that
            gives weight to more keeps its `k` largest, rescaled to the same
            sum. `"auto"` (default) is exact: it evaluates only the pairs
            (row, expert) that carry weight, where that pays for the number
            of them in the batch, and all experts otherwise, decided for
            each batch within the compiled graph. Where shapes are static,
            they must also fit a `pair_budget`. All three agree whenever no
            row exceeds `k`.
        shared_experts: Experts `s_j` that no gate weighs, `MLPExperts` or a
            list of layers with the outputs' shape of `experts`: all of them
            compute every row, and `sum_j s_j(x)` is added to the output.
            Devices that split experts all have them. Defaults to `None`.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`, what the experts compute on.
        gate_inputs: Tensor `(..., p)`, or ids `(...)` for a `HashGate`; its
            leading dimensions say what is routed. Defaults to `inputs`.
        training: Boolean.
        mask: Boolean tensor, false for padding, with one entry for every
            routed row. Defaults to the Keras mask of the gate inputs, or of
            the inputs, where there is one. A masked row takes no expert:
            its output is zero.
        budget: Experts per row on average, for a gate that takes it:
            a number, or a tensor, a scalar or one per row. Defaults to the
            `k` of the gate.

    Returns:
        Tensor `(..., *outputs)`, `outputs` being the shape of one expert's
        output, of the layer's compute dtype.

    Raises:
        TypeError: If `gate` is not a gate or `experts` are not layers.
        ValueError: If gate and experts differ in number, the experts in
            their output shapes, `execution` is unknown, or `"sparse"` with a
            dense gate or with experts that need the whole batch.

    Example:
        >>> mixture = MoE(TopKGate(num_experts=4, k=2), MLPExperts(4, 8))
        >>> tuple(mixture(np.ones((2, 3))).shape)
        (2, 8)
        >>> mixture = MoE(
        ...     TopKGate(num_experts=8, k=3),
        ...     MLPExperts(4, [16, 8], split=2),
        ...     shared_experts=MLPExperts(1, [8, 8]),
        ... )
        >>> tuple(mixture(np.ones((2, 3))).shape)
        (2, 8)

    References:
        Shazeer et al., Outrageously Large Neural Networks: The
        Sparsely-Gated Mixture-of-Experts Layer, ICLR 2017, eq. 1.
        Dai et al., DeepSeekMoE: Towards Ultimate Expert Specialization in
        Mixture-of-Experts Language Models, 2024, section 3.2, eq. 9 (shared
        experts; the residual there is the caller's).
    """

    def __init__(
        self,
        gate: Gate,
        experts: Experts | Sequence[keras.layers.Layer],
        execution: str = "auto",
        shared_experts: Experts | Sequence[keras.layers.Layer] | None = None,
        **kwargs: object,
    ) -> None:
        check_gate("gate", gate)
        super().__init__([gate], experts, execution, shared_experts, **kwargs)
        self.gate = gate

    @property
    def _gate_list(self) -> list[Gate]:
        return [self.gate]

    def build(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> None:
        self._build(inputs_shape, [gate_inputs_shape or inputs_shape])

    def call(
        self,
        inputs: Tensor,
        gate_inputs: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
        gate_inputs_mask: Tensor | None = None,
        budget: FloatLike | None = None,
    ) -> Tensor:
        gate_inputs = inputs if gate_inputs is None else gate_inputs
        return self._mix(
            inputs,
            [gate_inputs],
            [self.name],
            training,
            mask,
            # Keras names a mask after its argument where there are several.
            [gate_inputs_mask],
            inputs_mask,
            budget,
        )[0]

    def compute_mask(
        self, inputs: Structure, previous_mask: Structure
    ) -> Tensor | None:
        return self._output_mask(previous_mask)

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Shape | None = None
    ) -> Shape:
        return self._task_output_shape(
            inputs_shape, [gate_inputs_shape or inputs_shape]
        )

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "gate": keras.saving.serialize_keras_object(self.gate),
        }
