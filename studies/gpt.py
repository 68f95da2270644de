from typing import Any

import keras
from keras_hub.layers import TokenAndPositionEmbedding

from studies.feed_forward import FeedForward
from studies.vision import attention
from studies.vision import normalized

# Blocks, width of a token and heads (Shaier et al., appendix A.4.1).
GPT_SIZES = {
    "small": (12, 768, 12),
    "medium": (24, 1024, 16),
    "large": (36, 1280, 20),
}
HIDDEN_FACTOR = 4  # Units of the feed-forward layer for each of a token.


def gpt(
    vocabulary_size: int,
    length: int,
    feed_forward: FeedForward,
    depth: int,
    model_width: int,
    heads: int,
    dropout: float = 0.1,
) -> keras.Model:
    """Builds a GPT-2 whose feed-forward layers are given.

    Logits are products with the embeddings of the tokens. KerasHub's GPT-2
    has no place for another feed-forward layer.

    Args:
        vocabulary_size: Number of tokens.
        length: Tokens that it sees.
        feed_forward: That of each block, over 4 units for each of a token.
        depth: Number of blocks.
        model_width: Width of a token, a multiple of `heads`.
        heads: Heads of attention.
        dropout: Of the embeddings and of the attention's outputs.

    Returns:
        A model from tokens `(B, length)` to logits `(B, length, vocabulary)`
        of each next one.

    References:
        Radford et al., Language Models Are Unsupervised Multitask Learners,
        2019, section 2.3; Shaier et al., appendix A.4.
    """
    embedding = TokenAndPositionEmbedding(
        vocabulary_size,
        length,
        model_width,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=0.02),
    )
    token_ids = keras.Input((length,), dtype="int32")
    tokens: Any = keras.layers.Dropout(dropout)(embedding(token_ids))
    for _ in range(depth):
        tokens = attention(tokens, heads, dropout, is_causal=True)
        hidden_width = HIDDEN_FACTOR * model_width
        tokens = tokens + feed_forward(normalized(tokens), hidden_width)
    logits = embedding.token_embedding(normalized(tokens), reverse=True)
    return keras.Model(token_ids, logits)
