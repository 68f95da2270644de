import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import LayerExperts
from tests.gradients import gradient_function
from tests.keras_moe.layers.layer_test import check_layer


def dense_experts(count: int, units: int = 2) -> list[keras.layers.Layer]:
    return [keras.layers.Dense(units) for _ in range(count)]


def test_all_experts_see_all_rows(rng: np.random.Generator) -> None:
    layers = dense_experts(3)
    x = rng.normal(size=(4, 5)).astype("float32")
    outputs = to_numpy(LayerExperts(layers)(x))
    for expert, layer in enumerate(layers):
        np.testing.assert_allclose(
            outputs[:, expert], to_numpy(layer(x)), rtol=1e-5
        )


@pytest.mark.parametrize("sizes", [(2, 0, 3), (0, 6, 0), (30, 1, 9)])
def test_groups_are_computed_by_their_expert(
    sizes: tuple[int, ...], rng: np.random.Generator
) -> None:
    layers = dense_experts(3)
    rows = rng.normal(size=(sum(sizes) + 1, 5)).astype("float32")
    outputs = to_numpy(
        LayerExperts(layers)(rows, group_sizes=np.array(sizes, "int32"))
    )
    start = 0
    for layer, size in zip(layers, sizes, strict=True):
        group = slice(start, start + size)
        if size:
            expected = to_numpy(layer(rows[group]))
            np.testing.assert_allclose(
                outputs[group], expected, rtol=1e-5, atol=1e-6
            )
        start += size
    assert outputs.shape == (len(rows), 2)
    assert np.isfinite(outputs[-1]).all()


def test_convolutions_in_a_graph_compute_every_row(
    rng: np.random.Generator,
) -> None:
    sizes = (3, 0, 5)
    layers = [
        keras.Sequential([keras.layers.Conv2D(2, 3), keras.layers.Flatten()])
        for _ in sizes
    ]

    class Grouped(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.experts = LayerExperts(layers)

        def call(self, inputs: object) -> object:
            return self.experts(inputs, group_sizes=np.array(sizes, "int32"))

    images = rng.normal(size=(8, 6, 6, 1)).astype("float32")
    outputs = Grouped().predict(images, verbose=0)
    expected = [
        to_numpy(layers[0](images[:3])),
        to_numpy(layers[2](images[3:])),
    ]
    np.testing.assert_allclose(outputs, np.concatenate(expected), atol=1e-5)


def test_gradients_in_groups_are_those_of_each_layer(
    rng: np.random.Generator,
) -> None:
    # Several blocks for the first, none for the second.
    sizes = (25, 0, 6)
    rows = rng.normal(size=(sum(sizes), 6, 1)).astype("float32")
    layers = [
        keras.Sequential(
            [
                keras.layers.Conv1D(3, 2, activation="tanh"),
                keras.layers.Flatten(),
                keras.layers.Dense(2),
            ]
        )
        for _ in sizes
    ]
    experts = LayerExperts(layers)
    experts.build(rows.shape)
    variables = experts.trainable_variables
    ends = np.cumsum(sizes)

    def in_groups(rows: Any) -> Any:
        return experts(rows, group_sizes=np.array(sizes, "int32"))

    def one_by_one(rows: Any) -> Any:
        groups = zip(layers, ends - sizes, ends, strict=True)
        return ops.concatenate([e(rows)[start:end] for e, start, end in groups])

    got, expected = (
        gradient_function(
            lambda rows, run=run: ops.sum(ops.square(run(rows) - 1)), variables
        )(*[variable.value for variable in variables], rows)
        for run in (in_groups, one_by_one)
    )
    for grad, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(grad, wanted, rtol=1e-4, atol=1e-5)


def test_every_row_and_call_draws_its_own_dropout() -> None:
    experts = LayerExperts([keras.layers.Dropout(0.5, seed=0)])
    rows = np.ones((40, 50), "float32")
    first, second = (
        to_numpy(experts(rows, group_sizes=np.array([40]), training=True))
        for _ in range(2)
    )
    assert set(np.unique(first)) == {0.0, 2.0}
    assert len(np.unique(first, axis=0)) == 40
    assert not np.array_equal(first, second)


def test_it_is_a_proper_layer(tmp_path: Path, rng: np.random.Generator) -> None:
    check_layer(
        lambda: LayerExperts(dense_experts(3)),
        rng.normal(size=(4, 5)).astype("float32"),
        folder=tmp_path,
        output_shape=(4, 3, 2),
        trainable_weights=6,
    )


def test_a_layer_that_mixes_rows_is_an_obstacle() -> None:
    batch = keras.Sequential([keras.layers.BatchNormalization()], name="cnn")
    assert "'cnn'" in str(LayerExperts([batch]).sparse_unsupported_reason)
    active = keras.layers.Dense(2, activity_regularizer="l2")
    assert "activity" in str(LayerExperts([active]).sparse_unsupported_reason)
    assert LayerExperts(dense_experts(2)).sparse_unsupported_reason is None


class Counter(keras.layers.Layer):
    """Counts its calls: a change that cannot leave a branch."""

    def build(self, input_shape: object) -> None:
        self.count = self.add_weight(initializer="zeros", trainable=False)

    def call(self, inputs: object) -> object:
        self.count.assign_add(1.0)
        return inputs


def test_a_layer_that_changes_variables_cannot_run_in_groups() -> None:
    experts = LayerExperts([Counter(), Counter()])
    with pytest.raises(ValueError, match="neither adds losses nor changes"):
        experts(np.ones((4, 5)), group_sizes=np.array([3, 1]))


def test_wrong_experts_are_named() -> None:
    with pytest.raises(TypeError, match="`experts` must be a list of Keras"):
        LayerExperts(["dense"])
    with pytest.raises(ValueError, match="at least one layer"):
        LayerExperts([])
    layer = keras.layers.Dense(2)
    with pytest.raises(ValueError, match="must be different layers"):
        LayerExperts([layer, layer])
    unlike = LayerExperts([keras.layers.Dense(2), keras.layers.Dense(3)])
    with pytest.raises(
        ValueError, match=re.escape("`experts` must share one output shape")
    ):
        unlike(np.ones((2, 4)))
