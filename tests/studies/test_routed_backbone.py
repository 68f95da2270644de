from functools import partial
from pathlib import Path

import keras
import keras_hub
import numpy as np
import pytest

from keras_moe.layers import ConstantGate
from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from studies.routed_backbone import routed_backbone

pytestmark = [
    pytest.mark.usefixtures("compiled_calls"),
    pytest.mark.traced_once("tensorflow"),
]

VOCABULARY, LENGTH, WIDTH, UNITS = 20, 6, 8, 12


def backbone(num_layers: int = 2) -> keras_hub.models.GPT2Backbone:
    return keras_hub.models.GPT2Backbone(
        VOCABULARY, num_layers, 2, WIDTH, UNITS, 0.0, LENGTH
    )


def mixture(gate: Gate) -> MoE:
    experts = MLPExperts(
        gate.num_experts,
        [UNITS, WIDTH],
        activation=["gelu", None],
        # Far from zero, so that routing shows in the outputs.
        kernel_initializer=keras.initializers.RandomNormal(stddev=1.0),
    )
    return MoE(gate, experts)


def tokens(rng: np.random.Generator, rows: int = 3) -> dict[str, np.ndarray]:
    ids = rng.integers(VOCABULARY, size=(rows, LENGTH), dtype="int32")
    return {"token_ids": ids, "padding_mask": np.ones_like(ids)}


def outputs(model: keras.Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return keras.ops.convert_to_numpy(model(inputs, training=False))


def with_feed_forward_of(decoder: keras.layers.Layer) -> MoE:
    """Two experts that both are the decoder's feed-forward network."""
    gelu = partial(keras.activations.gelu, approximate=True)
    one = MoE(
        ConstantGate([0.25, 0.75]),
        MLPExperts(2, [UNITS, WIDTH], activation=[gelu, None]),
    )
    one.build((None, LENGTH, WIDTH))
    dense = {
        weight.path.split("feedforward_")[-1]: weight
        for weight in decoder.weights
    }
    for number, name in enumerate(("intermediate", "output")):
        for weights, kind in (
            (one.experts.kernels, "kernel"),
            (one.experts.biases, "bias"),
        ):
            value = keras.ops.convert_to_numpy(dense[f"{name}_dense/{kind}"])
            weights[number].assign(np.stack([value, value]))
    return one


def test_experts_that_are_the_feed_forward_network_change_nothing(
    rng: np.random.Generator,
) -> None:
    dense = backbone(4)
    for weight in dense.trainable_weights:  # No bias or scale is neutral.
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
    decoders = iter(dense.transformer_layers[1::2])
    routed = routed_backbone(
        dense, lambda: with_feed_forward_of(next(decoders))
    )
    assert sum(isinstance(layer, MoE) for layer in routed.layers) == 2
    inputs = tokens(rng)
    inputs["padding_mask"][0, 4:] = 0
    expected = outputs(dense, inputs)
    np.testing.assert_allclose(
        outputs(routed, inputs)[inputs["padding_mask"] == 1],
        expected[inputs["padding_mask"] == 1],
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "gate",
    [
        partial(TopKGate, k=2),
        partial(ExpertChoiceGate, capacity_factor=1, inference="batch"),
    ],
)
def test_padding_changes_nothing(
    gate: partial[Gate], rng: np.random.Generator
) -> None:
    model = routed_backbone(backbone(), lambda: mixture(gate(4)))
    inputs = tokens(rng)
    inputs["padding_mask"][1, 3:] = 0
    real = inputs["padding_mask"] == 1
    before = outputs(model, inputs)[real]
    inputs["token_ids"] = np.where(real, inputs["token_ids"], 0)
    np.testing.assert_allclose(outputs(model, inputs)[real], before, atol=1e-5)


@pytest.mark.once("torch")
@pytest.mark.eager
def test_a_hash_gate_sees_the_tokens(rng: np.random.Generator) -> None:
    gate = HashGate(4, num_buckets=4, balanced=True)
    model = routed_backbone(backbone(), lambda: mixture(gate))
    inputs = tokens(rng)
    with record_routing() as records:
        model(inputs)
    (weights,) = records[0].weights.values()
    experts = keras.ops.convert_to_numpy(weights).argmax(axis=-1)
    expert_of = keras.ops.convert_to_numpy(gate.table)
    assert sorted(expert_of) == [0, 1, 2, 3]
    np.testing.assert_array_equal(experts, expert_of[inputs["token_ids"] % 4])


@pytest.mark.once("torch")
def test_a_saved_model_is_the_same(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    model = routed_backbone(backbone(), lambda: mixture(TopKGate(4, k=2)))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs = tokens(rng)
    np.testing.assert_allclose(
        outputs(loaded, inputs), outputs(model, inputs), atol=1e-6
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize("every", [0, 3, 1.5])
def test_every_is_checked(every: int) -> None:
    with pytest.raises(ValueError, match=f"number of layers, 2.*every={every}"):
        routed_backbone(backbone(), lambda: mixture(TopKGate(4, k=2)), every)


def see_other_tokens(model: keras.Model, rng: np.random.Generator) -> None:
    """Moves the cut-offs, to no score of the tokens that are looked at.

    A cut-off is the score of a token in training: whether that token reaches
    it again would be a matter of rounding.
    """
    for _ in range(3):
        model(tokens(rng, rows=8), training=True)


@pytest.mark.once("torch")
class TestCausality:
    """What docs/expert_choice_in_decoders.md says."""

    def change_of_the_first(
        self, inference: str, training: bool, rng: np.random.Generator
    ) -> float:
        """How far later tokens change the outputs of the first three."""
        gate = ExpertChoiceGate(4, capacity_factor=1, inference=inference)
        model = routed_backbone(backbone(), lambda: mixture(gate))
        before = tokens(rng, rows=8)
        see_other_tokens(model, rng)
        after = {**before, "token_ids": before["token_ids"].copy()}
        after["token_ids"][:, 3:] = rng.integers(VOCABULARY, size=(8, 3))
        first, second = (
            keras.ops.convert_to_numpy(model(one, training=training))[:, :3]
            for one in (before, after)
        )
        return float(np.abs(first - second).max())

    def test_by_threshold_no_later_token_changes_an_earlier_one(
        self, rng: np.random.Generator
    ) -> None:
        assert self.change_of_the_first("threshold", False, rng) < 1e-5

    def test_in_training_later_tokens_do(
        self, rng: np.random.Generator
    ) -> None:
        assert self.change_of_the_first("threshold", True, rng) > 0.01

    def test_by_batch_later_tokens_do(self, rng: np.random.Generator) -> None:
        assert self.change_of_the_first("batch", False, rng) > 0.01

    def test_by_threshold_other_sequences_change_nothing(
        self, rng: np.random.Generator
    ) -> None:
        model = routed_backbone(
            backbone(), lambda: mixture(ExpertChoiceGate(4, capacity_factor=1))
        )
        see_other_tokens(model, rng)
        inputs = tokens(rng, rows=8)
        alone = {name: array[:1] for name, array in inputs.items()}
        np.testing.assert_allclose(
            outputs(model, alone), outputs(model, inputs)[:1], atol=1e-5
        )
