import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import COMETGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from tests.keras_moe.layers.given_gate import GivenGate
from tests.keras_moe.layers.layer_test import check_layer


def small_cnn(name: str) -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Conv2D(2, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
        ],
        name=name,
    )


def test_outputs_are_the_weighted_sum_of_the_experts() -> None:
    experts = MLPExperts(2, 1, activation=None, use_bias=False)
    mixture = MoE(GivenGate(2), experts)
    mixture.build((None, 1), (None, 2))
    experts.kernels[0].assign([[[1.0]], [[10.0]]])
    weights = np.array([[0.5, 0.5], [0.0, 1.0]])
    # 0.5 * 2 + 0.5 * 20 = 11, 1 * 30 = 30.
    output = mixture(np.array([[2.0], [3.0]]), gate_inputs=weights)
    assert to_numpy(output).tolist() == [[11.0], [30.0]]


def test_tokens_are_routed_one_by_one(rng: np.random.Generator) -> None:
    mixture = MoE(TopKGate(4, k=2, seed=0), MLPExperts(4, 3, seed=0))
    tokens = rng.normal(size=(2, 5, 6)).astype("float32")
    output = to_numpy(mixture(tokens))
    flat = to_numpy(mixture(tokens.reshape(10, 6)))
    assert output.shape == (2, 5, 3)
    np.testing.assert_allclose(output.reshape(10, 3), flat, rtol=1e-5)


def test_a_static_gate_weighs_all_rows_alike(rng: np.random.Generator) -> None:
    gate = TopKGate(4, k=2, static=True, bias_initializer="random_normal")
    experts = MLPExperts(4, 3, seed=0)
    mixture = MoE(gate, experts)
    x = rng.normal(size=(5, 6)).astype("float32")
    expected = np.einsum("e,neh->nh", to_numpy(gate(x)), to_numpy(experts(x)))
    np.testing.assert_allclose(to_numpy(mixture(x)), expected, rtol=1e-5)


@pytest.mark.parametrize("execution", ["dense", "sparse"])
def test_images_are_routed_by_other_features(
    execution: str, rng: np.random.Generator
) -> None:
    experts = [small_cnn(f"cnn_{i}") for i in range(3)]
    gate = TopKGate(3, k=1, seed=0)
    mixture = MoE(gate, experts, execution=execution)
    images = rng.normal(size=(4, 5, 5, 1)).astype("float32")
    pixels = images.reshape(4, 25)
    output = to_numpy(mixture(images, gate_inputs=pixels))
    for row, expert in enumerate(np.argmax(to_numpy(gate(pixels)), axis=-1)):
        expected = to_numpy(experts[expert](images[row : row + 1]))[0]
        np.testing.assert_allclose(output[row], expected, rtol=1e-4, atol=1e-6)


def test_ids_are_routed_by_a_hash_gate(rng: np.random.Generator) -> None:
    gate = HashGate(4, num_buckets=10, seed=0)
    experts = MLPExperts(4, 3, seed=0)
    mixture = MoE(gate, experts)
    x = rng.normal(size=(5, 6)).astype("float32")
    ids = np.array([3, 1, 3, 9, 0])
    every = to_numpy(experts(x))
    chosen = np.argmax(to_numpy(gate(ids)), axis=-1)
    np.testing.assert_allclose(
        to_numpy(mixture(x, gate_inputs=ids)),
        every[np.arange(5), chosen],
        rtol=1e-5,
    )


def test_frozen_experts_stay_as_they_are(rng: np.random.Generator) -> None:
    experts = [keras.layers.Dense(2) for _ in range(4)]
    inputs = keras.Input((3,))
    mixture = MoE(TopKGate(4, k=2), experts, execution="sparse")
    model = keras.Model(inputs, mixture(inputs))
    for expert in experts:
        expert.trainable = False
    model.compile("sgd", "mse")
    before = [to_numpy(weight) for weight in mixture.experts.weights]
    x = rng.normal(size=(8, 3)).astype("float32")
    model.fit(x, np.ones((8, 2)), verbose=0)
    for one, other in zip(before, mixture.experts.weights, strict=True):
        np.testing.assert_array_equal(one, to_numpy(other))


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("execution", ["auto", "dense", "sparse"])
def test_it_is_a_proper_layer(
    execution: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    check_layer(
        lambda: MoE(
            COMETGate(8, k=2, entropy_weight=0.1),
            MLPExperts(8, 4, dropout=0.2),
            execution=execution,
        ),
        rng.normal(size=(6, 5)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 4),
        trainable_weights=6,
        training_losses=1,
    )


def test_it_is_a_proper_layer_with_a_list(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    check_layer(
        lambda: MoE(
            TopKGate(3, k=1), [keras.layers.Dense(4) for _ in range(3)]
        ),
        rng.normal(size=(6, 5)).astype("float32"),
        folder=tmp_path,
        output_shape=(6, 4),
        trainable_weights=8,
    )


@pytest.mark.eager
def test_the_gate_sees_inputs_in_full_precision() -> None:
    gate = GivenGate(2)
    with_policy = MoE(
        gate,
        MLPExperts(2, 3, dtype="mixed_bfloat16"),
        dtype="mixed_bfloat16",
    )
    weights = np.array([[1 / 3, 2 / 3]], "float32")
    seen = []
    gate.compute_weights = lambda x, training, mask: seen.append(x) or x
    output = with_policy(np.ones((1, 4)), gate_inputs=weights)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    np.testing.assert_array_equal(to_numpy(seen[-1]), weights)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: MoE("top-k", MLPExperts(4, 2)),
            TypeError,
            "`gate` must be a keras_moe Gate",
        ),
        (
            lambda: MoE(SoftmaxGate(4), MLPExperts(5, 2)),
            ValueError,
            "must agree on the number of experts",
        ),
        (
            lambda: MoE(SoftmaxGate(4), MLPExperts(4, 2), execution="fast"),
            ValueError,
            "`execution` must be one of 'auto', 'dense', 'sparse'",
        ),
        (
            lambda: MoE(SoftmaxGate(4), MLPExperts(4, 2), execution="sparse"),
            ValueError,
            "`execution` must not be 'sparse' with a dense gate",
        ),
        (
            lambda: MoE(
                TopKGate(2, k=1),
                [keras.layers.BatchNormalization() for _ in range(2)],
                execution="sparse",
            ),
            ValueError,
            "`execution` must not be 'sparse' with these experts",
        ),
        (
            lambda: MoE(
                TopKGate(2, k=1), [keras.layers.Dense(n) for n in (2, 3)]
            ).build((None, 4)),
            ValueError,
            "`experts` must share one output shape",
        ),
        (
            lambda: MoE(SoftmaxGate(4), MLPExperts(4, 2)).build(
                (None, 4), (None, 3, 2, 5)
            ),
            ValueError,
            "leading dimensions of `gate_inputs`",
        ),
    ],
)
def test_wrong_arguments_are_named(
    make: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        make()
    assert "Received: " in str(caught.value)
