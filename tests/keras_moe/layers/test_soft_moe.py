import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from scipy.special import softmax

from keras_moe.layers import MLPExperts
from keras_moe.layers import SoftMoE
from tests.gradients import gradient
from tests.keras_moe.layers.layer_test import check_layer

BATCH, TOKENS, WIDTH, EXPERTS, SLOTS = 3, 7, 4, 2, 3


def make_layer(units=5, **arguments):
    experts = MLPExperts(EXPERTS, units, activation="tanh", seed=0)
    return SoftMoE(experts, SLOTS, **{"seed": 1, **arguments})


def make_inputs(rng, batch=BATCH):
    return rng.normal(size=(batch, TOKENS, WIDTH)).astype("float32")


def by_hand(layer, tokens):
    """What a sequence `(m, d)` becomes, one slot after the other."""
    x, phi = tokens, to_numpy(layer.slot_embeddings)
    if layer.normalize:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        phi = phi / np.linalg.norm(phi, axis=0) * to_numpy(layer.scale)
    logits = x @ phi
    outputs = []
    for slot in range(EXPERTS * SLOTS):
        mean = softmax(logits[:, slot]) @ tokens
        expert = slot // SLOTS
        kernel, bias = (
            to_numpy(each[0])[expert]
            for each in (layer.experts.kernels, layer.experts.biases)
        )
        outputs.append(np.tanh(mean @ kernel + bias))
    return softmax(logits, axis=1) @ np.array(outputs)


@pytest.mark.parametrize("normalize", [False, True])
def test_slots_are_averages_that_tokens_get_back(normalize, rng):
    layer = make_layer(normalize=normalize)
    inputs = make_inputs(rng)
    outputs = to_numpy(layer(inputs))
    if normalize:
        layer.scale.assign(3.0)
        outputs = to_numpy(layer(inputs))
    for tokens, output in zip(inputs, outputs, strict=True):
        np.testing.assert_allclose(
            output, by_hand(layer, tokens), rtol=1e-4, atol=1e-5
        )


def test_other_sequences_do_not_matter(rng):
    layer = make_layer()
    inputs = make_inputs(rng)
    np.testing.assert_allclose(
        to_numpy(layer(inputs[:1])), to_numpy(layer(inputs))[:1], 1e-4, 1e-6
    )


def test_the_order_of_tokens_does_not_matter(rng):
    layer = make_layer()
    inputs = make_inputs(rng)
    order = rng.permutation(TOKENS)
    np.testing.assert_allclose(
        to_numpy(layer(inputs[:, order])),
        to_numpy(layer(inputs))[:, order],
        rtol=1e-4,
        atol=1e-6,
    )


def test_padding_is_as_if_it_were_not_there(rng):
    layer = make_layer()
    inputs = make_inputs(rng)
    shorter = to_numpy(layer(inputs[:, :4]))
    inputs[:, 4:] = np.nan
    mask = np.broadcast_to(np.arange(TOKENS) < 4, (BATCH, TOKENS))
    outputs = to_numpy(layer(inputs, mask=mask))
    np.testing.assert_allclose(outputs[:, :4], shorter, rtol=1e-4, atol=1e-6)
    assert not outputs[:, 4:].any()

    def total(inputs):
        return keras.ops.sum(keras.ops.square(layer(inputs, mask=mask)))

    (grad,) = gradient(total, inputs)
    assert grad[:, :4].any()
    assert not grad[:, 4:].any()


def test_a_sequence_of_padding_is_zero(rng):
    mask = np.ones((BATCH, TOKENS), bool)
    mask[1] = False
    outputs = to_numpy(make_layer()(make_inputs(rng), mask=mask))
    assert not outputs[1].any()
    assert outputs[[0, 2]].any(axis=(1, 2)).all()


def test_experts_may_be_a_list_of_layers(rng):
    experts = [keras.layers.Dense(5, activation="tanh") for _ in range(EXPERTS)]
    layer = SoftMoE(experts, SLOTS)
    inputs = make_inputs(rng)
    layer.build(inputs.shape)
    same = make_layer()
    same.build(inputs.shape)
    same.slot_embeddings.assign(layer.slot_embeddings)
    kernels = np.stack([to_numpy(dense.kernel) for dense in experts])
    same.experts.kernels[0].assign(kernels)
    np.testing.assert_allclose(
        to_numpy(layer(inputs)), to_numpy(same(inputs)), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("leading", [(), (2, 3)])
def test_sequences_may_have_any_leading_dimensions(leading, rng):
    layer = make_layer()
    inputs = rng.normal(size=(*leading, TOKENS, WIDTH)).astype("float32")
    flat = layer(inputs.reshape(-1, TOKENS, WIDTH))
    np.testing.assert_allclose(
        to_numpy(layer(inputs)),
        to_numpy(flat).reshape(*leading, TOKENS, 5),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("normalize", "weights"), [(False, 3), (True, 4)])
def test_it_is_a_proper_layer(
    normalize: bool, weights: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    check_layer(
        lambda: make_layer(normalize=normalize),
        make_inputs(rng),
        folder=tmp_path,
        output_shape=(BATCH, TOKENS, 5),
        trainable_weights=weights,
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"experts": 3}, TypeError, "`experts` must be"),
        ({"slots_per_expert": 0}, ValueError, "`slots_per_expert` must be at"),
        ({"normalize": 1}, TypeError, "`normalize` must be a boolean"),
        (
            {"experts": [keras.layers.BatchNormalization() for _ in "ab"]},
            ValueError,
            "`experts` must compute each row on its own",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        SoftMoE(**{"experts": MLPExperts(2, 4), **arguments})
    assert "Received: " in str(caught.value)
