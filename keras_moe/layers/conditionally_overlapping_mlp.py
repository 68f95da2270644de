from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_choice
from keras_moe.checks import check_size
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.conditional_mask import ConditionalMask
from keras_moe.layers.configuration import serialized_parameters
from keras_moe.layers.initialization import derived_seed
from keras_moe.layers.initialization import fan_in_uniform
from keras_moe.layers.initialization import independent
from keras_moe.ops.gathered_matmul import gathered_matmul
from keras_moe.ops.top_k import top_k_indices
from keras_moe.types import ActivationLike
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class ConditionallyOverlappingMLP(CheckedLayer):
    """A perceptron in which every example trains a subset of units of its own.

    Beside the layers `x_l = f(x_{l-1} W_l + b_l)` stands a routing network of
    the same widths, with random matrices `V_l` that are never trained. From
    `z_0 = x_0`, the input, each hidden layer computes

        c_l = z_{l-1} V_l,    m_l = 1 on the k_l largest of c_l, 0 elsewhere,
        z_l = m_l ⊙ c_l,      x_l = m_l ⊙ f(x_{l-1} W_l + b_l).

    The paper's eq. 7 leaves out `b_l`, and `k_l` has no floor of one unit
    there. The last layer is not masked, and linear unless `output_activation`
    says otherwise. `ConditionalMask` is the masking alone, and says more of
    it.

    Dense execution computes all units and masks them: it learns as the paper
    says, and saves nothing. Sparse execution reads the rows of each matrix
    that belong to active units, and no others: for batches of one example or
    few, where reading the matrices is what takes the time.

    Attributes:
        dense_layers: The list of `L` `Dense` layers.
        masks: The list of `L - 1` `ConditionalMask`s, each with its fixed
            matrix `V_l`, `(N_{l-1}, N_l)`, in `routing_kernel`.

    Args:
        units: List of integers `[N_1, ..., N_L]`: the widths of the hidden
            layers, at least one, and last the width of the output.
        keep_rate: Number in `(0, 1]`, or a list of one for each hidden
            layer: the share `p_l` of the units that pass. Exactly
            `k_l = max(1, floor(p_l N_l))` do. Published experiments use 0.1,
            0.5 and 0.9.
        activation: Activation `f` of the hidden layers, defaults to
            `"tanh"`. The paper finds GELU, SiLU and Mish less suited.
        seed: Optional integer, for the `V_l` and the initializers.
        output_activation: Activation of the output, defaults to `None`.
        use_bias: Boolean, defaults to `True`.
        kernel_initializer: Initializer of each `W_l`. Defaults to `None`,
            U(-1/√N_{l-1}, 1/√N_{l-1}), the published one and that of `V_l`.
        bias_initializer: Defaults to `"zeros"`; the paper does not name one.
        kernel_regularizer: Optional regularizer of each kernel.
        bias_regularizer: Optional regularizer of each bias.
        execution: `"dense"` (default) or `"sparse"`, which compute the same
            to float32 rounding where `activation` treats each unit on its
            own. Per example, layers after the first read `p_(l-1)` of both
            of their matrices; a batch of B reads `B p_(l-1)` of them, where
            dense execution reads them once: it pays for few examples, and
            small rates. An attribute of the same name may be changed after
            the training, before anything is compiled.
        **kwargs: `name`, `trainable`, `dtype`. Masks are computed in float32
            under any dtype policy.

    Call arguments:
        inputs: Tensor `(..., p)`, best centred: pixels in [0, 1] leave some
            units without any example.

    Returns:
        Tensor `(..., N_L)`, of the layer's compute dtype.

    Raises:
        TypeError: If `units` holds anything but integers, or `keep_rate`
            anything but numbers.
        ValueError: If `units` has less than two entries or one outside
            `[1, 2^31)`, or `keep_rate` has one outside `(0, 1]` or not one for
            each hidden layer, or `execution` is unknown.

    Example:
        >>> mlp = ConditionallyOverlappingMLP([64, 64, 10], keep_rate=0.5)
        >>> tuple(mlp(np.ones((2, 8))).shape)
        (2, 10)
        >>> [mask.k for mask in mlp.masks]
        [32, 32]

    References:
        Shaier et al., More Experts Than Galaxies: Conditionally-Overlapping
        Experts with Biologically-Inspired Fixed Routing, ICLR 2025, section
        3, eq. 3 to 8, and the distribution of `W_l` and `V_l` before eq. 3;
        appendix A.6 for activations.
    """

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return {"inputs": 2}

    def __init__(
        self,
        units: Sequence[int],
        keep_rate: float | Sequence[float],
        activation: ActivationLike = "tanh",
        seed: int | None = None,
        output_activation: ActivationLike = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike | None = None,
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        execution: str = "dense",
        **kwargs: object,
    ) -> None:
        # The masks see the inputs in full precision; each Dense casts them.
        super().__init__(autocast=False, **kwargs)
        self.units = _check_units(units)
        self.activation = keras.activations.get(activation)
        self.seed = seed
        self.output_activation = keras.activations.get(output_activation)
        self.use_bias = use_bias
        self.kernel_initializer = (
            fan_in_uniform()
            if kernel_initializer is None
            else keras.initializers.get(kernel_initializer)
        )
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.execution = check_choice(
            "execution", execution, ("dense", "sparse")
        )
        self.supports_masking = True
        self.dense_layers = [
            self._make_dense(layer) for layer in range(len(self.units))
        ]
        rates = _rate_per_layer(keep_rate, len(self.units) - 1)
        self.masks = [
            self._make_mask(layer, rate) for layer, rate in enumerate(rates)
        ]
        self.keep_rate = [mask.keep_rate for mask in self.masks]

    def _make_dense(self, layer: int) -> keras.layers.Dense:
        is_output = layer == len(self.units) - 1
        return keras.layers.Dense(
            self.units[layer],
            self.output_activation if is_output else self.activation,
            use_bias=self.use_bias,
            kernel_initializer=independent(
                self.kernel_initializer, 2 * layer, self.seed
            ),
            bias_initializer=independent(
                self.bias_initializer, 2 * layer + 1, self.seed
            ),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            dtype=self.dtype_policy,
            name=f"dense_{layer}",
        )

    def _make_mask(self, layer: int, keep_rate: float) -> ConditionalMask:
        index = 2 * len(self.units) + layer  # After those of the weights.
        return ConditionalMask(
            keep_rate,
            seed=None if self.seed is None else derived_seed(self.seed, index),
            dtype=self.dtype_policy,
            name=f"mask_{layer}",
        )

    def build(self, input_shape: Shape) -> None:
        *hidden_layers, output_layer = self.dense_layers
        shape = input_shape
        for dense, mask in zip(hidden_layers, self.masks, strict=True):
            dense.build(shape)
            hidden_shape = (*shape[:-1], dense.units)
            mask.build(hidden_shape, shape)
            shape = hidden_shape
        output_layer.build(shape)

    @property
    def _widths(self) -> dict[str, int | None]:
        kernel = self.dense_layers[0].kernel if self.built else None
        return {} if kernel is None else {"inputs": kernel.shape[0]}

    def call(self, inputs: Tensor) -> Tensor:
        if self.execution == "sparse":
            return self._compute_active(inputs)
        *hidden_layers, output_layer = self.dense_layers
        outputs = routing = inputs
        for dense, mask in zip(hidden_layers, self.masks, strict=True):
            outputs, routing = mask(dense(outputs), routing)
        return output_layer(outputs)

    def _compute_active(self, inputs: Tensor) -> Tensor:
        """Computes the active units alone, from the active ones before."""
        *hidden_layers, output_layer = self.dense_layers
        inputs = ops.convert_to_tensor(inputs)
        routing = ops.reshape(
            ops.cast(inputs, "float32"), (-1, inputs.shape[-1])
        )  # (N, p)
        outputs = ops.cast(routing, self.compute_dtype)
        active = None  # Of the inputs, all.
        for dense, mask in zip(hidden_layers, self.masks, strict=True):
            logits = ops.stop_gradient(
                _product(routing, mask.routing_kernel, active)
            )  # (N, N_l)
            hidden = self._affine(outputs, dense, active)  # (N, N_l)
            active = top_k_indices(logits, mask.k)  # (N, k_l)
            routing = ops.take_along_axis(logits, active, axis=-1)
            outputs = dense.activation(
                ops.take_along_axis(hidden, active, axis=-1)
            )
        outputs = output_layer.activation(
            self._affine(outputs, output_layer, active)
        )
        # (N, N_L) to (..., N_L)
        return ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.units[-1]))

    def _affine(
        self, inputs: Tensor, dense: keras.layers.Dense, active: Tensor | None
    ) -> Tensor:
        kernel = ops.cast(dense.kernel, self.compute_dtype)
        products = _product(inputs, kernel, active)
        if dense.bias is None:
            return products
        return products + ops.cast(dense.bias, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units[-1])

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **serialized_parameters(self),
            "units": self.units,
            "keep_rate": self.keep_rate,
            "activation": keras.activations.serialize(self.activation),
            "seed": self.seed,
            "output_activation": keras.activations.serialize(
                self.output_activation
            ),
            "use_bias": self.use_bias,
            "execution": self.execution,
        }


def _product(inputs: Tensor, kernel: Tensor, active: Tensor | None) -> Tensor:
    """`inputs @ kernel`, of inputs whose other entries are 0 if any are."""
    if active is None:
        return ops.matmul(inputs, kernel)
    return gathered_matmul(inputs, kernel, active)


def _check_units(units: Sequence[int]) -> list[int]:
    if not isinstance(units, (list, tuple)) or len(units) < 2:
        raise ValueError(
            "`units` must be a list of the widths of at least one hidden "
            f"layer and of the output. Received: units={units!r}"
        )
    return [check_size("units", width) for width in units]


def _rate_per_layer(keep_rate: Any, num_layers: int) -> list[float]:
    if not isinstance(keep_rate, (list, tuple)):
        return [keep_rate] * num_layers
    if len(keep_rate) != num_layers:
        raise ValueError(
            "`keep_rate` must be a number, or a list of one for each of the "
            f"{num_layers} hidden layers. Received: keep_rate={keep_rate!r}"
        )
    return list(keep_rate)
