"""ViT, MLP-Mixer and GPT with feed-forward layers that are given."""

from collections.abc import Callable

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConditionalMask
from studies.feed_forward import FEED_FORWARDS
from studies.feed_forward import FeedForward
from studies.gpt import gpt
from studies.vision import mlp_mixer
from studies.vision import vision_transformer

pytestmark = pytest.mark.once("torch")

IMAGE = (8, 12, 3)  # 6 patches.


def make_vit(feed_forward: FeedForward, depth: int = 2) -> keras.Model:
    return vision_transformer(
        IMAGE, 5, feed_forward, 16, model_width=8, depth=depth, heads=2
    )


def make_mixer(feed_forward: FeedForward, depth: int = 2) -> keras.Model:
    return mlp_mixer(IMAGE, 5, feed_forward, model_width=8, depth=depth)


def make_gpt(feed_forward: FeedForward, depth: int = 2) -> keras.Model:
    return gpt(11, 6, feed_forward, depth=depth, model_width=8, heads=2)


MAKERS: dict[str, Callable[..., keras.Model]] = {
    "vit": make_vit,
    "mixer": make_mixer,
    "gpt": make_gpt,
}


def num_weights(model: keras.Model) -> int:
    return sum(int(np.prod(w.shape)) for w in model.trainable_weights)


@pytest.mark.parametrize("maker", MAKERS)
def test_half_of_the_units_of_each_perceptron_are_active(
    maker: str, rng: np.random.Generator
) -> None:
    model = MAKERS[maker](FeedForward())
    masks = [x for x in model.layers if isinstance(x, ConditionalMask)]
    assert len(masks) == (4 if maker == "mixer" else 2)
    inputs = (
        rng.integers(0, 11, size=(4, 6))
        if maker == "gpt"
        else rng.normal(size=(4, *IMAGE)).astype("float32")
    )
    for mask in masks:
        hidden = to_numpy(keras.Model(model.input, mask.output[0])(inputs))
        assert mask.k == hidden.shape[-1] // 2
        assert ((hidden != 0).sum(axis=-1) == mask.k).all()
        rows = (hidden != 0).reshape(-1, hidden.shape[-1])
        assert len({tuple(row) for row in rows}) > 1


def test_widths_of_the_perceptrons_are_as_published() -> None:
    """4 units a patch, then half a unit a channel; 4 units of a token's."""
    widths = [
        [x.units for x in model.layers if isinstance(x, keras.layers.Dense)]
        for model in (make_mixer(FeedForward()), make_gpt(FeedForward()))
    ]
    assert widths == [[24, 6, 4, 8] * 2 + [5], [32, 8] * 2]


def test_sizes_beside_each_other() -> None:
    sizes = {
        kind: num_weights(make_vit(FeedForward(kind, activation="tanh")))
        for kind in FEED_FORWARDS
    }
    assert sizes["overlapping"] == sizes["standard"] == sizes["dropout"]
    assert sizes["top-k"] == sizes["standard"]
    # Each of two blocks has 8 units less, of 8 inputs, a bias, 8 outputs.
    assert sizes["standard"] - sizes["smaller"] == 2 * 8 * 17
    # One more bias of the outputs, and a gate of 8 weights and 1 bias for
    # each of two experts.
    assert sizes["moe"] - sizes["standard"] == 2 * (8 + 2 * 9)


def test_no_later_token_changes_what_a_gpt_says_of_an_earlier_one(
    rng: np.random.Generator,
) -> None:
    model = make_gpt(FeedForward())
    tokens = rng.integers(0, 11, size=(3, 6))
    changed = tokens.copy()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    before, after = to_numpy(model(tokens)), to_numpy(model(changed))
    assert before.shape == (3, 6, 11)
    np.testing.assert_allclose(before[:, :4], after[:, :4], atol=1e-6)
    assert np.abs(before[:, 4:] - after[:, 4:]).max() > 1e-3


def test_patches_are_told_apart_by_their_place(
    rng: np.random.Generator,
) -> None:
    images = rng.normal(size=(2, *IMAGE)).astype("float32")
    swapped = images[:, ::-1]
    for maker in (make_vit, make_mixer):
        model = maker(FeedForward())
        logits = to_numpy(model(images))
        assert logits.shape == (2, 5)
        assert np.abs(logits - to_numpy(model(swapped))).max() > 1e-4


@pytest.mark.slow
def test_a_mixture_of_feed_forwards_trains(rng: np.random.Generator) -> None:
    """The others train in the tests of the command."""
    model = make_gpt(FeedForward("moe", dropout=0.1), depth=1)
    tokens = rng.integers(0, 5, size=(16, 6))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    history = model.fit(
        tokens, tokens, epochs=8, batch_size=16, verbose=0
    ).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]


def test_other_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`kind` must be one of.*'l1'"):
        FeedForward("l1")
