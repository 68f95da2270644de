"""`ConditionalMask` within the blocks of a mixer, a ViT and a GPT."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConditionalMask

TOKENS, WIDTH, HIDDEN = 6, 8, 16
KEEP_RATE = 0.25


def masked_mlp(x: Any, name: str) -> Any:
    """Two dense layers, with a mask after the first one's activation."""
    hidden = keras.layers.Dense(HIDDEN, "tanh")(x)
    hidden, _ = ConditionalMask(KEEP_RATE, seed=0, name=name)(hidden, x)
    return keras.layers.Dense(x.shape[-1])(hidden)


def normalized(x: Any) -> Any:
    return keras.layers.LayerNormalization()(x)


def mixer_block(x: Any) -> Any:
    """Mixes the tokens of each channel, then the channels of each token."""
    channels = keras.layers.Permute((2, 1))(normalized(x))
    mixed = keras.layers.Permute((2, 1))(masked_mlp(channels, "token_mask"))
    x = x + mixed
    return x + masked_mlp(normalized(x), "channel_mask")


def transformer_block(x: Any, causal: bool) -> Any:
    attention = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)
    y = normalized(x)
    x = x + attention(y, y, use_causal_mask=causal)
    return x + masked_mlp(normalized(x), "channel_mask")


BLOCKS: dict[str, Callable[[Any], Any]] = {
    "mixer": mixer_block,
    "vit": lambda x: transformer_block(x, causal=False),
    "gpt": lambda x: transformer_block(x, causal=True),
}


def make_model(block: str) -> keras.Model:
    tokens = keras.Input((TOKENS, WIDTH))
    return keras.Model(tokens, BLOCKS[block](tokens))


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(5, TOKENS, WIDTH)).astype("float32")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_token_keeps_its_own_units(block: str, x: np.ndarray) -> None:
    model = make_model(block)
    for layer in model.layers:
        if isinstance(layer, ConditionalMask):
            inner = keras.Model(model.input, layer.output[0])
            kept = to_numpy(inner(x)) != 0
            assert (kept.sum(axis=-1) == HIDDEN * KEEP_RATE).all()
            assert len({tuple(units) for units in kept.reshape(-1, HIDDEN)}) > 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_trains_and_is_loaded_again(
    block: str, x: np.ndarray, tmp_path: Path
) -> None:
    model = make_model(block)
    before = {w.path: to_numpy(w).copy() for w in model.weights}
    model.compile("sgd", "mse")
    model.fit(x, np.ones_like(x), epochs=1, verbose=0)
    for weight in model.weights:
        moved = not np.array_equal(to_numpy(weight), before[weight.path])
        if weight.path.endswith("routing_kernel"):
            assert not moved
        elif weight.path.endswith("/kernel") and "dense" in weight.path:
            assert moved
    model.save(tmp_path / "block.keras")
    loaded = keras.models.load_model(tmp_path / "block.keras")
    np.testing.assert_allclose(
        to_numpy(loaded(x)), to_numpy(model(x)), atol=1e-6
    )


def test_a_gpt_block_does_not_look_ahead(x: np.ndarray) -> None:
    model = make_model("gpt")
    changed = x.copy()
    changed[:, 3:] *= -1
    before, after = to_numpy(model(x)), to_numpy(model(changed))
    np.testing.assert_allclose(before[:, :3], after[:, :3], atol=1e-6)
    assert np.abs(before[:, 3:] - after[:, 3:]).max() > 0.1
