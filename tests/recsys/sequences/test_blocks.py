"""The blocks of a sequence tower: a NumPy reference and what all promise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from recsys.sequences.hstu_block import HSTUBlock
from recsys.sequences.self_attention import CausalSelfAttention
from recsys.sequences.sequence_tower import SequenceTower
from recsys.sequences.transformer_block import TransformerBlock
from tests.compiled import compiled

pytestmark = pytest.mark.usefixtures("compiled_calls")

LENGTH, WIDTH = 6, 4


def mixture() -> MoE:
    experts = MLPExperts(4, [8, WIDTH], activation=["gelu", None])
    return MoE(TopKGate(4, k=2), experts)


BLOCKS: dict[str, Callable[[], keras.layers.Layer]] = {
    "dense": lambda: TransformerBlock(keras.layers.Dense(WIDTH), dropout=0.5),
    "sparse": lambda: TransformerBlock(mixture(), dropout=0.5),
    "hstu": lambda: HSTUBlock(LENGTH, dropout=0.5),
}


def tower(name: str) -> SequenceTower:
    return SequenceTower([BLOCKS[name](), BLOCKS[name]()], LENGTH, dropout=0.5)


def built(layer: keras.layers.Layer, rng: np.random.Generator) -> Any:
    """A layer with weights that are none of their initial zeros and ones."""
    layer.build((None, LENGTH, WIDTH))
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)
    return layer


def values(layer: keras.layers.Layer) -> list[Any]:
    return [ops.convert_to_numpy(weight) for weight in layer.trainable_weights]


def given(rng: np.random.Generator, length: int = LENGTH) -> Any:
    return rng.normal(size=(3, length, WIDTH)).astype("float32")


def normed(x: Any, gamma: Any, beta: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    return centred / deviation * gamma + beta


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def split_heads(x: Any, parts: int, heads: int) -> list[Any]:
    """From (T, parts D) to parts of (H, T, D / H)."""
    width = x.shape[-1] // parts
    return [
        np.stack(np.split(part, heads, axis=-1))
        for part in np.split(x, x.shape[-1] // width, axis=-1)
    ]


def attention(x: Any, weights: list[Any], heads: int) -> Any:
    """Causal self-attention of one sequence (T, D), a query at a time."""
    kernel, bias, out_kernel, out_bias = weights
    queries, keys, values = split_heads(x @ kernel + bias, 3, heads)
    outputs = []
    for place in range(len(x)):
        merged = []
        for head in range(heads):
            seen = keys[head][: place + 1]
            scores = seen @ queries[head][place] / np.sqrt(seen.shape[-1])
            exps = np.exp(scores - scores.max())
            merged.append(exps / exps.sum() @ values[head][: place + 1])
        outputs.append(np.concatenate(merged))
    return np.stack(outputs) @ out_kernel + out_bias


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_is_that_of_the_formula(
    rng: np.random.Generator, heads: int
) -> None:
    layer = built(CausalSelfAttention(heads), rng)
    inputs = given(rng)
    expected = [attention(one, values(layer), heads) for one in inputs]
    received = compiled(layer)(inputs)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


def test_transformer_block_is_that_of_the_formula(
    rng: np.random.Generator,
) -> None:
    block = built(TransformerBlock(keras.layers.Dense(WIDTH)), rng)
    first, second = (values(norm) for norm in block.norms)
    kernel, bias = values(block.feed_forward)
    for one, received in zip(
        inputs := given(rng), compiled(block)(inputs), strict=True
    ):
        x = one + attention(normed(one, *first), values(block.attention), 2)
        expected = x + normed(x, *second) @ kernel + bias
        np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


def test_hstu_block_is_that_of_the_formula(rng: np.random.Generator) -> None:
    block = built(HSTUBlock(LENGTH, num_heads=2), rng)
    first, second = (values(norm) for norm in block.norms)
    kernel, bias = values(block.projection)
    out_kernel, out_bias = values(block.output_layer)
    distances = ops.convert_to_numpy(block.bias)
    inputs = given(rng, length=5)  # Shorter than it may be.
    for one, received in zip(inputs, compiled(block)(inputs), strict=True):
        projected = silu(normed(one, *first) @ kernel + bias)
        gates, v, q, k = split_heads(projected, 4, 2)
        attended = np.zeros_like(v)
        for head in range(2):
            for place in range(5):
                for other in range(place + 1):
                    score = q[head][place] @ k[head][other]
                    score += distances[place - other]
                    weight = silu(score) / LENGTH
                    attended[head][place] += weight * v[head][other]
        merged = np.concatenate(attended, axis=-1)
        gated = normed(merged, *second) * np.concatenate(gates, axis=-1)
        expected = one + gated @ out_kernel + out_bias
        np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize("name", BLOCKS)
def test_a_changed_position_changes_nothing_before_it(
    name: str, rng: np.random.Generator
) -> None:
    run = compiled(built(tower(name), rng))
    inputs = given(rng)
    before = run(inputs)
    for place in range(LENGTH):
        changed = inputs.copy()
        changed[:, place] += rng.normal(size=(3, WIDTH))
        after = run(changed)
        np.testing.assert_allclose(
            after[:, :place], before[:, :place], atol=1e-5
        )
        assert np.abs(after[:, place:] - before[:, place:]).max() > 1e-2


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize("name", BLOCKS)
def test_padding_changes_nothing_wherever_it_stands(
    name: str, rng: np.random.Generator
) -> None:
    layer = built(tower(name), rng)
    run = compiled(lambda inputs, mask: layer(inputs, mask=mask))
    inputs = given(rng)
    mask = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0], [1] * 6], bool)
    before = run(inputs, mask)
    inputs[~mask] = 100 * rng.normal(size=(5, WIDTH))
    after = run(inputs, mask)
    np.testing.assert_allclose(after[mask], before[mask], atol=1e-4)
    shorter = compiled(layer)(inputs[:1, :4])
    np.testing.assert_allclose(shorter, after[:1, :4], atol=1e-5)
    assert np.isfinite(after).all()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_saved_tower_computes_the_same(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    layer = built(tower(name), rng)
    inputs = keras.Input((LENGTH, WIDTH))
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "tower.keras")
    loaded = keras.saving.load_model(tmp_path / "tower.keras")
    batch = given(rng)
    np.testing.assert_allclose(
        compiled(loaded)(batch), compiled(model)(batch), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", BLOCKS)
def test_outputs_drop_while_training_alone(
    name: str, rng: np.random.Generator
) -> None:
    layer = built(tower(name), rng)
    run = compiled(lambda inputs: layer(inputs, training=True))
    inputs = given(rng)
    assert np.abs(run(inputs) - compiled(layer)(inputs)).max() > 1e-2


def test_a_mixture_runs_two_experts_for_each_real_position(
    rng: np.random.Generator,
) -> None:
    block = built(TransformerBlock(mixture()), rng)
    mask = np.array([[1, 1, 1, 0, 0, 0], [1] * 6, [0, 1] * 3], bool)
    weights = compiled(
        lambda inputs: block.feed_forward.gate(inputs, mask=mask)
    )(given(rng))
    used = (weights > 0).sum(-1)
    np.testing.assert_array_equal(used, 2 * mask)


@pytest.mark.parametrize(
    "layer", [CausalSelfAttention(3), HSTUBlock(LENGTH, 3)], ids=str
)
def test_heads_that_do_not_divide_the_width_are_refused(layer: Any) -> None:
    with pytest.raises(ValueError, match=r"Received: num_heads=3, width 4"):
        layer.build((None, LENGTH, WIDTH))
