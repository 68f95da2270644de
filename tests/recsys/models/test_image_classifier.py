from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.config.presets import PRESETS
from recsys.data import DataError
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.data import Schema
from recsys.models.build import build_model
from recsys.models.expert_diagnosis import diagnose
from recsys.models.gates import gate_class
from recsys.models.image_classifier import ImageClassifier
from recsys.models.scorer import Scorer
from recsys.private_names import each_layer
from recsys.tasks.chains import labels_of
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.usefixtures("compiled_calls")

SPLITS = ("train", "validation", "test")
TASKS = {"kind": "multiclass", "old": "binary"}


def dataset(
    name: str = "photos",
    shape: tuple[int, ...] = (16, 16, 1),
    tasks: dict[str, str] = TASKS,
    num_classes: int = 3,
    rows: int = 20,
) -> ImageDataset:
    rng = np.random.default_rng(0)
    images = Images.of(
        rng.integers(0, 256, (rows, *shape), dtype=np.uint8),
        {
            task: np.arange(rows) % (num_classes if kind == "multiclass" else 2)
            for task, kind in tasks.items()
        },
    )
    return ImageDataset(
        Schema(name, {"image": "image"}, tasks),
        dict.fromkeys(SPLITS, images),
        {
            task: num_classes
            for task, kind in tasks.items()
            if kind == "multiclass"
        },
    )


def build(data: ImageDataset | None = None, **changes: Any) -> ImageClassifier:
    fields = {
        "preset": "svhn",
        "gate": "top-k",
        "num_experts": 4,
        "expert_units": [8],
        "head_units": [4],
    }
    data = data or dataset()
    config = TrainConfig("photos", "run", **(fields | changes))
    model = build_model(resolve_config(config, data.schema), data)
    assert isinstance(model, ImageClassifier)
    return model


def predict(model: ImageClassifier, images: Images) -> dict[str, Any]:
    outputs = model(model.encode(images))
    return {task: to_numpy(values) for task, values in outputs.items()}


# Weights and biases of each layer, by hand. A side of 36 pixels becomes 32, 16,
# 12 and 6, one of 32 pixels 28, 14, 10 and 5.
GREY = (25 * 1 * 10 + 10) + (25 * 10 * 20 + 20) + (6 * 6 * 20 * 50 + 50)
COLOUR = (25 * 3 * 10 + 10) + (25 * 10 * 20 + 20) + (5 * 5 * 20 * 50 + 50)
DENSE = 50 * 50 + 50
HEAD = DENSE + DENSE + (50 * 10 + 10)
# 109 x 89 becomes 53 x 43, 25 x 20, 11 x 9 and 4 x 3.
FACE = (9 * 3 * 4 + 4) + 2 * (9 * 4 * 4 + 4) + (9 * 4 * 1 + 1)


def gate(shape: tuple[int, int, int], num_experts: int) -> int:
    height, width, channels = shape
    return (height * width * channels + 1) * num_experts


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "shape", "num_tasks", "kind", "expected"),
    [
        (
            "multi-mnist",
            (36, 36, 1),
            2,
            "multiclass",
            16 * (GREY + DENSE) + 2 * gate((36, 36, 1), 16) + 2 * HEAD,
        ),
        (
            "multi-fashion-mnist",
            (36, 36, 1),
            2,
            "multiclass",
            5 * (GREY + DENSE) + 2 * gate((36, 36, 1), 5) + 2 * HEAD,
        ),
        (
            "digits",
            (32, 32, 3),
            1,
            "multiclass",
            8 * COLOUR + gate((32, 32, 3), 8) + HEAD,
        ),
        (
            "svhn",
            (32, 32, 3),
            1,
            "multiclass",
            8 * (COLOUR + DENSE) + gate((32, 32, 3), 8) + HEAD,
        ),
        (
            "cifar10",
            (32, 32, 3),
            1,
            "multiclass",
            8 * (COLOUR + DENSE) + gate((32, 32, 3), 8) + HEAD,
        ),
        (
            "celeba",
            (109, 89, 3),
            10,
            "binary",
            6 * FACE + 10 * gate((109, 89, 3), 6) + 10 * (4 * 3 + 1),
        ),
    ],
)
def test_published_architectures(
    name: str,
    shape: tuple[int, ...],
    num_tasks: int,
    kind: str,
    expected: int,
) -> None:
    tasks = {f"task_{i}": kind for i in range(num_tasks)}
    data = dataset(name, shape, tasks, num_classes=10, rows=10)
    config = resolve_config(
        TrainConfig("data", "run", gate="top-k"), data.schema
    )
    assert config.preset == name
    assert build_model(config, data).count_params() == expected


def test_published_numbers_of_experts() -> None:
    assert {
        name: (sizes.num_experts, sizes.k) for name, sizes in PRESETS.items()
    } == {
        "compact": (8, 2),
        "movielens": (16, 2),
        "celeba": (6, 2),
        "cifar10": (8, 2),
        "digits": (8, 2),
        "multi-fashion-mnist": (5, 2),
        "multi-mnist": (16, 4),
        "svhn": (8, 2),
    }


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name", [name for name in GATES if gate_class(name).feature_rank]
)
def test_predicts_with_every_gate(name: str) -> None:
    outputs = predict(build(gate=name), dataset().split("test"))
    assert list(outputs) == ["kind", "old"]
    assert outputs["kind"].shape == (20, 3)
    np.testing.assert_allclose(outputs["kind"].sum(axis=1), 1, rtol=1e-5)
    assert outputs["old"].shape == (20, 1)
    assert ((outputs["old"] > 0) & (outputs["old"] < 1)).all()
    assert all(values.dtype == np.float32 for values in outputs.values())


def test_hash_gates_have_no_id() -> None:
    with pytest.raises(ValueError, match="`gate` must not be 'hash', which"):
        build(gate="hash")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("architecture", ["moe", "cgc", "shared-bottom"])
def test_other_architectures(architecture: str) -> None:
    outputs = predict(build(architecture=architecture), dataset().split("test"))
    assert outputs["kind"].shape == (20, 3)


def test_a_shared_bottom_is_one_expert() -> None:
    data = dataset("svhn", (32, 32, 3), {"digit": "multiclass"}, 10, 10)
    config = TrainConfig("data", "run", architecture="shared-bottom")
    model = build_model(resolve_config(config, data.schema), data)
    assert model.count_params() == COLOUR + DENSE + HEAD


def test_a_shared_bottom_may_have_dense_layers_of_its_own() -> None:
    model = build(architecture="shared-bottom", bottom_units=[7, 9])
    dense = [
        layer.units
        for layer in model.mixture.layer.layers
        if isinstance(layer, keras.layers.Dense)
    ]
    assert dense == [7, 9]


def test_levels_are_not_for_images() -> None:
    with pytest.raises(ValueError, match="`architecture` must not be 'ple'"):
        build(architecture="ple")


def test_dropout_is_what_is_asked_for() -> None:
    model = build(expert_dropout=0.25)
    rates = [
        layer.rate
        for layer in each_layer(model)
        if isinstance(layer, keras.layers.Dropout)
    ]
    assert rates == [0.25] * 4


def test_pixels_are_scaled_to_one() -> None:
    model = build()
    white = np.full((1, 16, 16, 1), 255, np.uint8)
    images, pixels = model.mixture_inputs({"image": white}, training=False)
    assert (to_numpy(images) == 1).all()
    twice = {"image": 2 * white.astype(np.uint16)}
    images, _ = model.mixture_inputs(twice, training=False)
    assert (to_numpy(images) == 2).all()
    assert tuple(images.shape) == (1, 16, 16, 1)
    assert tuple(pixels.shape) == (1, 256)


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize("name", ["top-k", "moesart"])
def test_sparse_execution_gives_the_same_as_dense(name: str) -> None:
    images = dataset().split("test")
    dense = build(gate=name, execution="dense")
    sparse = build(gate=name, execution="sparse")
    sparse.set_weights(dense.get_weights())
    expected = predict(dense, images)
    for task, values in predict(sparse, images).items():
        np.testing.assert_allclose(values, expected[task], rtol=1e-4, atol=1e-6)


def test_experts_differ() -> None:
    experts = build().mixture.experts.experts
    kernels = [to_numpy(expert.layers[0].kernel) for expert in experts]
    assert np.std(kernels, axis=0).min() > 0


def test_saved_model_predicts_the_same(tmp_path: Path) -> None:
    model = build(gate="comet")
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    assert restored.image_shape == [16, 16, 1]
    assert restored.num_classes == {"kind": 3}
    images = dataset().split("test")
    expected = predict(model, images)
    for task, values in predict(restored, images).items():
        np.testing.assert_array_equal(values, expected[task])


@pytest.mark.traced_once("jax")
def test_scores_are_the_predictions_and_the_experts() -> None:
    model, images = build(k=3), dataset().split("test")
    scores = Scorer(model, batch_size=8).score(images)
    for task, values in predict(model, images).items():
        expected = values[:, 0] if task == "old" else values
        np.testing.assert_allclose(
            scores.predictions[task], expected, rtol=1e-5, atol=1e-6
        )
        assert scores.predictions[task].dtype == np.float64
        assert scores.experts[task].tolist() == [3] * 20


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            dataset(tasks={"kind": "multiclass"}),
            "a column 'old' of type bin",
        ),
        (dataset(shape=(16, 17, 1)), r"images \(16, 16, 1\), as in training"),
        (dataset(num_classes=4), "one of 3 classes of 'kind', as in training"),
    ],
)
def test_data_that_do_not_fit(other: ImageDataset, message: str) -> None:
    model = build()
    model.check_fits(dataset())
    with pytest.raises(DataError, match=message):
        model.check_fits(other)


def test_an_image_that_is_too_small() -> None:
    with pytest.raises(ValueError, match="negative"):
        build(dataset(shape=(8, 8, 1)))


@pytest.mark.once("torch")
def test_experts_are_diagnosed() -> None:
    """Classes and images have gradients, and channels are units."""
    data = dataset()
    model, rows = build(data), data.split("validation")
    labels = labels_of(rows, model.tasks)
    weights = dict.fromkeys(TASKS, 0.5)
    found = diagnose(model, model.encode(rows), labels, weights)
    (bank,) = found.banks
    for task in TASKS:
        assert bank.load[task].sum() == pytest.approx(2)
    used = ~bank.dead
    assert np.isfinite(bank.dead_units[used]).all()
    assert np.isnan(bank.dead_units[~used]).all()
    total = sum(bank.gradient.values())
    assert (total[used] > 0).all()
    assert (total[~used] == 0).all()
