"""The perceptrons that are compared, and how each keeps units inactive.

Where the paper (Shaier et al., section 3 and 4.2.1) leaves it open, or is left:

* All have biases, from zero; its eq. 7 has none.
* Exactly `k_l = max(1, floor(p N_l))` units are active. Its eq. 3 keeps no unit
  of those that tie for the last place: none at all of an input of zeros.
  Inputs of real numbers do not tie.
* "moe" and "fixed-moe": the paper's router is "an MLP with one hidden layer"
  and a sparse output. Here it has `p N` ReLU units, and one expert is active,
  times its softmax probability, without a loss for the balance.
* "l1": the weight of the penalty, on the kernels of the hidden layers.
* "bernoulli" and "example-tied": rows of the test have random masks of their
  own. Maini et al. leave the units of single examples out of the test.
"""

from collections.abc import Callable
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import keras

from keras_moe.layers import ConditionallyOverlappingMLP
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SwitchGate
from studies.example_mask import ExampleMask
from studies.sparse_hidden import L1_WEIGHT
from studies.sparse_hidden import active_units
from studies.sparse_hidden import dense
from studies.sparse_hidden import fan_in_uniform
from studies.sparse_hidden import hidden_layer

# Of Maini et al. (2023), section 5; Shaier et al. name no share.
GENERALIZATION_SHARE = 0.2


@dataclass(frozen=True)
class Shape:
    """Sizes of a perceptron.

    Attributes:
        width: Units of each hidden layer.
        num_hidden: Hidden layers; 3 and the output make the published 4.
        num_outputs: Classes, or 1 for a regression.
        activation: Name of the activation of the hidden layers. Figure 4
            does not name one; the paper's other networks have tanh.
    """

    width: int
    num_outputs: int
    num_hidden: int = 3
    activation: str = "tanh"

    @property
    def widths(self) -> list[int]:
        """Units of each hidden layer, one after the other."""
        return [self.width] * self.num_hidden


Build = Callable[[Any, Any, Shape, float], Any]


def _stacked(kind: str) -> Build:
    """Hidden layers of one kind, each on the outputs of the one before."""

    def build(x: Any, examples: Any, shape: Shape, keep_rate: float) -> Any:
        layer = hidden_layer(kind, keep_rate, shape.activation)
        for width in shape.widths:
            x = layer(x, width)
        return dense(shape.num_outputs)(x)

    return build


def _overlapping(x: Any, examples: Any, shape: Shape, keep_rate: float) -> Any:
    return ConditionallyOverlappingMLP(
        [*shape.widths, shape.num_outputs], keep_rate, shape.activation
    )(x)


def _mixture(is_trained: bool) -> Build:
    """floor(1/p) perceptrons of p N units a layer, one of them an example."""

    def build(x: Any, examples: Any, shape: Shape, keep_rate: float) -> Any:
        num_experts = num_experts_of(keep_rate)
        width = active_units(shape.width, keep_rate)
        router = dense(width, "relu", trainable=is_trained)(x)
        gate = SwitchGate(num_experts, k=1, jitter=0.0, trainable=is_trained)
        experts = MLPExperts(
            num_experts,
            [*[width] * shape.num_hidden, shape.num_outputs],
            activation=[*[shape.activation] * shape.num_hidden, None],
            kernel_initializer=fan_in_uniform(),
        )
        return MoE(gate, experts)(x, gate_inputs=router)

    return build


def _example_tied(always_active: float) -> Build:
    def build(x: Any, examples: Any, shape: Shape, keep_rate: float) -> Any:
        for layer, width in enumerate(shape.widths):
            mask = ExampleMask(keep_rate, layer, always_active)
            x = mask(dense(width, shape.activation)(x), examples)
        return dense(shape.num_outputs)(x)

    return build


PERCEPTRONS: dict[str, Build] = {
    "overlapping": _overlapping,
    "standard": _stacked("standard"),
    "smaller": _stacked("smaller"),
    "dropout": _stacked("dropout"),
    "top-k": _stacked("top-k"),
    "moe": _mixture(is_trained=True),
    "fixed-moe": _mixture(is_trained=False),
    "layer-wise": _stacked("routed"),
    "bernoulli": _example_tied(0.0),
    "example-tied": _example_tied(GENERALIZATION_SHARE),
    "l1": _stacked("l1"),
}


_CHOICES = {
    "moe": "a router of p N ReLU units, one expert for each row, no loss for "
    "the balance (not published)",
    "example-tied": f"{GENERALIZATION_SHARE:.0%} of the units always active, "
    "and random masks in the test (not published)",
    "l1": f"an L1 penalty of {L1_WEIGHT:g} on the hidden kernels (not "
    "published)",
}


def num_experts_of(keep_rate: float) -> int:
    """How many experts of a share `p` of the units a mixture has, `⌊1/p⌋`.

    Example:
    >>> [num_experts_of(keep_rate) for keep_rate in (0.1, 0.5, 0.9)]
    [10, 2, 1]
    """
    return int(1 / keep_rate + 1e-9)


def choices(names: Collection[str]) -> list[str]:
    """Says what of these perceptrons the paper does not.

    Args:
        names: Some of `PERCEPTRONS`.

    Example:
    >>> choices(["standard", "l1"])
    ['an L1 penalty of 1e-05 on the hidden kernels (not published)']
    """
    return [note for name, note in _CHOICES.items() if name in names]


def exists(name: str, keep_rate: float) -> bool:
    """Whether there is such a perceptron: a mixture needs two experts.

    With one expert it is the "smaller" perceptron.

    Args:
        name: One of `PERCEPTRONS`.
        keep_rate: The share of the units that are active.
    """
    return "moe" not in name or num_experts_of(keep_rate) > 1


def perceptron(
    name: str, input_shape: tuple[int, ...], shape: Shape, keep_rate: float
) -> keras.Model:
    """Builds one of the perceptrons of figure 4.

    Args:
        name: `"overlapping"`, the paper's; or what it is compared with:
            `"standard"`, `"smaller"`, `"dropout"`, `"top-k"`, `"moe"`,
            `"fixed-moe"`, `"layer-wise"`, `"bernoulli"`, `"example-tied"`,
            `"l1"`.
        input_shape: Shape of an example; it is flattened.
        shape: The sizes.
        keep_rate: Number in `(0, 1]`, the share `p` of units that are active.

    Returns:
        A model from `{"inputs": (B, *input_shape), "examples": (B,)}`, where
        `examples` are int32 numbers of the rows, to logits `(B, outputs)`.

    Raises:
        ValueError: There is no such perceptron, or a mixture has one expert.

    References:
        Shaier et al., section 4.2.1 and appendix A.1.
    """
    if name not in PERCEPTRONS:
        raise ValueError(
            f"`name` must be one of {sorted(PERCEPTRONS)}. Received: {name!r}"
        )
    inputs = keras.Input(input_shape, name="inputs")
    examples = keras.Input((), name="examples", dtype="int32")
    flat = keras.layers.Flatten()(inputs)
    outputs = PERCEPTRONS[name](flat, examples, shape, keep_rate)
    return keras.Model({"inputs": inputs, "examples": examples}, outputs)
