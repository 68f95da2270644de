from collections.abc import Collection
from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.checks import check_size
from keras_moe.layers.configuration import serialized_parameters
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.float_inputs import as_float
from keras_moe.layers.initialization import Initializer
from keras_moe.layers.initialization import PerExpert
from keras_moe.layers.initialization import derived_seed
from keras_moe.ops._pairs import Pairs
from keras_moe.ops.grouped_matmul import grouped_matmul
from keras_moe.types import Activation
from keras_moe.types import ActivationLike
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class MLPExperts(Experts):
    """A bank of multi-layer perceptrons with stacked weights.

    Expert `i` computes `dropout(activation(x W_i + b_i))`, once for every
    entry of `units`. All experts are one batched computation.

    Attributes:
        num_experts: Integer `n`, the experts of the bank after the split.
        units: List of integers, the widths of their layers.
        activations: One function per layer.
        kernels: One `(n, inputs, units)` weight per layer.
        biases: One `(n, units)` weight per layer; empty with `use_bias=False`.

    Args:
        num_experts: Integer `n >= 1`.
        units: Integer or list of integers, the width of each layer.
        activation: Activation after every layer, or a list of one for each.
            `None` is linear: `["gelu", None]` makes the feed-forward pair of
            a Transformer. Defaults to `"relu"`.
        dropout: Float in `[0, 1)`, the share of each layer's outputs that
            is dropped while training. Defaults to 0.
        use_bias: Boolean, defaults to `True`.
        kernel_initializer: Defaults to `"glorot_uniform"`; drawn for each
            expert with its own fans and its own values.
        bias_initializer: Defaults to `"zeros"`.
        kernel_regularizer: Optional regularizer of each kernel.
        bias_regularizer: Optional regularizer of each bias.
        seed: Optional integer, for the initializers and the dropout.
        split: Integer `m`, into how many smaller experts each one is cut:
            the bank has `num_experts * m` experts, which a gate has to weigh,
            and hidden layers of `units / m`; the last width, that of the
            outputs, stays. With one hidden layer, the kernels have as many
            entries as before; between two hidden layers, `m` times fewer.
            Each small expert is drawn as one of its size. Defaults to 1.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., d)`; with `group_sizes`, `(S, d)`, the rows of
            the first expert, then those of the second, and so on. Integers
            are taken as numbers, as `keras.layers.Dense` does.
        group_sizes: Int32 `(n,)`, how many rows each expert computes. `None`
            computes all experts on all rows.
        training: Boolean, whether to apply dropout.
        pairs: For the mixtures of this package, see `Experts._takes_pairs`.

    Returns:
        Tensor `(..., n, units[-1])`, of the layer's compute dtype; with
        `group_sizes`, `(S, units[-1])`.

    Raises:
        TypeError: If `units` holds anything but integers.
        ValueError: If `units` is empty or has an entry outside `[1, 2^31)`,
            `activation` is a list of another length, `dropout` is outside
            `[0, 1)`, or `split` is above 1 and there is no hidden layer or
            one whose width it does not divide.

    Example:
        >>> experts = MLPExperts(num_experts=4, units=[16, 8])
        >>> tuple(experts(np.ones((2, 3))).shape)
        (2, 4, 8)
        >>> small = MLPExperts(num_experts=4, units=[16, 8], split=2)
        >>> small.num_experts, small.units
        (8, [8, 8])

    References:
        Dai et al., DeepSeekMoE: Towards Ultimate Expert Specialization in
        Mixture-of-Experts Language Models, 2024, section 3.1 (`split`).
    """

    feature_rank = 1
    stacked = True

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return {"inputs": 2, "group_sizes": 1}

    def __init__(
        self,
        num_experts: int,
        units: int | Sequence[int],
        activation: ActivationLike | list[ActivationLike] = "relu",
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        seed: int | None = None,
        split: int = 1,
        **kwargs: object,
    ) -> None:
        split = check_size("split", split)
        num_experts = check_size("num_experts", num_experts)
        super().__init__(num_experts * split, **kwargs)
        self.split = split
        self.units = _split_units(_check_units(units), split)
        self.activations = _get_activations(activation, len(self.units))
        if not 0 <= dropout < 1:
            raise ValueError(
                f"`dropout` must be in [0, 1). Received: dropout={dropout!r}"
            )
        self.dropout = dropout
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.seed = seed
        if dropout > 0:
            next_index = 2 * len(self.units)  # After those of the weights.
            self.seed_generator = keras.random.SeedGenerator(
                None if seed is None else derived_seed(seed, next_index)
            )

    def _hidden_arguments(self) -> Collection[str]:
        return {"name", "split"} if self.split == 1 else {"name"}

    @property
    def _described_count(self) -> str:
        if self.split == 1:
            return super()._described_count
        return (
            f"num_experts={self.num_experts}, {self.num_experts // self.split} "
            f"of them split into {self.split} each"
        )

    @property
    def row_cost(self) -> int | None:
        return sum(kernel.shape[1] * kernel.shape[2] for kernel in self.kernels)

    def _values_of_layers(self, input_shape: Shape) -> int:
        return sum(self.units)

    def build(self, input_shape: Shape) -> None:
        self.kernels = []
        self.biases = []
        self.input_spec = keras.layers.InputSpec(axes={-1: input_shape[-1]})
        width = input_shape[-1]
        for layer, units in enumerate(self.units):
            self.kernels.append(self._add_kernel(layer, width, units))
            if self.use_bias:
                self.biases.append(
                    self.add_weight(
                        name=f"bias_{layer}",
                        shape=(self.num_experts, units),
                        initializer=self._per_expert(
                            self.bias_initializer, 2 * layer + 1
                        ),
                        regularizer=self.bias_regularizer,
                    )
                )
            width = units

    def _add_kernel(
        self, layer: int, width: int | None, units: int
    ) -> keras.Variable:
        return self.add_weight(
            name=f"kernel_{layer}",
            shape=(self.num_experts, width, units),
            initializer=self._per_expert(self.kernel_initializer, 2 * layer),
            regularizer=self.kernel_regularizer,
        )

    def _kernel_values(self) -> list[Tensor]:
        """The kernels that are computed with."""
        # The values: of them, a device may have those of some experts.
        return [ops.convert_to_tensor(kernel) for kernel in self.kernels]

    @property
    def _widths(self) -> dict[str, int | None]:
        return {"inputs": self.kernels[0].shape[1]} if self.built else {}

    def _per_expert(self, initializer: Initializer, index: int) -> PerExpert:
        return PerExpert(
            initializer, index, self.seed, self._place or self.name
        )

    def call(
        self,
        inputs: Tensor,
        group_sizes: Tensor | None = None,
        training: bool | None = None,
        pairs: Pairs | None = None,
    ) -> Tensor:
        inputs = as_float(inputs, self.compute_dtype)
        if pairs is not None and group_sizes is not None:
            return self._call_on_pairs(inputs, pairs, group_sizes, training)
        outputs = ops.reshape(inputs, (-1, inputs.shape[-1]))  # (N or S, D)
        outputs = self._expert_inputs(outputs, group_sizes)
        kernels = self._kernel_values()
        biases = [ops.convert_to_tensor(bias) for bias in self.biases]
        for layer, kernel in enumerate(kernels):
            bias = biases[layer] if self.use_bias else None
            if group_sizes is not None:
                outputs = grouped_matmul(
                    outputs, kernel, group_sizes, bias, self.activations[layer]
                )
            else:
                outputs = _all_experts(outputs, kernel)
                if bias is not None:
                    outputs = outputs + bias
                outputs = self.activations[layer](outputs)
            outputs = self._layer_outputs(layer, outputs, group_sizes)
            if training and self.dropout > 0:
                outputs = self._drop_out(outputs)
        if group_sizes is None:
            leading = ops.shape(inputs)[:-1]
            outputs = ops.reshape(  # (N, E, H) to (..., E, H)
                outputs, (*leading, *outputs.shape[1:])
            )
        return outputs

    def _expert_inputs(
        self, inputs: Tensor, group_sizes: Tensor | None
    ) -> Tensor:
        """What the experts make of their inputs, for subclasses.

        Args:
            inputs: Tensor `(N, D)`, or `(S, D)` with `group_sizes`.
            group_sizes: Those of `call`.

        Returns:
            Tensor like the inputs, or `(N, E, D)` where experts differ.
        """
        return inputs

    def _layer_outputs(
        self, layer: int, outputs: Tensor, group_sizes: Tensor | None
    ) -> Tensor:
        """What is made of a layer's activations, for subclasses.

        Args:
            layer: Number of the layer, from 0.
            outputs: Tensor `(N, E, H)`, or `(S, H)` with `group_sizes`.
            group_sizes: Those of `call`.

        Returns:
            Tensor of the same shape and dtype.
        """
        return outputs

    def _drop_out(self, outputs: Tensor) -> Tensor:
        return keras.random.dropout(
            outputs, self.dropout, seed=self.seed_generator
        )

    def _call_on_pairs(
        self,
        inputs: Tensor,
        pairs: Pairs,
        group_sizes: Tensor,
        training: bool | None,
    ) -> Tensor:
        """Computes each pair, see `_takes_pairs`."""
        from keras_moe.ops._pair_blocks import Perceptrons
        from keras_moe.ops._pair_blocks import perceptrons_on_pairs

        kernels = self._kernel_values()
        biases = [ops.convert_to_tensor(bias) for bias in self.biases]
        if not self.use_bias:
            biases = [ops.zeros_like(kernel[:, 0]) for kernel in kernels]
        kept: list[Tensor | None] = [None] * len(kernels)
        if training and self.dropout > 0:
            shapes = [(pairs.rows.shape[0], units) for units in self.units]
            kept = [
                self._drop_out(ops.ones(shape, inputs.dtype)) > 0
                for shape in shapes
            ]
        return perceptrons_on_pairs(
            Perceptrons(tuple(self.activations), self.dropout),
            inputs,
            kernels,
            biases,
            kept,
            pairs,
            group_sizes,
        )

    @property
    def _takes_pairs(self) -> bool:
        """On JAX, where the loop over blocks is compiled and pays.

        Activations that are not Keras's own may have weights, or states that
        no loop can change; and a subclass may compute anything.
        """
        if keras.backend.backend() != "jax":
            return False
        from keras_moe.ops._ragged_dot import has_ragged_kernel

        return (
            not has_ragged_kernel()
            and all(map(_is_of_keras, self.activations))
            and type(self).call is MLPExperts.call
        )

    def subset(self, indices: Sequence[int]) -> "MLPExperts":
        config = {
            **self.get_config(),
            "num_experts": len(indices),
            "units": self.units,
            "split": 1,
        }
        kept: MLPExperts = type(self).from_config(config)
        kept.build((None, self.kernels[0].shape[1]))
        for mine, theirs in zip(
            [*self.kernels, *self.biases],
            [*kept.kernels, *kept.biases],
            strict=True,
        ):
            # (E, ...) to (indices, ...)
            theirs.assign(ops.take(mine.value, list(indices), axis=0))
        return kept

    def expert_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units[-1])

    def compute_output_shape(
        self,
        inputs_shape: Shape,
        group_sizes_shape: Shape | None = None,
    ) -> Shape:
        if group_sizes_shape is not None:
            return self.expert_output_shape(inputs_shape)
        return (*inputs_shape[:-1], self.num_experts, self.units[-1])

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **serialized_parameters(self),
            "num_experts": self.num_experts // self.split,
            "units": [
                *(width * self.split for width in self.units[:-1]),
                self.units[-1],
            ],
            "activation": _serialized(self.activations),
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "seed": self.seed,
            "split": self.split,
        }


def _all_experts(inputs: Tensor, kernel: Tensor) -> Tensor:
    """`(N, D)` shared by all experts, or `(N, E, D)`, to `(N, E, H)`."""
    if len(inputs.shape) == 2:
        return ops.einsum("nd,edh->neh", inputs, kernel)
    return ops.einsum("ned,edh->neh", inputs, kernel)


def _check_units(units: int | Sequence[int]) -> list[int]:
    widths = list(units) if isinstance(units, (list, tuple)) else [units]
    if not widths:
        raise ValueError(
            f"`units` must name at least one width. Received: units={units!r}"
        )
    return [check_size("units", width) for width in widths]


def _split_units(units: list[int], split: int) -> list[int]:
    """The widths of experts that are cut into `split` smaller ones."""
    if split == 1:
        return units
    *hidden, last = units
    if not hidden:
        raise ValueError(
            "`split` must be 1 for experts of one layer: what is cut is the "
            f"width of hidden layers. Received: split={split}, units={units}"
        )
    if any(width % split for width in hidden):
        raise ValueError(
            "`split` must divide the width of each hidden layer, the entries "
            f"of `units` but the last. Received: split={split}, units={units}"
        )
    return [*(width // split for width in hidden), last]


def _get_activations(
    activation: ActivationLike | list[ActivationLike], num_layers: int
) -> list[Activation]:
    """One function for each layer."""
    if not isinstance(activation, (list, tuple)):
        activation = [activation] * num_layers
    if len(activation) != num_layers:
        raise ValueError(
            "`activation` as a list must have one entry per layer, "
            f"{num_layers}. Received: activation={activation!r}"
        )
    return [keras.activations.get(entry) for entry in activation]


def _serialized(activations: Sequence[Activation]) -> object:
    """As a constructor takes them: one for all layers where they are alike."""
    configs = [
        keras.activations.serialize(activation) for activation in activations
    ]
    alike = all(config == configs[0] for config in configs)
    return configs[0] if alike else configs


def _is_of_keras(activation: Activation) -> bool:
    name = getattr(activation, "__name__", "")
    return getattr(keras.activations, name, None) is activation
