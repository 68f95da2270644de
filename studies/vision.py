"""A vision Transformer and an MLP-Mixer of the published sizes."""

from typing import Any

import keras
from keras_hub.layers import PositionEmbedding

from studies.feed_forward import FeedForward

PATCH = 4
DEPTH = 6
MODEL_WIDTH = 512
HEADS = 8


def vision_transformer(
    image_shape: tuple[int, ...],
    num_classes: int,
    feed_forward: FeedForward,
    hidden_width: int = 512,
    model_width: int = MODEL_WIDTH,
    depth: int = DEPTH,
    heads: int = HEADS,
    dropout: float = 0.1,
) -> keras.Model:
    """Builds a ViT whose feed-forward layers are given.

    Its head reads the mean of the patches: the paper does not say what its
    own reads. KerasHub's ViT has no place for another feed-forward layer.

    Args:
        image_shape: Height, width and channels; the patches are 4 by 4.
        num_classes: Width of the logits.
        feed_forward: That of each block.
        hidden_width: Units of its hidden layer; published 512, 3072 (medium)
            and 6144 (large).
        model_width: Width of a token. The published code's is 512.
        depth: Number of blocks, published 6.
        heads: Heads of attention, published 8, each of `model_width / heads`.
        dropout: Of the embeddings and of the attention's outputs, published
            0.1.

    References:
        Dosovitskiy et al., An Image Is Worth 16x16 Words, ICLR 2021; Shaier
        et al., appendix A.3.
    """
    images = keras.Input(image_shape)
    tokens = _patches(images, model_width)
    tokens = tokens + PositionEmbedding(tokens.shape[1])(tokens)
    tokens = keras.layers.Dropout(dropout)(tokens)
    for _ in range(depth):
        tokens = attention(tokens, heads, dropout)
        tokens = tokens + feed_forward(normalized(tokens), hidden_width)
    return keras.Model(images, _logits(tokens, num_classes))


def mlp_mixer(
    image_shape: tuple[int, ...],
    num_classes: int,
    feed_forward: FeedForward,
    model_width: int = MODEL_WIDTH,
    depth: int = DEPTH,
) -> keras.Model:
    """Builds an MLP-Mixer, both perceptrons of whose blocks are given.

    The first mixes the patches of a channel, over 4 units a patch, the
    second the channels of a patch, over half as many units: the factors of
    the code that the paper builds on.

    Args:
        image_shape: Height, width and channels; the patches are 4 by 4.
        num_classes: Width of the logits.
        feed_forward: Those of each block.
        model_width: Channels, published 512 and 3072 (medium).
        depth: Number of blocks, published 6.

    References:
        Tolstikhin et al., MLP-Mixer, NeurIPS 2021; Shaier et al., appendix
        A.3.
    """
    images = keras.Input(image_shape)
    tokens = _patches(images, model_width)
    num_patches = tokens.shape[1]
    for _ in range(depth):
        # (B, patches, D) to (B, D, patches) and back.
        channels = keras.layers.Permute((2, 1))(normalized(tokens))
        mixed = feed_forward(channels, 4 * num_patches)
        tokens = tokens + keras.layers.Permute((2, 1))(mixed)
        mixed = feed_forward(normalized(tokens), model_width // 2)
        tokens = tokens + mixed
    return keras.Model(images, _logits(tokens, num_classes))


def attention(
    tokens: Any, heads: int, dropout: float, is_causal: bool = False
) -> Any:
    """Adds what the tokens `(B, S, D)` learn of each other to them."""
    layer = keras.layers.MultiHeadAttention(heads, tokens.shape[-1] // heads)
    queries = normalized(tokens)
    attended = layer(queries, queries, use_causal_mask=is_causal)
    return tokens + keras.layers.Dropout(dropout)(attended)


def normalized(tokens: Any) -> Any:
    """Each token with mean 0 and variance 1 before a learned affine map."""
    return keras.layers.LayerNormalization(epsilon=1e-5)(tokens)


def _patches(images: Any, model_width: int) -> Any:
    """A token for each patch: `(B, H/4 · W/4, D)`."""
    grid = keras.layers.Conv2D(model_width, PATCH, strides=PATCH)(images)
    return keras.layers.Reshape((-1, model_width))(grid)


def _logits(tokens: Any, num_classes: int) -> Any:
    pooled = keras.layers.GlobalAveragePooling1D()(normalized(tokens))
    return keras.layers.Dense(num_classes)(pooled)
