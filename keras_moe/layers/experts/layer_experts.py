from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.experts.layers_on_blocks import layers_on_blocks
from keras_moe.layers.isolated_state import random_states
from keras_moe.layers.isolated_state import run_isolated
from keras_moe.ops._group_sizes import check_group_sizes
from keras_moe.ops._split_groups import split_groups
from keras_moe.ops._tracing import has_dynamic_shapes
from keras_moe.private_names import each_layer
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class LayerExperts(Experts):
    """A bank of arbitrary Keras layers or models, one per expert.

    `MoE` and `MMoE` make one of a plain list. Sparse execution calls each
    expert once on its rows; under XLA, where shapes must be static, on each
    block of its rows, in a loop for each expert.

    Attributes:
        experts: The list of layers.

    Args:
        experts: List of Keras layers or models that share an output shape.
            Sparse execution needs layers that treat each row on its own, add
            no losses when called and change no variables but random states.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(N, *features)`; with `group_sizes`,
            `(S, *features)`, the rows of the first expert, then those of the
            second, and so on.
        group_sizes: Int32 `(n,)`, how many rows each expert is called on.
            `None` calls all experts on all rows.
        training: Boolean, passed on to the experts.

    Returns:
        Tensor `(N, n, *outputs)`; with `group_sizes`, `(S, *outputs)`.

    Raises:
        TypeError: If `experts` is not a list of Keras layers.
        ValueError: If it is empty, holds a layer twice, or the layers'
            output shapes differ.

    Example:
        >>> experts = LayerExperts([keras.layers.Dense(8) for _ in range(4)])
        >>> tuple(experts(np.ones((2, 3))).shape)
        (2, 4, 8)
    """

    def __init__(
        self, experts: Sequence[keras.layers.Layer], **kwargs: object
    ) -> None:
        check_experts("experts", experts)
        super().__init__(len(experts), **kwargs)
        self.experts = list(experts)
        self._output_shapes: dict[Shape, Shape] = {}

    @property
    def sparse_unsupported_reason(self) -> str | None:
        for expert in self.experts:
            for layer in each_layer(expert):
                if isinstance(layer, keras.layers.BatchNormalization):
                    return (
                        f"expert {expert.name!r} holds the layer "
                        f"{layer.name!r}, whose output for a row depends on "
                        "the other rows (LayerNormalization does not)"
                    )
                if layer.activity_regularizer is not None:
                    return (
                        f"expert {expert.name!r} holds the layer "
                        f"{layer.name!r} with an activity regularizer, which "
                        "needs all rows"
                    )
        return None

    def build(self, input_shape: Shape) -> None:
        for expert in self.experts:
            if not expert.built:
                expert.build(input_shape)
        self.expert_output_shape(input_shape)

    def call(
        self,
        inputs: Tensor,
        group_sizes: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        if group_sizes is None:
            return ops.stack(  # (N, E, ...)
                [expert(inputs, training=training) for expert in self.experts],
                axis=1,
            )
        check_group_sizes(group_sizes, self.num_experts, inputs.shape[0])
        if has_dynamic_shapes():
            outputs = self._call_groups(inputs, group_sizes, training)
        else:
            outputs = self._call_blocks(inputs, group_sizes, training)
        return outputs + self._zero_of_all_weights()

    def _call_groups(
        self, inputs: Tensor, group_sizes: Tensor, training: bool | None
    ) -> Tensor:
        """Calls each expert once, on all of its rows."""
        *groups, rest = split_groups(inputs, group_sizes)
        # Not all layers know the shape of an output without any row. (As
        # padding, TensorFlow's oneDNN would take the row for a convolution's
        # own and lose it.)
        row = ops.zeros((1, *inputs.shape[1:]), inputs.dtype)
        states = random_states(self)

        def call(expert: keras.layers.Layer, group: Tensor) -> Tensor:
            # One row more goes in, and is left out again.
            return expert(ops.concatenate([group, row]), training=training)[:-1]

        def call_all() -> Tensor:
            outputs = list(map(call, self.experts, groups))
            shape = (ops.shape(rest)[0], *outputs[0].shape[1:])
            return ops.concatenate(  # (S, ...)
                [*outputs, ops.zeros(shape, outputs[0].dtype)]
            )

        outputs, ends = run_isolated(
            call_all, states, [s.value for s in states]
        )
        for state, end in zip(states, ends, strict=True):
            state.assign(end)
        return outputs

    def _call_blocks(
        self, inputs: Tensor, group_sizes: Tensor, training: bool | None
    ) -> Tensor:
        """Calls each expert on blocks of its rows, and puts them together."""
        if inputs.shape[0] == 0:
            shape = self.expert_output_shape(tuple(inputs.shape))
            return ops.zeros(shape, self.compute_dtype)
        return layers_on_blocks(self.experts, inputs, group_sizes, training)

    def _zero_of_all_weights(self) -> FloatLike:
        """A zero that gives experts that were not called a gradient of zeros.

        Eager PyTorch would leave it without one, and the optimizer would
        treat it unlike an expert of weight zero in dense execution.
        """
        if keras.backend.backend() != "torch":
            return 0.0
        return sum(
            ops.sum(ops.reshape(weight, (-1,))[:0])
            for weight in self.trainable_variables
        )

    def subset(self, indices: Sequence[int]) -> "LayerExperts":
        return type(self)(
            [self.experts[index] for index in indices], dtype=self.dtype_policy
        )

    def expert_output_shape(self, input_shape: Shape) -> Shape:
        # Tracing the experts for it takes longer than running them.
        key = tuple(input_shape)
        if key not in self._output_shapes:
            self._output_shapes[key] = self._common_output_shape(key)
        return self._output_shapes[key]

    def _common_output_shape(self, input_shape: Shape) -> Shape:
        inputs = keras.KerasTensor(input_shape, dtype=self.compute_dtype)
        shapes = [
            tuple(expert.compute_output_spec(inputs).shape)
            for expert in self.experts
        ]
        if len(set(shapes)) > 1:
            raise ValueError(
                "`experts` must share one output shape. Received: "
                + ", ".join(
                    f"{expert.name}: {shape}"
                    for expert, shape in zip(self.experts, shapes, strict=True)
                )
            )
        return shapes[0]

    def compute_output_shape(
        self,
        inputs_shape: Shape,
        group_sizes_shape: Shape | None = None,
    ) -> Shape:
        rows, *outputs = self.expert_output_shape(inputs_shape)
        if group_sizes_shape is not None:
            return (rows, *outputs)
        return (rows, self.num_experts, *outputs)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "experts": [
                keras.saving.serialize_keras_object(expert)
                for expert in self.experts
            ],
        }

    @classmethod
    def from_config(cls, config: Config) -> "LayerExperts":
        experts = [
            keras.saving.deserialize_keras_object(expert)
            for expert in config["experts"]
        ]
        return cls(**{**config, "experts": experts})


def check_experts(name: str, experts: object) -> None:
    """Raises an error unless `experts` are different layers in a list."""
    if not isinstance(experts, (list, tuple)) or not all(
        isinstance(expert, keras.layers.Layer) for expert in experts
    ):
        raise TypeError(
            f"`{name}` must be a list of Keras layers or models. "
            f"Received: {name}={experts!r}"
        )
    if not experts:
        raise ValueError(
            f"`{name}` must hold at least one layer. Received: {name}=[]"
        )
    if len({id(expert) for expert in experts}) < len(experts):
        raise ValueError(
            f"`{name}` must be different layers: a layer listed twice is "
            f"one expert. Received: {[expert.name for expert in experts]}"
        )
