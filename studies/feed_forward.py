from dataclasses import dataclass
from typing import Any

import keras

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SwitchGate
from studies.perceptrons import num_experts_of
from studies.sparse_hidden import active_units
from studies.sparse_hidden import dense
from studies.sparse_hidden import fan_in_uniform
from studies.sparse_hidden import hidden_layer

# "overlapping" is the paper's: in a block, each token, as the layer gets it,
# decides which units are active. The paper does not say what is projected; this
# changes as the blocks before are trained, unlike the inputs of a perceptron.
FEED_FORWARDS = (
    "overlapping",
    "standard",
    "smaller",
    "dropout",
    "top-k",
    "moe",
)


@dataclass(frozen=True)
class FeedForward:
    """The feed-forward layer of a block, with few of its units active.

    Attributes:
        kind: `"overlapping"`: a fixed random projection of each token picks
            the units, by `ConditionalMask`; or what that is compared with:
            `"standard"`, `"smaller"`, `"dropout"`, `"top-k"`, or `"moe"`,
            ⌊1/p⌋ experts one of which takes each token.
        keep_rate: Number in `(0, 1]`, the share `p` of the units; published
            are 0.5 in all networks of blocks.
        activation: Name of the hidden layer's activation, published tanh.
        dropout: Share of hidden units and of outputs dropped in training.

    References:
        Shaier et al., sections 4.2.2 and 4.3, appendix A.3.
    """

    kind: str = "overlapping"
    keep_rate: float = 0.5
    activation: str = "tanh"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in FEED_FORWARDS:
            raise ValueError(
                f"`kind` must be one of {FEED_FORWARDS}. "
                f"Received: {self.kind!r}"
            )

    def __call__(self, x: Any, width: int) -> Any:
        """Adds the layer to a functional model.

        Args:
            x: Symbolic tensor `(B, tokens, D)`.
            width: Units of the hidden layer, all that there are.

        Returns:
            Symbolic tensor of the shape of `x`.
        """
        if self.kind == "moe":
            return self._mixture(x, width)
        kind = "routed" if self.kind == "overlapping" else self.kind
        hidden = hidden_layer(kind, self.keep_rate, self.activation)(x, width)
        outputs = dense(x.shape[-1])(self._dropped(hidden))
        return self._dropped(outputs)

    def _mixture(self, x: Any, width: int) -> Any:
        num_experts = num_experts_of(self.keep_rate)
        experts = MLPExperts(
            num_experts,
            [active_units(width, self.keep_rate), x.shape[-1]],
            activation=[self.activation, None],
            kernel_initializer=fan_in_uniform(),
        )
        gate = SwitchGate(num_experts, k=1, load_balance_loss_weight=0.01)
        return self._dropped(MoE(gate, experts)(x))

    def _dropped(self, x: Any) -> Any:
        return keras.layers.Dropout(self.dropout)(x) if self.dropout else x
