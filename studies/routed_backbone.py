from collections.abc import Callable

import keras
import keras_hub
from keras import ops

from keras_moe.layers import MoE


def routed_backbone(
    backbone: keras_hub.models.GPT2Backbone,
    mixture: Callable[[], MoE],
    every: int = 2,
) -> keras.Model:
    """Puts mixtures in the place of a Transformer's feed-forward networks.

    Of every `every` layers the last has a mixture, to which each token is a
    row. All other layers, the embeddings, and the attention and the norms of
    the routed layers are the backbone's, with its weights.

    Args:
        backbone: A decoder, of a preset or random.
        mixture: Makes the mixture of a layer, whose outputs are as wide as
            the backbone. A gate that takes ids sees the tokens' ids, others
            see what the experts see.
        every: Defaults to 2: the second layer, the fourth, ...

    Returns:
        A model of what the backbone takes, `token_ids` and `padding_mask`,
        `(B, S)`, which returns `(B, S, hidden_dim)`. Padding takes no expert.

    Raises:
        ValueError: If `every` is not an integer from 1 to the number of
            layers.

    References:
        Zhou et al., Mixture-of-Experts with Expert Choice Routing, NeurIPS
        2022, section 3.4.
    """
    if every not in range(1, backbone.num_layers + 1):
        raise ValueError(
            "`every` must be an integer from 1 to the number of layers, "
            f"{backbone.num_layers}. Received: every={every!r}"
        )
    inputs = backbone.input
    mask = inputs["padding_mask"]
    x = backbone.token_embedding(inputs["token_ids"])
    x = backbone.embeddings_add((x, backbone.position_embedding(x)))
    x = backbone.embeddings_dropout(x)
    for number, decoder in enumerate(backbone.transformer_layers, start=1):
        if number % every:
            x = decoder(x, decoder_padding_mask=mask)
        else:
            x = _routed_layer(decoder, mixture(), x, inputs)
    return keras.Model(inputs, backbone.layer_norm(x))


def _routed_layer(
    decoder: keras_hub.layers.TransformerDecoder,
    mixture: MoE,
    x: keras.KerasTensor,
    inputs: dict[str, keras.KerasTensor],
) -> keras.KerasTensor:
    """The decoder's computation with a mixture as its feed-forward network."""
    width = x.shape[-1]
    mask = ops.not_equal(inputs["padding_mask"], 0)  # (B, S)
    parts = {
        "self_attention": keras.layers.MultiHeadAttention(
            decoder.num_heads,
            width // decoder.num_heads,
            dropout=decoder.dropout,
            name=f"{decoder.name}_self_attention",
        ),
        **{
            name: keras.layers.LayerNormalization(
                epsilon=decoder.layer_norm_epsilon,
                name=f"{decoder.name}_{name}",
            )
            for name in ("self_attention_layer_norm", "feedforward_layer_norm")
        },
    }
    normed = parts["self_attention_layer_norm"](x)
    attended = parts["self_attention"](
        normed,
        normed,
        attention_mask=mask[:, None, :],  # (B, 1, S), of what is looked at
        use_causal_mask=True,
    )
    x = x + keras.layers.Dropout(decoder.dropout)(attended)
    gate_inputs = {}
    if mixture.gate.feature_rank == 0:
        gate_inputs = {"gate_inputs": inputs["token_ids"]}
    normed = parts["feedforward_layer_norm"](x)
    mixed = mixture(normed, **gate_inputs, mask=mask)
    for name, layer in parts.items():
        layer.set_weights(
            [
                weight
                for weight in decoder.weights
                if f"/{name}/" in f"/{weight.path}"
            ]
        )
    return x + keras.layers.Dropout(decoder.dropout)(mixed)
