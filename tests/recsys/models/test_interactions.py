from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys import Dataset
from recsys import TrainConfig
from recsys.config.train_config import INTERACTIONS
from recsys.models.build import build_ranker
from recsys.models.interactions.cross_network import CrossNetwork
from recsys.models.interactions.dot_products import DotProducts
from recsys.models.ranker import Ranker
from recsys.training.resolve_config import resolve_config


def vectors(rng: np.random.Generator, *widths: int) -> list[Any]:
    return [rng.normal(size=(5, width)).astype("float32") for width in widths]


def test_cross_network(rng: np.random.Generator) -> None:
    layer = CrossNetwork(num_layers=3)
    given = vectors(rng, 2, 1, 3)
    received = ops.convert_to_numpy(layer(given))
    weights = [ops.convert_to_numpy(w) for w in layer.weights]
    x0 = x = np.concatenate(given, axis=1)
    for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
        x = x0 * (x @ kernel + bias) + x
    np.testing.assert_allclose(received, x, rtol=1e-4, atol=1e-5)


def test_dot_products(rng: np.random.Generator) -> None:
    layer = DotProducts(3)
    given = vectors(rng, 3, 1, 3)
    received = ops.convert_to_numpy(layer(given))
    kernel, bias = (ops.convert_to_numpy(w) for w in layer.weights)
    a, b, c = given[0], given[1] @ kernel + bias, given[2]
    pairs = [(a * b).sum(1), (a * c).sum(1), (b * c).sum(1)]
    expected = np.concatenate([*given, np.stack(pairs, axis=1)], axis=1)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


def test_one_feature_has_no_pair(rng: np.random.Generator) -> None:
    (given,) = vectors(rng, 3)
    received = ops.convert_to_numpy(DotProducts(3)([given]))
    np.testing.assert_array_equal(received, given)


def build(tiny: Dataset, interaction: str) -> Ranker:
    config = TrainConfig(
        "synthetic",
        "run",
        interaction=interaction,
        num_experts=4,
        embedding_dim=4,
        expert_units=[8],
        head_units=[4],
    )
    return build_ranker(resolve_config(config, tiny.schema), tiny)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_a_ranker_keeps_its_interaction(
    interaction: str, tiny: Dataset, tmp_path: Path
) -> None:
    ranker = build(tiny, interaction)
    ranker.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    inputs = ranker.encode(tiny.split("test"))
    expected = ops.convert_to_numpy(ranker(inputs)["watch"])
    again = ops.convert_to_numpy(restored(inputs)["watch"])
    np.testing.assert_array_equal(again, expected)
    copy = ranker.with_mixture(ranker.mixture)
    again = ops.convert_to_numpy(copy(inputs)["watch"])
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize(
    ("interaction", "width"), [("none", 17), ("dcn", 17), ("dot", 20)]
)
def test_the_experts_see_its_width(
    interaction: str, width: int, tiny: Dataset
) -> None:
    ranker = build(tiny, interaction)
    features, _ = ranker.mixture_inputs(ranker.encode(tiny.split("test")), None)
    assert features.shape[1] == width
