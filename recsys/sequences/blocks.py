"""The kinds of a tower's blocks, by the name that a command line gives them."""

from collections.abc import Callable

import keras

from recsys.sequences.hstu_block import HSTUBlock
from recsys.sequences.transformer_block import TransformerBlock

FeedForward = Callable[[], keras.layers.Layer]
Block = Callable[[FeedForward, int, int, float], keras.layers.Layer]


def _transformer(
    feed_forward: FeedForward, length: int, num_heads: int, dropout: float
) -> keras.layers.Layer:
    return TransformerBlock(feed_forward(), num_heads, dropout)


def _hstu(
    feed_forward: FeedForward, length: int, num_heads: int, dropout: float
) -> keras.layers.Layer:
    return HSTUBlock(length, num_heads, dropout)


# Each takes what makes a feed-forward layer, the most positions, the heads
# and the dropout.
BLOCKS: dict[str, Block] = {"transformer": _transformer, "hstu": _hstu}
