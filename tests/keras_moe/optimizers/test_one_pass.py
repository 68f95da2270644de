"""Where the kernels are used and where not, and what is saved of them."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import pytest

import keras_moe

BACKEND = keras.backend.backend()
NAMES = ("Adam", "Adagrad")
KERNELS = {"Adam": "ResourceApplyAdam", "Adagrad": "ResourceApplyAdagradV2"}

on_tensorflow = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="kernels of TensorFlow"
)
on_torch = pytest.mark.skipif(BACKEND != "torch", reason="kernels of PyTorch")


def created(package: Any, name: str, **options: Any) -> Any:
    options = {"name": "same", **options}
    return getattr(package.optimizers, name)(0.1, **options)


def model_of(optimizer: Any) -> keras.Model:
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer, loss="mse", jit_compile=False)
    return model


def train(model: keras.Model) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 3)), rng.normal(size=(16, 1))
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("begins", [keras, keras_moe])
def test_a_checkpoint_of_either_goes_on_with_the_other(
    name: str, begins: Any, tmp_path: Path
) -> None:
    goes_on = keras_moe if begins is keras else keras
    model = model_of(created(begins, name))
    train(model)
    model.save_weights(tmp_path / "whole.weights.h5")
    resumed = model_of(created(goes_on, name))
    resumed.optimizer.build(resumed.trainable_variables)
    resumed.load_weights(tmp_path / "whole.weights.h5")
    for theirs, ours in zip(
        model.optimizer.variables, resumed.optimizer.variables, strict=True
    ):
        assert (ours.path, ours.shape) == (theirs.path, theirs.shape)
        np.testing.assert_array_equal(
            *map(keras.ops.convert_to_numpy, (ours, theirs))
        )
    train(model)
    train(resumed)
    for theirs, ours in zip(model.weights, resumed.weights, strict=True):
        np.testing.assert_allclose(
            *map(keras.ops.convert_to_numpy, (ours, theirs)), 1e-5, 1e-6
        )


@pytest.mark.parametrize("name", NAMES)
def test_saved_models_have_it_again(name: str, tmp_path: Path) -> None:
    model = model_of(created(keras_moe, name, epsilon=1e-6, clipnorm=0.5))
    train(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is getattr(keras_moe.optimizers, name)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert int(loaded.optimizer.iterations) == 4
    assert isinstance(loaded.optimizer, getattr(keras.optimizers, name))


@pytest.mark.parametrize("name", NAMES)
def test_arguments_and_errors_are_those_of_keras(name: str) -> None:
    theirs = created(keras, name).get_config()
    assert created(keras_moe, name).get_config() == theirs
    with pytest.raises(ValueError, match="Only one of `clipnorm`"):
        created(keras_moe, name, clipnorm=1.0, clipvalue=1.0)
    with pytest.raises(ValueError, match="not recognized"):
        created(keras_moe, name, unknown=1)


def operations(optimizer: Any, gradients: list[Any], dtype: str) -> list[str]:
    """The operations of a compiled step on TensorFlow."""
    import tensorflow as tf

    variables = [
        keras.Variable(np.ones(gradient.shape), dtype=dtype, name=f"v{index}")
        for index, gradient in enumerate(gradients)
    ]
    optimizer.build(variables)
    graph = (
        tf.function(lambda: optimizer.apply(gradients, variables))
        .get_concrete_function()
        .graph
    )
    return [operation.type for operation in graph.get_operations()]


@on_tensorflow
@pytest.mark.parametrize("name", NAMES)
def test_each_weight_is_changed_by_one_operation(name: str) -> None:
    import tensorflow as tf

    gradients = [tf.ones((3, 2)), tf.ones(4)]
    found = operations(created(keras_moe, name), gradients, "float32")
    assert found.count(KERNELS[name]) == 2
    # That of the number of steps.
    assert [each for each in found if each.startswith("Assign")] == [
        "AssignVariableOp"
    ]


@on_tensorflow
@pytest.mark.parametrize(
    ("name", "dtype", "options"),
    [
        ("Adam", "float32", {"amsgrad": True}),
        ("Adam", "bfloat16", {}),
        ("Adagrad", "bfloat16", {}),
        ("Adagrad", "float32", {"epsilon": 1e-3}),
        ("Adagrad", "float32", {"initial_accumulator_value": 0.0}),
    ],
)
def test_what_kernels_do_not_know_is_left_to_keras(
    name: str, dtype: str, options: dict[str, Any]
) -> None:
    import tensorflow as tf

    gradients = [tf.ones((3, 2), dtype)]
    found = operations(created(keras_moe, name, **options), gradients, dtype)
    assert not set(KERNELS.values()) & set(found)


@on_tensorflow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_rows_are_taken_as_keras_takes_them(name: str) -> None:
    import tensorflow as tf

    after = []
    for package in (keras, keras_moe):
        table = keras.Variable(np.ones((5, 2)), dtype="float32", name="table")
        rows = tf.IndexedSlices(
            tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
            tf.constant([1, 3, 1]),
            tf.constant([5, 2]),
        )
        optimizer = created(package, name)
        for _ in range(3):
            optimizer.apply([rows], [table])
        after.append(keras.ops.convert_to_numpy(table))
    np.testing.assert_array_equal(*after)


@on_torch
@pytest.mark.parametrize("name", NAMES)
def test_weights_and_gradients_in_any_order_in_memory(name: str) -> None:
    import torch

    after = []
    for package in (keras, keras_moe):
        variables = [
            keras.Variable(np.ones((3, 2)), dtype="float32", name=name)
            for name in "abc"
        ]
        variables[1].value.data = torch.arange(6.0).reshape(2, 3).T
        gradients = [
            torch.arange(6.0).reshape(2, 3).T,
            torch.arange(6.0).reshape(3, 2),
            torch.ones(()).expand(3, 2),
        ]
        optimizer = created(package, name)
        for _ in range(3):
            optimizer.apply(gradients, variables)
        after.append([variable.numpy() for variable in variables])
    for theirs, ours in zip(*after, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5)


@on_torch
@pytest.mark.parametrize(
    ("name", "kernel"), [("Adam", "_adam"), ("Adagrad", "_adagrad")]
)
def test_all_weights_are_changed_by_one_call(name: str, kernel: str) -> None:
    from keras_moe.optimizers import _torch_kernels

    original = getattr(_torch_kernels, kernel)
    with patch.object(_torch_kernels, kernel, side_effect=original) as called:
        train(model_of(created(keras_moe, name)))
    assert called.call_count == 4  # Steps.
    assert all(len(call.args[0]) == 4 for call in called.call_args_list)
    assert all(call.kwargs["fused"] for call in called.call_args_list)


REPLICAS = """
import keras, numpy as np, sys
import tensorflow as tf
import keras_moe

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
x, y = np.random.default_rng(0).normal(size=(2, 32, 3))
for name in ("Adam", "Adagrad"):
    after = []
    for package in (keras, keras_moe):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            model = keras.Sequential(
                [keras.Input((3,)), keras.layers.Dense(3)]
            )
            optimizer = getattr(package.optimizers, name)(0.1)
            model.compile(optimizer, loss="mse", jit_compile=False)
        model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        replicas = model.layers[0].kernel.value.values
        np.testing.assert_array_equal(*[each.numpy() for each in replicas])
        after.append(replicas[0].numpy())
    np.testing.assert_allclose(*after, 1e-5, 1e-5)
print("equal")
"""


@on_tensorflow
@pytest.mark.slow
@pytest.mark.usefixtures("warm_tensorflow")
def test_replicas_of_a_strategy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPLICAS],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.endswith("equal\n"), done.stderr
