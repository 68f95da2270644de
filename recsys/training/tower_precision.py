"""The precision that a sequence tower is trained in."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from recsys.private_names import each_layer
from recsys.sequences.self_attention import CausalSelfAttention
from recsys.sequences.sequence_tower import SequenceTower

_ALWAYS_FULL = (
    keras.layers.LayerNormalization,
    keras.layers.Dropout,
    CausalSelfAttention,
)


@contextmanager
def products_in(tower: SequenceTower, dtype: str) -> Iterator[None]:
    """Within it, dense layers and experts of a tower compute in a dtype.

    Weights are float32 all the time, as are norms, what blocks add up and the
    softmax of attention, whose kernel PyTorch has for processors is slower in
    bfloat16. What is measured, saved and exported afterwards computes as
    before.

    Args:
        tower: The tower.
        dtype: `"float32"`, which changes nothing, or `"bfloat16"`.
    """
    if dtype == "float32":
        yield
        return
    layers = [
        layer
        for block in tower.blocks
        for layer in each_layer(block)
        if layer is not block and not isinstance(layer, _ALWAYS_FULL)
    ]
    policies = [layer.dtype_policy for layer in layers]
    for layer in layers:
        layer.dtype_policy = keras.DTypePolicy(f"mixed_{dtype}")
    try:
        yield
    finally:
        for layer, policy in zip(layers, policies, strict=True):
            layer.dtype_policy = policy
