"""Models of scenarios: their layers, and rankers that have them."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from recsys import DataError
from recsys import Dataset
from recsys import Schema
from recsys import TrainConfig
from recsys.config.train_config import SCENARIO_MODELS
from recsys.models.build import build_ranker
from recsys.models.grown_weights import copy_grown_weights
from recsys.models.ranker import Ranker
from recsys.models.scenarios import MOST_SCENARIOS
from recsys.models.scenarios import SCENARIO_MODELS as REGISTRY
from recsys.models.scenarios.partitioned_normalization import (
    PartitionedNormalization,
)
from recsys.models.scenarios.pepnet import GateUnit
from recsys.models.scenarios.pepnet import PEPNet
from recsys.models.scenarios.pepnet import PersonalHead
from recsys.models.scenarios.star import Star
from recsys.models.scenarios.star import StarHead
from recsys.models.scenarios.star_dense import StarDense
from recsys.models.simplification import without_unused_experts
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config
from tests.examples import examples
from tests.gradients import gradient
from tests.gradients import gradient_function

MODELS = SCENARIO_MODELS[1:]


def array(value: Any) -> np.ndarray:
    return ops.convert_to_numpy(value)


def drawn(layer: keras.layers.Layer, seed: int = 0) -> list[np.ndarray]:
    """Gives the weights of a layer random values, and returns them."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        if weight.dtype == "float32":
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    return [array(weight) for weight in layer.weights]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def unit(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Factors of a `GateUnit`."""
    w, b, v, c = weights
    return 2 * sigmoid(relu(x @ w + b) @ v + c)


def test_a_gate_unit_by_hand() -> None:
    layer = GateUnit(1)
    layer.build((None, 2))
    values = [[[1.0], [-2.0]], [0.5], [[3.0]], [-1.0]]
    layer.set_weights([np.array(value) for value in values])
    # relu(2 - 1 + 0.5) = 1.5, 3 * 1.5 - 1 = 3.5; relu(1 - 4 + 0.5) = 0.
    received = array(layer(np.array([[2.0, 0.5], [1.0, 2.0]], "float32")))
    expected = [[2 / (1 + np.exp(-3.5))], [2 / (1 + np.exp(1.0))]]
    np.testing.assert_allclose(received, expected, rtol=1e-6)


@given(st.integers(0, 2**16))
@examples(20)
def test_factors_are_between_0_and_2(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer = GateUnit(3)
    factors = array(layer(rng.normal(scale=9, size=(5, 4)).astype("float32")))
    assert ((factors >= 0) & (factors <= 2)).all()
    zeros = np.zeros((1, 4), "float32")
    np.testing.assert_array_equal(array(GateUnit(3)(zeros)), 1.0)


def test_pepnet_scales_features_and_conditions_heads(
    rng: np.random.Generator,
) -> None:
    layer = PEPNet("country", 3, ["user"])
    features, country, user = (
        rng.normal(size=(5, width)).astype("float32") for width in (6, 2, 3)
    )
    ids = np.array([0, 1, 2, 3, 1], "int32")
    scaled, condition = layer(features, ids, [country, user])
    weights = drawn(layer.gate)
    scaled, condition = layer(features, ids, [country, user])
    factors = unit(np.concatenate([country, features], axis=1), weights)
    expected = factors * features
    np.testing.assert_allclose(array(scaled), expected, rtol=1e-5)
    together = np.concatenate([country, user, expected], axis=1)
    np.testing.assert_allclose(array(condition), together, rtol=1e-5)
    shapes = [(None, 2), (None, 3)]
    assert layer.condition_shape((None, 6), shapes) == (None, 11)


def test_no_gradient_goes_through_what_gates_see(
    rng: np.random.Generator,
) -> None:
    """That of the scaled features is of the product, factors held fixed."""
    layer = PEPNet("country", 3)
    features = rng.normal(size=(4, 6)).astype("float32")
    rows = rng.normal(size=(4, 2)).astype("float32")
    ids = np.ones(4, "int32")
    layer(features, ids, [rows])
    weights = drawn(layer.gate)
    factors = unit(np.concatenate([rows, features], axis=1), weights)

    def scaled(x: Any) -> Any:
        return ops.sum(layer(x, ids, [rows])[0])

    (received,) = gradient(scaled, features)
    np.testing.assert_allclose(received, factors, rtol=1e-4)

    def condition(x: Any) -> Any:
        return ops.sum(layer(x, ids, [rows])[1] + 0 * ops.sum(x))

    (received,) = gradient(condition, features)
    assert not received.any()


def test_a_personal_head(rng: np.random.Generator) -> None:
    head = PersonalHead([4], 2, "sigmoid")
    tower, condition = (
        rng.normal(size=(5, width)).astype("float32") for width in (3, 6)
    )
    head(tower, condition)
    gates = [drawn(gate, seed) for seed, gate in enumerate(head.gates)]
    (w, b), (v, c) = (drawn(layer) for layer in head.layers)
    hidden = relu((unit(condition, gates[0]) * tower) @ w + b)
    expected = sigmoid((unit(condition, gates[1]) * hidden) @ v + c)
    received = array(head(tower, condition))
    np.testing.assert_allclose(received, expected, rtol=1e-4)


def star(
    x: np.ndarray, ids: np.ndarray, weights: list[np.ndarray]
) -> np.ndarray:
    """Outputs of a `StarDense` without activation, row by row."""
    w, b, ws, bs = weights
    return np.stack(
        [
            row @ w + b if p == 0 else row @ (w * ws[p - 1]) + b + bs[p - 1]
            for row, p in zip(x, ids, strict=True)
        ]
    )


@given(st.integers(0, 2**16), st.integers(0, 9))
@examples(20)
def test_star_dense_is_a_product_of_its_own_for_each_row(
    seed: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    layer = StarDense(2, num_scenarios=3)
    layer.build((None, 4), (None,))
    weights = drawn(layer, seed)
    x = rng.normal(size=(count, 4)).astype("float32")
    ids = rng.integers(0, 4, count).astype("int32")
    expected = star(x, ids, weights) if count else np.zeros((0, 2))
    received = array(layer(x, ids))
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.traced_once("tensorflow")
def test_every_scenario_begins_with_the_shared_weights(
    rng: np.random.Generator,
) -> None:
    layer = StarDense(3, num_scenarios=2, activation="relu")
    x = np.repeat(rng.normal(size=(1, 4)).astype("float32"), 3, axis=0)
    outputs = array(layer(x, np.arange(3, dtype="int32")))
    kernel, bias, *_ = (array(weight) for weight in layer.weights)
    np.testing.assert_allclose(outputs, relu(x @ kernel + bias), rtol=1e-5)


def test_weights_of_a_scenario_learn_from_its_rows_alone(
    rng: np.random.Generator,
) -> None:
    layer = StarDense(3, num_scenarios=3)
    x = rng.normal(size=(5, 4)).astype("float32")
    ids = np.array([0, 1, 3, 3, 1], "int32")
    layer(x, ids)
    drawn(layer)
    kernel = array(layer.kernel)

    differentiate = gradient_function(
        lambda: ops.sum(layer(x, ids)), [layer.kernels]
    )
    (received,) = differentiate(array(layer.kernels))
    # The sum of all outputs has the gradient sum x for each of the units.
    expected = [x[ids == p].sum(0)[:, None] * kernel for p in (1, 2, 3)]
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


def moments(
    x: np.ndarray, ids: np.ndarray, p: int, pooled: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of weighted rows, as the docstring has them."""
    weights = (ids == p) * (p > 0) + pooled / len(x)
    mean = np.average(x, axis=0, weights=weights)
    return mean, np.average((x - mean) ** 2, axis=0, weights=weights)


@given(st.integers(0, 2**16), st.sampled_from([1e-4, 3.0, 16.0]))
@examples(20)
def test_rows_are_normalized_by_the_moments_of_their_scenario(
    seed: int, pooled: float
) -> None:
    rng = np.random.default_rng(seed)
    layer = PartitionedNormalization(3, pooled_rows=pooled)
    layer.build((None, 2), (None,))
    gamma, beta, gammas, betas, *_ = drawn(layer)
    layer.means.assign(np.zeros((4, 2)))
    layer.num_updates.assign(np.zeros(4))
    x = rng.normal(100, 2, size=(9, 2)).astype("float32")
    ids = np.array([0, 1, 1, 2, 1, 2, 2, 1, 2], "int32")
    received = array(layer(x, ids, training=True))
    gammas = np.concatenate([np.ones((1, 2)), gammas])
    betas = np.concatenate([np.zeros((1, 2)), betas])
    for row, p, output in zip(x, ids, received, strict=True):
        mean, variance = moments(x.astype(float), ids, p, pooled)
        normal = (row - mean) / np.sqrt(variance + 1e-3)
        expected = normal * gamma * gammas[p] + beta + betas[p]
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-3)
    # First updates are the moments themselves; scenario 3 has had no row.
    for p in (0, 1, 2):
        mean, variance = moments(x.astype(float), ids, p, pooled)
        np.testing.assert_allclose(array(layer.means)[p], mean, rtol=1e-5)
        np.testing.assert_allclose(
            array(layer.variances)[p], variance, rtol=1e-3
        )
    assert (array(layer.means)[3] == 0).all()
    assert array(layer.num_updates).tolist() == [1, 1, 1, 0]


def test_inference_uses_running_means_and_changes_none() -> None:
    layer = PartitionedNormalization(1, momentum=0.5)
    rows = np.array([[1.0], [3.0]], "float32")
    ids = np.array([0, 0], "int32")
    for shift in (0, 4, 8, 16):
        layer(rows + shift, ids, training=True)
    # 2, (2 + 6) / 2 = 4, (4 + 10) / 2 = 7, (7 + 18) / 2 = 12.5
    np.testing.assert_allclose(array(layer.means)[0], [12.5], rtol=1e-6)
    before = [array(weight) for weight in layer.weights]
    received = array(layer(np.array([[13.5]], "float32"), ids[:1]))
    np.testing.assert_allclose(received, [[1 / np.sqrt(1.001)]], rtol=1e-5)
    for weight, held in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(array(weight), held)


@pytest.mark.traced_once("tensorflow")
def test_a_star_head(rng: np.random.Generator) -> None:
    head = StarHead(2, [4], 1, "sigmoid")
    tower, features = (
        rng.normal(size=(6, width)).astype("float32") for width in (3, 5)
    )
    ids = np.array([0, 1, 2, 2, 1, 0], "int32")
    head(tower, [ids, features])
    hidden, last = (drawn(layer) for layer in head.layers)
    w, b, v, c = drawn(head.auxiliary, 1)
    logits = star(relu(star(tower, ids, hidden)), ids, last)
    expected = sigmoid(logits + relu(features @ w + b) @ v + c)
    received = array(head(tower, [ids, features]))
    np.testing.assert_allclose(received, expected, rtol=1e-4)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", [PEPNet, Star])
def test_half_precision(kind: Any, policy: str) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        layer, half = kind("country", 2, []), policy.removeprefix("mixed_")
        head = layer.make_head([4], 1, "sigmoid")
    finally:
        keras.config.set_dtype_policy(before)
    rng = np.random.default_rng(0)
    x = ops.cast(rng.normal(size=(6, 3)), half)
    features, condition = layer(x, np.arange(6, dtype="int32") % 3, [x])
    outputs = head(features, condition)
    assert keras.backend.standardize_dtype(features.dtype) == half
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    assert np.isfinite(array(outputs)).all()


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "layer",
    [
        GateUnit(3),
        PEPNet("country", 3, ["user"], 0.1),
        PersonalHead([4], 2, "softmax"),
        StarDense(3, 2, "relu"),
        PartitionedNormalization(2, 1.0, 0.9, 0.1),
        Star("country", 3, ["user"], 0.1),
        StarHead(2, [4], 1, "sigmoid"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_configurations_are_kept(layer: keras.layers.Layer) -> None:
    config = keras.saving.serialize_keras_object(layer)
    restored = keras.saving.deserialize_keras_object(config)
    assert restored.get_config() == layer.get_config()


SCHEMA = Schema(
    "shop",
    {"country": "id", "user": "id", "item": "id", "age": "number"},
    {"buy": "binary", "price": "regression", "why": "multiclass"},
    scenario="country",
)


def log(countries: list[Any], count: int = 60) -> Dataset:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "country": rng.choice(np.array(countries, object), count),
            "user": rng.integers(0, 5, count),
            "item": rng.integers(0, 7, count),
            "age": rng.normal(size=count),
            "buy": rng.integers(0, 2, count).astype(float),
            "price": rng.normal(size=count),
            "why": np.arange(count) % 3.0,
        }
    )
    return Dataset(SCHEMA, dict.fromkeys(("train", "validation"), rows))


LOG = log(["fr", "de", "it"])


def build(
    scenario_model: str,
    data: Dataset = LOG,
    source: Ranker | None = None,
    **changes: Any,
) -> Ranker:
    fields: dict[str, Any] = {
        "gate": "top-k",
        "num_experts": 4,
        "embedding_dim": 4,
        "expert_units": [8],
        "head_units": [4],
        "scenario_model": scenario_model,
        **changes,
    }
    config = TrainConfig("data", "out", **fields)
    return build_ranker(resolve_config(config, data.schema), data, source)


def predictions(ranker: Ranker, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    outputs = ranker(ranker.encode(rows), training=False)
    return {task: array(values) for task, values in outputs.items()}


def train(ranker: Ranker, epochs: int = 2) -> Ranker:
    rows = LOG.split("train")
    compile_model(ranker, resolve_config(TrainConfig("data", "out"), SCHEMA))
    labels = {
        task: rows[task].to_numpy("float32")[:, None] for task in ranker.tasks
    }
    ranker.fit(ranker.encode(rows), labels, epochs=epochs, verbose=0)
    return ranker


@functools.cache
def begun_and_trained(
    scenario_model: str,
) -> tuple[list[np.ndarray], Ranker]:
    """Weights at first and a ranker for all tests; not to be changed.

    Its gates give every expert weight: all are trained.
    """
    ranker = build(scenario_model, gate="softmax")
    return [array(w) for w in ranker.trainable_weights], train(ranker)


def trained(scenario_model: str) -> Ranker:
    return begun_and_trained(scenario_model)[1]


ARCHITECTURES: list[dict[str, Any]] = [
    {},
    {"architecture": "moe"},
    {"architecture": "ple"},
    {"architecture": "shared-bottom"},
    {"interaction": "dot"},
    {"gate": "hash", "hash_feature": "country"},
    {"head_units": []},
    {"target_statistics": True},
]


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(8)
@pytest.mark.parametrize("scenario_model", MODELS)
@pytest.mark.parametrize(
    "changes", ARCHITECTURES, ids=lambda c: "-".join(map(str, c.values()))
)
def test_goes_with_every_architecture(
    changes: dict[str, Any], scenario_model: str, tmp_path: Path
) -> None:
    ranker = train(build(scenario_model, **changes))
    rows = LOG.split("train")
    if changes.get("target_statistics"):
        assert ranker.statistics is not None
    expected = predictions(ranker, rows)
    ranker.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    for model in (restored, ranker.with_mixture(ranker.mixture)):
        for task, values in predictions(model, rows).items():
            np.testing.assert_allclose(values, expected[task], rtol=1e-5)
    assert without_unused_experts(ranker) is ranker
    assert np.allclose(expected["why"].sum(axis=1), 1, atol=1e-5)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize("scenario_model", MODELS)
def test_every_weight_is_trained(scenario_model: str) -> None:
    before, ranker = begun_and_trained(scenario_model)
    still = [
        weight.path
        for weight, held in zip(ranker.trainable_weights, before, strict=True)
        if (array(weight) == held).all()
    ]
    assert still == []


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize("scenario_model", MODELS)
def test_unknown_missing_and_new_scenarios_are_one(
    scenario_model: str,
) -> None:
    """So they are after a warm start, until they have been trained on."""
    ranker = trained(scenario_model)
    rows = LOG.split("train")[:6]
    unknown, missing, new = (
        predictions(ranker, rows.assign(country=country))
        for country in ("atlantis", None, "es")
    )
    data = log(["de", "es", "fr", "pt"])
    grown = build(scenario_model, data, ranker, gate="softmax")
    copy_grown_weights(ranker, grown, "run")
    country = grown.fitted["country"].vocabulary
    assert country is not None
    assert country.size == 5
    begun = predictions(grown, rows.assign(country="es"))
    kept = predictions(grown, rows)
    for task, values in predictions(ranker, rows).items():
        np.testing.assert_allclose(kept[task], values, rtol=1e-6)
        np.testing.assert_array_equal(missing[task], unknown[task])
        np.testing.assert_array_equal(new[task], unknown[task])
        np.testing.assert_allclose(begun[task], unknown[task], rtol=1e-6)
        assert not np.allclose(unknown[task], values)


@pytest.mark.traced_once("tensorflow")
def test_the_unknown_scenario_of_star_has_shared_weights_alone() -> None:
    ranker = build("star", gate="softmax")
    ranker.set_weights(trained("star").get_weights())
    rows = LOG.split("train")[:6].assign(country="atlantis")
    expected = predictions(ranker, rows)
    for head in ranker.heads.values():
        for layer in head.layers:
            layer.kernels.assign(np.full(layer.kernels.shape, np.nan))
            layer.biases.assign(np.full(layer.biases.shape, np.nan))
    for task, values in predictions(ranker, rows).items():
        np.testing.assert_array_equal(values, expected[task])


def test_star_trains_shared_weights_on_unknown_scenarios() -> None:
    layer = Star("country", 3, unknown_rate=0.25)
    inputs = {"country": np.full(4000, 2, "int32"), "user": np.zeros(4000)}
    drawn_ids = array(layer.with_unknown(inputs, training=True)["country"])
    assert set(drawn_ids.tolist()) == {0, 2}
    assert (drawn_ids == 0).mean() == pytest.approx(0.25, abs=0.03)
    assert layer.with_unknown(inputs, training=False) is inputs
    layer = Star("country", 3, unknown_rate=0.0)
    assert layer.with_unknown(inputs, training=True) is inputs


@pytest.mark.once("torch")
def test_the_command_line_knows_them_all() -> None:
    assert (*REGISTRY,) == MODELS


@pytest.mark.once("torch")
@pytest.mark.parametrize("scenario_model", MODELS)
def test_the_prior_is_user_and_item(scenario_model: str) -> None:
    layer = build(scenario_model).scenario_model
    assert layer is not None
    assert layer.embedded == ["country", "user", "item"]
    assert build("none").scenario_model is None


@pytest.mark.once("torch")
def test_a_warm_start_has_the_scenario_and_the_prior_of_its_source() -> None:
    source = build("pepnet")
    schema = replace(SCHEMA, item="user", user="item")
    grown = build("pepnet", replace(LOG, schema=schema), source)
    assert grown.scenario_model is not None
    assert grown.scenario_model.prior == ["user", "item"]
    other = replace(LOG, schema=replace(SCHEMA, scenario="user"))
    message = r"expected the scenario 'country', as in .* Received: 'user'"
    with pytest.raises(DataError, match=message):
        build("pepnet", other, source)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "countries", [["7", "007", "x"], [2**60 + 1, 2**60 + 2, -(2**62)]]
)
def test_scenarios_are_ids_of_any_kind(countries: list[Any]) -> None:
    data = log(countries)
    ranker = build("star", data)
    rows = data.split("train")
    encoded = ranker.encode(rows)["country"]
    assert set(encoded.tolist()) == {1, 2, 3}
    by_id = pd.Series(encoded).groupby(rows["country"].map(str)).nunique()
    assert by_id.tolist() == [1, 1, 1]


@pytest.mark.once("torch")
def test_too_many_scenarios_for_star() -> None:
    count = MOST_SCENARIOS + 1
    rows = (
        LOG.split("train")
        .sample(count, replace=True)
        .assign(country=[f"c{number}" for number in range(count)])
    )
    many = Dataset(SCHEMA, {"train": rows.reset_index(drop=True)})
    with pytest.raises(ValueError, match=r"star for more than 1,000 scenarios"):
        build("star", many)
    build("pepnet", many)


@pytest.mark.once("torch")
def test_a_scenario_model_needs_a_scenario(tiny: Dataset) -> None:
    with pytest.raises(ValueError, match=r'"scenario" in dataset\.json'):
        build("pepnet", tiny)
    message = "`distribute` must be none for the scenario model star"
    with pytest.raises(ValueError, match=message):
        build("star", distribute="data")
    with pytest.raises(ValueError, match=r"`scenario_model` must be one of"):
        build("stars")


@pytest.mark.once("torch")
def test_without_a_scenario_model_nothing_changes() -> None:
    """The scenario is an id like any other; files of before are read."""
    expected = build("none")
    for head in expected.heads.values():
        assert type(head) is keras.Sequential
    config = expected.get_config()
    assert config.pop("scenario_model") is None
    restored = Ranker.from_config(config)
    restored.set_weights(expected.get_weights())
    inputs = expected.encode(LOG.split("train"))
    outputs = restored(inputs, training=False)
    for task, values in expected(inputs, training=False).items():
        np.testing.assert_array_equal(array(outputs[task]), array(values))
