import lzma
import os
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers.conditionally_overlapping_mlp import (
    ConditionallyOverlappingMLP,
)
from tests.compiled import compiled
from tests.gradients import gradient
from tests.gradients import weight_gradient
from tests.keras_moe.layers.layer_test import check_layer


def assign(mlp, routing_kernels, kernels):
    """Gives an MLP without biases its matrices."""
    mlp.build((None, len(kernels[0])))
    for mask, kernel in zip(mlp.masks, routing_kernels, strict=True):
        mask.routing_kernel.assign(kernel)
    for dense, kernel in zip(mlp.dense_layers, kernels, strict=True):
        dense.kernel.assign(kernel)
    return mlp


def masks_of(mlp, inputs):
    """The masks of all hidden layers, side by side: what passes of ones."""

    def follow(routing):
        masks = []
        for units, mask in zip(mlp.units[:-1], mlp.masks, strict=True):
            ones = ops.ones((*inputs.shape[:-1], units))
            passed, routing = mask(ones, routing)
            masks.append(passed)
        return ops.concatenate(masks, axis=-1)

    return follow_compiled(mlp, follow, inputs)


def activations_of(mlp, inputs):
    """The masked activations of all hidden layers, side by side."""

    def follow(routing):
        activations = [routing]
        for dense, mask in zip(mlp.dense_layers[:-1], mlp.masks, strict=True):
            hidden, routing = mask(dense(activations[-1]), routing)
            activations.append(hidden)
        return ops.concatenate(activations[1:], axis=-1)

    return follow_compiled(mlp, follow, inputs)


def follow_compiled(mlp, follow, inputs):
    if not mlp.built:
        mlp.build(inputs.shape)
    return compiled(follow)(inputs)


def reference(mlp, inputs):
    """The forward pass in NumPy, sorting each row, ties by index."""
    x = z = inputs
    for dense, mask, rate in zip(
        mlp.dense_layers[:-1], mlp.masks, mlp.keep_rate, strict=True
    ):
        c = z @ to_numpy(mask.routing_kernel)
        k = max(1, int(np.floor(rate * c.shape[-1])))
        m = np.zeros_like(c)
        np.put_along_axis(m, np.argsort(-c, kind="stable")[:, :k], 1, axis=-1)
        z = m * c
        x = m * np.tanh(x @ to_numpy(dense.kernel) + to_numpy(dense.bias))
    output = mlp.dense_layers[-1]
    return x @ to_numpy(output.kernel) + to_numpy(output.bias)


def cosines(a, b):
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return (a * b).sum(axis=-1) / norms


def test_a_forward_pass_by_hand():
    mlp = ConditionallyOverlappingMLP(
        [2, 2, 1], 0.5, activation="linear", use_bias=False
    )
    routing_kernels = [np.eye(2), np.array([[1.0, 2.0], [1.0, -1.0]])]
    kernels = [np.eye(2), np.array([[1.0, 1.0], [5.0, 7.0]]), [[2.0], [3.0]]]
    assign(mlp, routing_kernels, kernels)
    x = np.array([[1.0, 3.0], [4.0, 2.0]], "float32")
    # (1, 3): unit 2 wins, z = (0, 3), x = (0, 3); then c = (3, -3), unit 1
    # wins, x = (3 * 5, 0), and the output is 30.
    # (4, 2): unit 1 wins, z = (4, 0), x = (4, 0); then c = (4, 8), unit 2
    # wins, x = (0, 4), and the output is 12.
    assert to_numpy(mlp(x)).tolist() == [[30], [12]]


@pytest.mark.parametrize("keep_rate", [0.5, [0.1, 0.9], 1])
def test_matches_numpy(keep_rate, rng):
    mlp = ConditionallyOverlappingMLP(
        [7, 6, 3], keep_rate, bias_initializer="random_normal", seed=0
    )
    x = rng.normal(size=(20, 5)).astype("float32")
    np.testing.assert_allclose(
        to_numpy(mlp(x)), reference(mlp, x), rtol=1e-4, atol=1e-5
    )


def test_exactly_k_units_of_each_layer_pass_and_the_output_is_not_masked(rng):
    mlp = ConditionallyOverlappingMLP([9, 5, 8], [0.5, 0.1])
    x = rng.normal(size=(20, 6)).astype("float32")
    masks = masks_of(mlp, x)
    assert [mask.k for mask in mlp.masks] == [4, 1]
    assert (masks[:, :9].sum(axis=-1) == 4).all()
    assert (masks[:, 9:].sum(axis=-1) == 1).all()
    assert to_numpy(mlp(x)).all()


def test_a_rate_of_one_is_a_plain_perceptron(rng):
    mlp = ConditionallyOverlappingMLP([7, 6, 3], 1, activation="relu")
    plain = keras.Sequential(mlp.dense_layers)
    x = rng.normal(size=(4, 5)).astype("float32")
    np.testing.assert_allclose(
        to_numpy(mlp(x)), to_numpy(plain(x)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keep_rate", [0.3, [0.1, 0.9], 1])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (2, 3, 5), (0, 5)])
def test_sparse_execution_computes_the_same(keep_rate, shape, rng):
    mlp = ConditionallyOverlappingMLP(
        [11, 7, 3],
        keep_rate,
        bias_initializer="random_normal",
        output_activation="sigmoid",
        seed=0,
    )
    x = rng.normal(size=(1, *shape)).astype("float32")
    dense = to_numpy(mlp(x))
    mlp.execution = "sparse"
    sparse = to_numpy(mlp(x))
    assert sparse.shape == dense.shape
    np.testing.assert_allclose(sparse, dense, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        to_numpy(compiled(mlp)(x)), dense, rtol=1e-4, atol=1e-6
    )


def test_sparse_execution_breaks_ties_alike(rng):
    """Equal columns of the routing, zeros, and inputs that are not a number."""
    mlp = ConditionallyOverlappingMLP([8, 6, 2], 0.5, use_bias=False, seed=0)
    x = rng.normal(size=(4, 5)).astype("float32")
    x[1] = 0
    x[2, 3] = np.nan
    mlp.build(x.shape)
    mlp.masks[0].routing_kernel.assign(np.ones((5, 8)))
    dense = to_numpy(mlp(x))
    mlp.execution = "sparse"
    np.testing.assert_allclose(to_numpy(mlp(x)), dense, rtol=1e-4, atol=1e-6)
    assert np.isnan(dense).any(axis=1).tolist() == [False, False, True, False]


def test_sparse_execution_has_the_same_gradients(rng):
    mlp = ConditionallyOverlappingMLP([8, 6, 2], 0.5, seed=0)
    x = rng.normal(size=(4, 5)).astype("float32")
    mlp.build(x.shape)

    def loss(x):
        return ops.sum(ops.square(mlp(x)))

    def gradients():
        kernels = [dense.kernel for dense in mlp.dense_layers]
        return [
            *gradient(loss, x),
            *weight_gradient(lambda: loss(x), kernels),
        ]

    expected = gradients()
    mlp.execution = "sparse"
    for found, wanted in zip(gradients(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_sparse_execution_is_saved(tmp_path, rng):
    mlp = ConditionallyOverlappingMLP([8, 2], 0.5, execution="sparse")
    model = keras.Sequential([keras.Input((5,)), mlp])
    x = rng.normal(size=(3, 5)).astype("float32")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.layers[0].execution == "sparse"
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0), to_numpy(model(x)), rtol=1e-5, atol=1e-6
    )


def test_sparse_execution_in_half_precision(rng):
    mlp = ConditionallyOverlappingMLP([32, 4], 0.25, dtype="mixed_bfloat16")
    x = rng.normal(size=(6, 5)).astype("float32")
    dense = mlp(x)
    mlp.execution = "sparse"
    sparse = mlp(x)
    assert sparse.dtype == dense.dtype
    sparse, dense = (to_numpy(ops.cast(y, "float32")) for y in (sparse, dense))
    np.testing.assert_allclose(sparse, dense, atol=0.03)


def test_any_leading_dimensions(rng):
    mlp = ConditionallyOverlappingMLP([6, 3], 0.5)
    x = rng.normal(size=(2, 3, 5, 4)).astype("float32")
    np.testing.assert_allclose(
        to_numpy(mlp(x)).reshape(30, 3),
        to_numpy(mlp(x.reshape(30, 4))),
        rtol=1e-5,
        atol=1e-6,
    )


def test_training_changes_the_weights_and_no_mask(rng):
    mlp = ConditionallyOverlappingMLP([8, 8, 2], 0.25)
    x = rng.normal(size=(32, 5)).astype("float32")
    masks, activations = masks_of(mlp, x), activations_of(mlp, x)
    matrices = [to_numpy(mask.routing_kernel) for mask in mlp.masks]
    model = keras.Sequential([mlp])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(x, x[:, :2], epochs=3, verbose=0)
    np.testing.assert_array_equal(masks_of(mlp, x), masks)
    assert (activations_of(mlp, x) != activations)[masks > 0].mean() > 0.9
    for mask, matrix in zip(mlp.masks, matrices, strict=True):
        np.testing.assert_array_equal(to_numpy(mask.routing_kernel), matrix)


def test_gradients_take_the_masks_as_given(rng):
    """They are those of a network whose masks are constants."""
    mlp = ConditionallyOverlappingMLP([8, 6, 2], 0.5)
    x = rng.normal(size=(4, 5)).astype("float32")
    masks = np.split(masks_of(mlp, x), [8], axis=-1)

    def with_constant_masks(x):
        for dense, mask in zip(mlp.dense_layers, masks, strict=False):
            x = ops.multiply(dense(x), mask)
        return ops.sum(ops.square(mlp.dense_layers[-1](x)))

    (grad,) = gradient(lambda x: ops.sum(ops.square(mlp(x))), x)
    (expected,) = gradient(with_constant_masks, x)
    np.testing.assert_allclose(grad, expected, rtol=1e-4, atol=1e-6)


def test_only_the_routing_matrices_are_not_trained():
    mlp = ConditionallyOverlappingMLP([8, 6, 2], 0.5)
    mlp.build((None, 5))
    assert [w.shape for w in mlp.non_trainable_weights] == [(5, 8), (8, 6)]
    assert len(mlp.trainable_weights) == 6


def test_no_two_matrices_are_alike_and_a_seed_repeats_them():
    def draw():
        mlp = ConditionallyOverlappingMLP([4, 4, 4], 0.5, seed=1)
        mlp.build((None, 4))
        return [to_numpy(w) for w in mlp.weights if len(w.shape) == 2]

    matrices = draw()
    np.testing.assert_array_equal(matrices, draw())
    # Up to their scale.
    directions = [m.ravel() / np.linalg.norm(m) for m in matrices]
    likeness = np.abs(np.inner(directions, directions)) - np.eye(5)
    assert likeness.max() < 0.9


def test_kernels_and_routing_kernels_are_drawn_as_published():
    """Section 3: from U(-1/√p, 1/√p), whose variance is 1/(3p)."""
    mlp = ConditionallyOverlappingMLP([300, 100, 90], 0.5, seed=0)
    mlp.build((None, 50))
    kernels = [dense.kernel for dense in mlp.dense_layers]
    for kernel in kernels + [mask.routing_kernel for mask in mlp.masks]:
        bound = kernel.shape[0] ** -0.5
        values = to_numpy(kernel)
        assert 0.999 * bound < values.max() <= bound * (1 + 1e-6)
        assert 0.999 * bound < -values.min() <= bound * (1 + 1e-6)
        # Four standard errors: those of a square's mean are 0.9 / √size.
        error = values.size**-0.5
        assert abs(values.var() * 3 / bound**2 - 1) < 4 * 0.9 * error
        assert abs(values.mean() / bound) < 4 * 3**-0.5 * error
    for dense in mlp.dense_layers:
        assert not to_numpy(dense.bias).any()


def test_another_initializer_may_be_given():
    mlp = ConditionallyOverlappingMLP([300, 90], 0.5, kernel_initializer="ones")
    mlp.build((None, 50))
    assert (to_numpy(mlp.dense_layers[0].kernel) == 1).all()
    config = mlp.get_config()
    config["kernel_initializer"] = "glorot_uniform"
    glorot = ConditionallyOverlappingMLP.from_config(config)
    glorot.build((None, 50))
    largest = np.abs(to_numpy(glorot.dense_layers[0].kernel)).max()
    # Glorot's bound, which is below the published one.
    assert largest <= (6 / 350) ** 0.5 < 0.99 * 50**-0.5


def test_half_precision_keeps_the_masks(rng):
    """Neighbours in float32 that half precision does not tell apart."""
    order = rng.permutation(8)
    x = (1 + 1e-6 * order[None]).astype("float32")
    mlp = ConditionallyOverlappingMLP(
        [8, 8],
        0.5,
        activation=lambda x: 0 * x + 1,
        use_bias=False,
        dtype="mixed_bfloat16",
    )
    assign(mlp, [np.eye(8)], [np.eye(8), np.eye(8)])
    outputs = mlp(x)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    passed = to_numpy(ops.cast(outputs, "float32"))[0]
    assert passed.tolist() == (order >= 4).tolist()


def test_layer(rng, tmp_path):
    check_layer(
        lambda: ConditionallyOverlappingMLP(
            [6, 5, 2],
            [0.5, 0.25],
            output_activation="sigmoid",
            kernel_regularizer="l2",
            seed=3,
        ),
        rng.normal(size=(7, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(7, 2),
        trainable_weights=6,
        non_trainable_weights=2,
    )


def test_padding_is_passed_on():
    tokens = keras.layers.Masking()(np.array([[[1.0, 2.0], [0.0, 0.0]]]))
    outputs = ConditionallyOverlappingMLP([4, 3], 0.5)(tokens)
    assert to_numpy(outputs._keras_mask).tolist() == [[True, False]]


@pytest.mark.traced_once("tensorflow")
def test_overlap_rises_with_similarity_and_sparsity_sharpens_it(rng):
    """Figure 2: (a) of the masks, (b) of the masked activations."""
    wanted = np.linspace(0, 0.95, 400)[:, None]
    first, noise = rng.normal(size=(2, 400, 100))
    second = wanted * first + np.sqrt(1 - wanted**2) * noise
    bins = np.array_split(np.argsort(cosines(first, second)), 5)
    pairs = np.concatenate([first, second]).astype("float32")
    activation_overlaps = []
    for keep_rate in (0.1, 0.5, 1.0):
        mlp = ConditionallyOverlappingMLP([128, 128, 1], keep_rate, seed=0)
        mask_overlap, activation_overlap = (
            np.array([overlap[rows].mean() for rows in bins])
            for overlap in (
                cosines(*np.split(masks_of(mlp, pairs), 2)),
                cosines(*np.split(activations_of(mlp, pairs), 2)),
            )
        )
        assert (np.diff(activation_overlap) > 0).all()
        activation_overlaps.append(activation_overlap)
        if keep_rate == 1:
            np.testing.assert_allclose(mask_overlap, 1, rtol=1e-6)
        else:
            assert (np.diff(mask_overlap) > 0.02).all()
            # Inputs that have nothing in common overlap by chance.
            assert keep_rate - 0.02 < mask_overlap[0] < keep_rate + 0.1
    # A narrower kernel: at equal similarity, less is shared.
    assert (np.diff(activation_overlaps, axis=0)[:, 1:] > 0).all()


@pytest.fixture
def cifar10_images():
    """Real images `(1500, 3072)`, standardised by channel."""
    folder = Path(os.environ.get("RECSYS_DATA", "")) / "cifar10-part"
    path = folder / "data_batch_1.bin.xz"
    if not path.exists():
        pytest.skip("RECSYS_DATA names no folder with cifar10-part")
    # Each record is a label and 1024 values for each of 3 channels.
    records = np.frombuffer(lzma.decompress(path.read_bytes()), np.uint8)
    pixels = records.reshape(-1, 1 + 3072)[:1500, 1:].astype("float32")
    channels = pixels.reshape(-1, 3, 1024)
    channels -= channels.mean(axis=(0, 2), keepdims=True)
    channels /= channels.std(axis=(0, 2), keepdims=True)
    return channels.reshape(-1, 3072)


@pytest.mark.once("torch")
@pytest.mark.slow
def test_no_unit_is_dead_on_real_images(cifar10_images, rng):
    """Section 4.1.2: networks of 4 layers, widths and rates drawn at random.

    A unit is dead when no image of the data set activates it.
    """
    dead = units = 0
    for _ in range(4):
        widths = [int(width) for width in rng.integers(100, 1000, size=3)]
        mlp = ConditionallyOverlappingMLP(
            [*widths, 10], keep_rate=rng.uniform(0, 0.95)
        )
        masks = masks_of(mlp, cifar10_images)
        dead += (~masks.any(axis=0)).sum()
        units += masks.shape[-1]
    assert dead / units < 1e-4


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"units": 8}, ValueError, "`units` must be a list of the widths"),
        ({"units": [8]}, ValueError, "`units` must be a list of the widths"),
        ({"units": [8, 0]}, ValueError, "`units` must be at least 1"),
        ({"units": [8, 2.5]}, TypeError, "`units` must be an integer"),
        ({"keep_rate": 0}, ValueError, "`keep_rate` must be a finite number"),
        ({"keep_rate": 1.5}, ValueError, "`keep_rate` must be at most 1"),
        (
            {"execution": "fast"},
            ValueError,
            "`execution` must be one of 'dense', 'sparse'",
        ),
        ({"keep_rate": "a"}, TypeError, "`keep_rate` must be a number"),
        (
            {"keep_rate": [0.5]},
            ValueError,
            "`keep_rate` must be a number, or a list of one for each of the "
            "2 hidden layers. Received: keep_rate=[0.5]",
        ),
    ],
)
def test_refuses_other_arguments(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        ConditionallyOverlappingMLP(
            **{"units": [4, 4, 2], "keep_rate": 0.5, **arguments}
        )
    assert "Received: " in str(caught.value)
