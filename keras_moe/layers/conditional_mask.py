from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_positive
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.initialization import fan_in_uniform
from keras_moe.layers.initialization import independent
from keras_moe.ops._affine import affine
from keras_moe.ops._zero_but_nan import zero_but_nan
from keras_moe.ops.top_k import top_k_mask
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class ConditionalMask(CheckedLayer):
    """Keeps the units of a layer that a fixed random projection picks.

    For the outputs `x` of a layer with `N` units, and routing inputs `z`,

        c = z V,    m_i = 1 if c_i is among the k largest of c, else 0,
        masked = m ⊙ x,    routing = m ⊙ c,

    with a random matrix `V` that is never trained, and
    `k = max(1, floor(keep_rate · N))`. Similar routing inputs keep similar
    units, so each example has an expert of its own which overlaps with those
    of its like. The mask is the same in training and inference, nothing is
    rescaled, and no gradient passes through mask or routing. The units that
    are masked have been computed: this is a way to learn, not to save time.

    Exactly `k` units pass; ties go to the lower index, so routing inputs of
    zeros keep the first `k`. The paper's eq. 3 drops all units that tie for
    the last place, and so every unit for zeros.

    It goes after any `Dense` and its activation. The routing inputs are
    the inputs of the first such layer, and the `routing` of the mask before
    for the next: masks then depend on the first inputs alone, not on what
    has been learned. Centre these inputs: where all have one sign, as pixels
    in [0, 1] do, the mean decides, and some units never win.

    Attributes:
        routing_kernel: `V`, `(p, N)`, float32, not trainable; saved with
            the layer.
        k: The number of units that pass, known once the layer is built.

    Args:
        keep_rate: Number in `(0, 1]`, the share of the units that pass.
            Published experiments use 0.1, 0.5 and 0.9.
        seed: Optional integer. Seeds `V`, which is drawn from
            U(-1/√p, 1/√p).
        **kwargs: `name`, `dtype`. The mask and the routing are computed in
            float32 under any dtype policy, since a rounded routing decision
            is another decision.

    Call arguments:
        inputs: Tensor `(..., N)`, what is masked.
        routing_inputs: Tensor `(..., p)`, what decides. Its leading
            dimensions are those of `inputs`, or 1 where a mask is shared.

    Returns:
        Tuple `(masked, routing)`: `(..., N)` of the layer's compute dtype
        and `(..., N)` of float32.

    Raises:
        TypeError: If `keep_rate` is not a number.
        ValueError: If `keep_rate` is outside `(0, 1]`, or the inputs differ
            in their number of dimensions.

    Example:
        >>> mask = ConditionalMask(keep_rate=0.25)
        >>> masked, routing = mask(np.ones((2, 8)), np.array([[1.0], [-1.0]]))
        >>> [int(n) for n in keras.ops.sum(masked, axis=-1)]
        [2, 2]

        The MLP of a transformer's or mixer's block routes each token:

        >>> tokens = keras.Input((196, 64))
        >>> normalized = keras.layers.LayerNormalization()(tokens)
        >>> hidden = keras.layers.Dense(256, "tanh")(normalized)
        >>> hidden, _ = ConditionalMask(keep_rate=0.5)(hidden, normalized)
        >>> outputs = tokens + keras.layers.Dense(64)(hidden)
        >>> block = keras.Model(tokens, outputs)

        A chain through several layers hands the routing on:

        >>> hidden = routing = keras.Input((64,))
        >>> for units in (32, 16):
        ...     hidden = keras.layers.Dense(units, "tanh")(hidden)
        ...     hidden, routing = ConditionalMask(0.5)(hidden, routing)

    References:
        Shaier et al., More Experts Than Galaxies: Conditionally-Overlapping
        Experts with Biologically-Inspired Fixed Routing, ICLR 2025, section
        3, eq. 3 to 8; section 4.2.2 for ViT and MLP-Mixer.
    """

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return {"inputs": 2, "routing_inputs": 2}

    def __init__(
        self, keep_rate: float, seed: int | None = None, **kwargs: object
    ) -> None:
        # The routing inputs keep their precision.
        super().__init__(autocast=False, **kwargs)
        self.keep_rate = check_positive("keep_rate", keep_rate)
        if self.keep_rate > 1:
            raise ValueError(
                "`keep_rate` must be at most 1. "
                f"Received: keep_rate={keep_rate!r}"
            )
        self.seed = seed
        self.supports_masking = True

    def build(self, inputs_shape: Shape, routing_inputs_shape: Shape) -> None:
        _check_leading(inputs_shape, routing_inputs_shape)
        units: Any = inputs_shape[-1]
        # In floating point 0.29 * 100 is 28.999999999999996.
        self.k = max(1, int(self.keep_rate * units + 1e-9))
        self.routing_kernel = self.add_weight(
            name="routing_kernel",
            shape=(routing_inputs_shape[-1], units),
            dtype="float32",
            autocast=False,
            initializer=independent(fan_in_uniform(), 0, self.seed),
            trainable=False,
        )

    def call(
        self, inputs: Tensor, routing_inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        _check_leading(inputs.shape, routing_inputs.shape)
        self._check_widths(inputs.shape, routing_inputs.shape)
        logits = ops.stop_gradient(
            affine(ops.cast(routing_inputs, "float32"), self.routing_kernel)
        )
        kept = top_k_mask(logits, self.k)
        dropped = zero_but_nan(logits)
        masked = ops.where(
            kept,
            ops.cast(inputs, self.compute_dtype),
            ops.cast(dropped, self.compute_dtype),
        )
        return masked, ops.where(kept, logits, dropped)

    def _check_widths(
        self, inputs_shape: Shape, routing_inputs_shape: Shape
    ) -> None:
        received = (routing_inputs_shape[-1], inputs_shape[-1])
        expected = tuple(self.routing_kernel.shape)
        if any(
            size not in (None, known)
            for size, known in zip(received, expected, strict=True)
        ):
            raise ValueError(
                f"`inputs` must have {expected[1]} units, and `routing_inputs` "
                f"{expected[0]}, the sizes of their last axes when the layer "
                f"was built. Received: inputs of shape {tuple(inputs_shape)}, "
                f"routing_inputs of shape {tuple(routing_inputs_shape)}"
            )

    def compute_mask(
        self, inputs: Structure, previous_mask: Structure
    ) -> tuple[Tensor | None, Tensor | None]:
        return previous_mask, previous_mask

    def compute_output_shape(
        self, inputs_shape: Shape, routing_inputs_shape: Shape
    ) -> tuple[Shape, Shape]:
        return inputs_shape, (*routing_inputs_shape[:-1], inputs_shape[-1])

    def compute_output_spec(
        self, inputs: Tensor, routing_inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        masked, routing = super().compute_output_spec(inputs, routing_inputs)
        return masked, keras.KerasTensor(routing.shape, dtype="float32")

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "keep_rate": self.keep_rate,
            "seed": self.seed,
        }


def _check_leading(inputs_shape: Shape, routing_inputs_shape: Shape) -> None:
    """Raises an error unless a mask of one can be one of the other."""
    received = (
        f"Received: inputs of shape {tuple(inputs_shape)}, routing_inputs "
        f"of shape {tuple(routing_inputs_shape)}"
    )
    if len(inputs_shape) != len(routing_inputs_shape):
        raise ValueError(
            "`routing_inputs` must have as many dimensions as `inputs`. "
            + received
        )
    if not all(
        theirs in (1, None) or ours is None or theirs == ours
        for ours, theirs in zip(
            inputs_shape[:-1], routing_inputs_shape[:-1], strict=True
        )
    ):
        raise ValueError(
            "`routing_inputs` must have the leading dimensions of `inputs`, "
            "or 1 where a mask is shared. " + received
        )
