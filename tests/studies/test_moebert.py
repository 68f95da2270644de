from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from keras_hub.models import BertBackbone

from keras_moe.layers import COMETGate
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import MOESARTGate
from keras_moe.layers import PermutedGate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from studies.moebert import feed_forward_kernels
from studies.moebert import mixture_of_bert
from studies.moebert import narrower_bert
from studies.neuron_importance import deal_neurons

pytestmark = pytest.mark.once("torch")

LAYERS, NEURONS = 2, 8
GATES: dict[str, Callable[[int], Gate]] = {
    "hash": lambda layer: HashGate(2, num_buckets=20, seed=layer),
    "top-k": lambda layer: TopKGate(2, k=1),
    "comet": lambda layer: COMETGate(2, k=1),
    "comet+": lambda layer: PermutedGate(COMETGate(2, k=1)),
    "moesart": lambda layer: MOESARTGate(2, k=2),
}


@pytest.fixture
def bert() -> BertBackbone:
    keras.utils.set_random_seed(0)
    backbone = BertBackbone(
        vocabulary_size=20,
        num_layers=LAYERS,
        num_heads=2,
        hidden_dim=4,
        intermediate_dim=NEURONS,
        max_sequence_length=6,
    )
    # Far from zero, that no part goes unseen beside the others.
    for weight in backbone.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.5))
    return backbone


@pytest.fixture
def tokens() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "token_ids": generator.integers(20, size=(3, 6)).astype("int32"),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1]] * 3, "int32"),
        "padding_mask": np.array([[1] * 6, [1] * 4 + [0] * 2, [1] * 6]),
    }


def dealt(num_shared: int, units: int) -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [
        deal_neurons(generator.random(NEURONS), 2, num_shared, units)
        for _ in range(LAYERS)
    ]


def assert_same(
    model: keras.Model,
    other: keras.Model,
    tokens: dict[str, np.ndarray],
) -> None:
    found, expected = model(tokens), other(tokens)
    real = tokens["padding_mask"] > 0
    for name in ("sequence_output", "pooled_output"):
        a, b = (
            keras.ops.convert_to_numpy(outputs[name])
            for outputs in (found, expected)
        )
        rows = real if name == "sequence_output" else slice(None)
        np.testing.assert_allclose(a[rows], b[rows], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate", GATES)
def test_a_mixture_whose_experts_share_all_neurons_is_the_dense_model(
    gate: str, bert: BertBackbone, tokens: dict[str, np.ndarray]
) -> None:
    shared = dealt(num_shared=NEURONS, units=NEURONS)
    assert_same(mixture_of_bert(bert, shared, GATES[gate]), bert, tokens)


def test_with_one_expert_at_work_it_is_the_narrower_model(
    bert: BertBackbone, tokens: dict[str, np.ndarray]
) -> None:
    neurons = dealt(num_shared=2, units=5)
    mixture = mixture_of_bert(
        bert,
        neurons,
        # Ids below the number of buckets, all in expert 0 or 1 of the layer.
        lambda layer: HashGate(2, num_buckets=1, seed=layer),
    )
    experts = [
        int(mixture.get_layer(f"transformer_layer_{i}").mixture.gate.table[0])
        for i in range(LAYERS)
    ]
    kept = [n[expert] for n, expert in zip(neurons, experts, strict=True)]
    assert_same(mixture, narrower_bert(bert, kept), tokens)


def test_experts_of_half_the_neurons_differ_from_the_dense_model(
    bert: BertBackbone, tokens: dict[str, np.ndarray]
) -> None:
    mixture = mixture_of_bert(bert, dealt(0, 4), GATES["hash"])
    with pytest.raises(AssertionError):
        assert_same(mixture, bert, tokens)


def test_all_neurons_in_any_order_make_the_dense_model(
    bert: BertBackbone, tokens: dict[str, np.ndarray]
) -> None:
    orders = [neurons[0] for neurons in dealt(NEURONS, NEURONS)]
    assert_same(narrower_bert(bert, orders), bert, tokens)


def test_experts_hold_the_dense_weights_of_their_neurons(
    bert: BertBackbone,
) -> None:
    neurons = dealt(num_shared=2, units=5)
    mixture = mixture_of_bert(bert, neurons, lambda _: SoftmaxGate(2))
    as_array = keras.ops.convert_to_numpy
    for i, (incoming, outgoing) in enumerate(feed_forward_kernels(bert)):
        experts = mixture.get_layer(f"transformer_layer_{i}").mixture.experts
        for expert, chosen in enumerate(neurons[i]):
            np.testing.assert_array_equal(
                as_array(experts.kernels[0])[expert],
                as_array(incoming)[:, chosen],
            )
            np.testing.assert_array_equal(
                as_array(experts.kernels[1])[expert],
                as_array(outgoing)[chosen],
            )


def test_a_mixture_survives_a_file(
    bert: BertBackbone, tokens: dict[str, np.ndarray], tmp_path: Path
) -> None:
    mixture = mixture_of_bert(bert, dealt(2, 5), GATES["hash"])
    mixture.save(tmp_path / "moebert.keras")
    loaded = keras.saving.load_model(tmp_path / "moebert.keras")
    assert_same(loaded, mixture, tokens)


def test_a_layer_without_neurons_is_refused(bert: BertBackbone) -> None:
    with pytest.raises(ValueError, match=r"the 2 layers\. Received: 1"):
        mixture_of_bert(bert, dealt(2, 5)[:1], GATES["hash"])
